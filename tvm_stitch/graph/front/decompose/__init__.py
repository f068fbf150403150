"""Compound operators become element-wise and reduction operators that can be stitched.

Comes in: a Relax module before LegalizeOps. Goes out: the same module, its softmaxes, norms,
activations, statistics and losses written out as small Relax operators that accumulate in
float32, its matrix products over what their operands are views of. Knows no kernel and no device.
"""

from tvm_stitch.graph.front.decompose.rewrite import Decompose
from tvm_stitch.graph.front.decompose.worth import worth_decomposing

__all__ = ["Decompose", "worth_decomposing"]
