"""Convolutions: which a library computes, in what layout, with what behind them; direct ones.

Comes in: a Relax module before decomposition. Goes out: the same with calls of cuDNN in place of
convolutions, transposed ones in steps as plain ones of more filters where that pays; but for those
that are products of matrices, and direct ones of few taps, which become stages. Must not know how
the library is found or called.
"""

from tvm_stitch.graph.front.convolution.direct import (
    DirectWeights,
    becomes_direct,
    has_direct,
)
from tvm_stitch.graph.front.convolution.products import (
    MOST_ELEMENTS,
    ConvolutionProducts,
    are_side_by_side,
    is_product,
)
from tvm_stitch.graph.front.convolution.rewrite import LibraryConvolutions

__all__ = [
    "MOST_ELEMENTS",
    "ConvolutionProducts",
    "DirectWeights",
    "LibraryConvolutions",
    "are_side_by_side",
    "becomes_direct",
    "has_direct",
    "is_product",
]
