"""Sums that are written at length: of products, and of slices of one tensor.

Comes in: a Relax module before decomposition. Goes out: the same with one product in place of many
that are added up, as in gradients of recurrent layers, or of broadcast factors, and one
concatenation in place of tensors that are zero but for a slice each; on request products of float32
as sums of three by tensor cores.
Must not know kernels.
"""

from tvm_stitch.graph.front.sums.contractions import Contractions
from tvm_stitch.graph.front.sums.rewrite import LongSums
from tvm_stitch.graph.front.sums.split_factors import SplitFactors

__all__ = ["Contractions", "LongSums", "SplitFactors"]
