"""The float64 truth that stitched kernels are judged against.

Comes in: an unfused Relax module and its inputs as NumPy arrays. Goes out: its outputs, evaluated
on the CPU with every floating dtype made float64, or inputs for it. Must not use graph/: a mistake
in a pass of this package has to show as a difference from the truth.
"""

from tvm_stitch.reference.evaluate import reference
from tvm_stitch.reference.float64 import in_float64
from tvm_stitch.reference.sampling import random_inputs, sizes_of

__all__ = ["in_float64", "random_inputs", "reference", "sizes_of"]
