"""Direct convolutions, of few products an element: a sum of products, written out.

In: a call of one of Relax's convolutions that has filters of its own for every channel (depthwise,
or over a single channel), or a single filter over few channels. Out: its TIR, for LegalizeOps: one
element-wise stage per row of the window, so that the ILP joins it with what is element-wise around
it, where a library's kernel writes its result for others to read. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain, product
from math import prod
from operator import add

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.convolution.choose import (
    convolutions_of,
    is_plain,
    spatial_axes,
    stated_layouts,
)
from tvm_stitch.graph.front.dataflow import as_variable, in_blocks, name_of
from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, dtype_of, has_shape, shape_of
from tvm_stitch.graph.front.pooling.windows import Windows
from tvm_stitch.stages.stage import constant

Taps = Sequence[int]  # a channel of a filter, and a place in the window on each axis

CONVOLUTIONS = tuple(f"nn.conv{rank}d" for rank in (1, 2, 3))
MOST_OF_SEVERAL = 64
"""Taps where a channel has several filters: cuDNN launches a kernel for each channel then."""
MOST_OF_A_CHANNEL = 25
"""Where there is but one channel: 64 filters of 49 taps take 278 us, cuDNN 156."""
MOST_OF_ONE = 169
"""Taps where it has one: behind that, writing them out takes longer than it is worth."""
MOST_CHANNELS = 3
"""Channels that a single filter reads."""
CUDNNS = (7, 7)
"""Of windows that are not soon written, the one that cuDNN has a kernel for which is as fast."""

# Where channels are last, each tap loads vectors of its own, and those of a stage come at once:
# with a line of 31, a norm behind which threads have 64 registers spilled 660 bytes of each. Of
# longer lines than the first, stages have as many taps as the second, and it spills nothing.
LONG_LINE, PIECE = 8, 4


def is_direct(call: Expr) -> bool:
    """Whether an expression is such a convolution, of few enough taps."""
    if name_of(call) not in CONVOLUTIONS or not all(map(has_shape, (*call.args, call))):
        return False
    data, weight, out = stated_layouts(call)
    dtypes = {str(dtype_of(each)) for each in (*call.args, call)}
    if out != data or len(dtypes) > 1 or dtypes.isdisjoint(ACCUMULATORS):
        return False
    if not is_plain(data, "NC") or not is_plain(weight, "OI"):
        return False
    sizes = dict(zip(weight, map(constant, shape_of(call.args[1])), strict=True))
    channels = constant(shape_of(call.args[0])[data.index("C")])
    window = [sizes[axis] for axis in spatial_axes(weight)]
    return becomes_direct(int(call.attrs.groups), channels, sizes["O"], sizes["I"], window)


def becomes_direct(
    groups: int,
    channels: int | None,
    filters: int | None,
    depth: int | None,
    window: Sequence[int | None],
) -> bool:
    """Whether few products make an element; what is None is not known yet."""
    if channels is None or depth is None or filters is None or groups * depth != channels:
        return False
    taps = depth * prod(size or MOST_OF_ONE + 1 for size in window)
    if depth != 1:
        return groups == filters == 1 and depth <= MOST_CHANNELS and taps <= MOST_OF_ONE
    if filters != channels:
        return taps <= (MOST_OF_SEVERAL if groups > 1 else MOST_OF_A_CHANNEL)
    return taps <= MOST_OF_ONE and tuple(window) != CUDNNS


def has_direct(mod: tvm.IRModule) -> bool:
    """Whether a module has any of them."""
    return any(map(is_direct, convolutions_of(mod)))


def legalize_convolution(builder: relax.BlockBuilder, call: Call) -> Expr:
    """The sum of products, if it is such a convolution; what TVM makes of it elsewhere."""
    if not is_direct(call):
        return call.op.get_attr("FLegalize")(builder, call)
    direct = _Direct(call)
    hint = f"direct_{call.op.name.rpartition('.')[2]}"
    return builder.call_te(direct.convolved, *call.args, primfunc_name_hint=hint)


def _rounded(total: te.Tensor, dtype: str, *at: Expr) -> Expr:
    return total(*at).astype(dtype)


class _Direct:
    """One such convolution in TIR."""

    def __init__(self, call: Call) -> None:
        self._data, self._weight, _ = stated_layouts(call)
        self._shape = shape_of(call)
        self._axes = [self._data.index(axis) for axis in spatial_axes(self._data)]
        extents = dict(zip(self._weight, shape_of(call.args[1]), strict=True))
        sizes, attrs = [extents[axis] for axis in spatial_axes(self._data)], call.attrs
        self._filters = int(extents["O"]) // int(attrs.groups)  # of each group
        self._depth = int(extents["I"])
        how = zip(sizes, attrs.strides, attrs.padding, attrs.dilation, strict=False)
        self._sides = [Windows(*map(int, each)) for each in how]  # padding's first are those before

    def convolved(self, image: te.Tensor, weight: te.Tensor) -> te.Tensor:
        """All products of a line of the window in one stage, which adds what is before it.

        Lines lie along the last axis on which the window is longer than one; long ones come in
        pieces where channels are last.
        """
        sums: list[te.Tensor] = []
        window = (range(side.size) for side in self._sides)
        taps = list(product(range(self._depth), *window))
        length = next((side.size for side in reversed(self._sides) if side.size > 1), 1)
        lines = [taps[start : start + length] for start in range(0, len(taps), length)]
        for piece in chain.from_iterable(map(self._pieces, lines)):
            added = self._sum(image, weight, piece, sums[-1:])
            sums.append(te.compute(self._shape, added, name="taps"))
        rounded = partial(_rounded, sums[-1], str(image.dtype))
        return te.compute(self._shape, rounded, name="convolved")

    def _pieces(self, line: Sequence[Taps]) -> list[Sequence[Taps]]:
        each = PIECE if self._data[-1] == "C" and len(line) > LONG_LINE else len(line)
        return [line[start : start + each] for start in range(0, len(line), each)]

    def _sum(
        self,
        image: te.Tensor,
        weight: te.Tensor,
        taps: Sequence[Taps],
        before: list[te.Tensor],
    ) -> Callable[..., Expr]:
        def summed(*at: Expr) -> Expr:
            terms = (self._term(image, weight, at, each) for each in taps)
            return reduce(add, [*(each(*at) for each in before), *terms])

        return summed

    def _term(self, image: te.Tensor, weight: te.Tensor, at: Sequence[Expr], taps: Taps) -> Expr:
        """One tap's product, in what is added up: zero where the tap lies outside of the image."""
        wide = ACCUMULATORS[str(image.dtype)]
        place, inside = [*at], []
        channels = self._data.index("C")
        depth, *steps = taps
        place[channels] = at[channels] // self._filters * self._depth + depth
        for axis, side, step in zip(self._axes, self._sides, steps, strict=True):
            place[axis] = side.element(at[axis], step)
            inside += [place[axis] >= 0, place[axis] < image.shape[axis]]
        known = {"O": at[channels], "I": depth}
        known |= dict(zip(spatial_axes(self._data), steps, strict=True))
        factor = weight(*(known[axis] for axis in self._weight)).astype(wide)
        own = tirx.if_then_else(tirx.all(*inside), image(*place).astype(wide), tirx.const(0, wide))
        return own * factor


