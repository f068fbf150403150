"""Convolutions that a library computes: which, in what layout, with what behind them.

Comes in: a Relax module before decomposition. Goes out: the same with calls of cuDNN in place of
convolutions. Must not know how the library is found or called.
"""

from tvm_stitch.graph.front.convolution.rewrite import LibraryConvolutions

__all__ = ["LibraryConvolutions"]
