"""What a convolution that a library computes is asked for, as data and as numbers of the call.

In: what Relax says of a convolution or of one of its gradients. Out: the arguments of the packed
function NAME, which `native/convolution.cc` reads in the same order. Knows no Relax.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NAME = "tvm_stitch.library.convolution"
"""The packed function: the tensors, the numbers of `encoded`, and the result to be written."""

WORKSPACE_BYTES = 96 << 20
"""What a call may work in as a rule; memory planning lets all calls share it."""

TF32_CHANNELS = 4
"""Of channels that are no multiple, tensor cores read rounded copies of the factors."""

FORWARD, DATA, WEIGHT = "forward", "data", "weight"
"""What is computed: the convolution, its gradient for the data, or for the weights."""
_WHAT = (FORWARD, DATA, WEIGHT)


@dataclass(frozen=True)
class Convolution:
    """A convolution apart from its tensors, whose element types and shapes come with them.

    The tensors of the call are, for FORWARD, the data and the weights; for DATA, the gradient of
    the result and the weights; for WEIGHT, the data and the gradient of the result; then the bias
    (one element a channel) and the residual (of the result's shape), as far as there are any. The
    result is relu(convolution + bias + residual). With `channels_last` data lie as NHWC and weights
    as OHWI, else as NCHW and OIHW, with as many spatial dimensions as there are strides. With
    `tf32` factors of float32 are rounded to TF32. Of those engines that the library's heuristics
    name, a `timed` call takes the fastest of some by the clock, the first time.
    """

    what: str
    channels_last: bool
    groups: int
    strides: tuple[int, ...]
    before: tuple[int, ...]  # zeros around the data
    after: tuple[int, ...]
    dilation: tuple[int, ...]
    bias: bool = False
    residual: bool = False
    relu: bool = False
    tf32: bool = False
    timed: bool = False

    def __str__(self) -> str:
        names = {FORWARD: "", DATA: "data's gradient", WEIGHT: "weights' gradient"}
        flags = {"bias": self.bias, "residual": self.residual, "ReLU": self.relu}
        flags |= {"TF32": self.tf32, "engine by the clock": self.timed}
        layout = "channels last" if self.channels_last else "channels first"
        given = (names[self.what], layout, *(name for name, on in flags.items() if on))
        return ", ".join(filter(None, given))

    @property
    def operators(self) -> tuple[str, ...]:
        """What it computes, as reports name operators."""
        transposed = "_transpose" if self.what == DATA else ""
        names = [f"conv{len(self.strides)}d{transposed}"]
        return (*names, *["add"] * (self.bias + self.residual), *["relu"] * self.relu)

    @property
    def tensors(self) -> int:
        """How many tensors the call takes, the result left out."""
        return 2 + self.bias + self.residual

    def workspace(self, *factors: Sequence[int]) -> int:
        """Bytes that the call may work in, for factors of these shapes.

        Without room for the copies, the weights' gradient of 64 images of 3 x 224 x 224 takes 1937
        us on an H200 where tensor cores take 406.
        """
        axis = -1 if self.channels_last else 1
        if not self.tf32 or all(shape[axis] % TF32_CHANNELS == 0 for shape in factors):
            return WORKSPACE_BYTES
        return WORKSPACE_BYTES + 4 * sum(map(math.prod, factors))

    def encoded(self) -> tuple[int, ...]:
        """The numbers of the call."""
        flags = self.channels_last, self.bias, self.residual, self.relu, self.tf32, self.timed
        spatial = (*self.strides, *self.before, *self.after, *self.dilation)
        return (_WHAT.index(self.what), *map(int, flags), self.groups, len(self.strides), *spatial)


def decoded(numbers: Sequence[int]) -> Convolution:
    """The convolution of a call."""
    what, *flags, groups, rank = map(int, numbers[:9])
    channels_last, *others = map(bool, flags)
    spatial = tuple(map(int, numbers[9:]))
    strides, before, after, dilation = (spatial[n * rank : (n + 1) * rank] for n in range(4))
    return Convolution(
        _WHAT[what], channels_last, groups, strides, before, after, dilation, *others
    )
