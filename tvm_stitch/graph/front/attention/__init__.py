"""Attention by one call: products around a softmax, scores never in memory.

Comes in: a Relax module before decomposition. Goes out: the same with calls of cuDNN, or of kernels
of this package, in place of attention. Must not know how the library is found or called, nor what
such a kernel does.
"""

from tvm_stitch.graph.front.attention.cost import OLDEST, is_slower
from tvm_stitch.graph.front.attention.match import refused_heads
from tvm_stitch.graph.front.attention.rewrite import FusedAttention

__all__ = ["OLDEST", "FusedAttention", "is_slower", "refused_heads"]