def DirectWeights() -> tvm.transform.Pass:
    """Weights by tap and channel where channels are last, as a vector of channels reads them."""

    @tvm.transform.module_pass(opt_level=0, name="DirectWeights")
    def direct_weights(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if not has_direct(mod):
            return mod
        return relax.transform.Normalize()(in_blocks(mod, _with_taps_outermost))

    return direct_weights


def _with_taps_outermost(block: relax.DataflowBlock) -> relax.DataflowBlock:
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        order = _order(binding.value) if is_direct(binding.value) else None
        if order is not None:
            weights = relax.op.permute_dims(binding.value.args[1], order)
            bindings.append(as_variable(f"{binding.var.name}_by_tap", weights))
            binding = relax.VarBinding(binding.var, _by_tap(binding.value, bindings[-1].var))
        bindings.append(binding)
    return relax.DataflowBlock(bindings)


def _order(call: Call) -> list[int] | None:
    """How the axes of weights are to lie, if channels are last and these lie otherwise."""
    data, given, _ = stated_layouts(call)
    order = [given.index(axis) for axis in _by_tap_layout(data)]
    return order if data[-1] == "C" and order != sorted(order) else None


def _by_tap_layout(data: str) -> str:
    return f"{spatial_axes(data)}OI"


def _by_tap(call: Call, weights: Expr) -> Expr:
    """The same convolution by weights that lie so."""
    attrs = call.attrs
    layout = _by_tap_layout(str(attrs.data_layout))
    made = getattr(relax.op.nn, call.op.name.rpartition(".")[2])(
        call.args[0], weights, attrs.strides, attrs.padding, attrs.dilation, attrs.groups,
        attrs.data_layout, layout, attrs.out_layout, attrs.out_dtype or None,
    )  # fmt: skip
    return relax.BlockBuilder().normalize(made)
