"""Attention that a library computes: products around a softmax, scores never in memory.

Comes in: a Relax module before decomposition. Goes out: the same with calls of cuDNN in place of
attention. Must not know how the library is found or called.
"""

from tvm_stitch.graph.front.attention.cost import OLDEST
from tvm_stitch.graph.front.attention.match import refused_heads
from tvm_stitch.graph.front.attention.rewrite import LibraryAttention

__all__ = ["OLDEST", "LibraryAttention", "refused_heads"]
