"""Convolutions that are products of matrices, written as these.

In: a Relax module. Out: the same with a product in place of each convolution for which cuDNN has no
kernel that keeps a device busy:

- windows side by side over few channels, as the patches of a ViT: tensor cores read eight channels
  at a time, so that cuDNN pads them;
- single pixels in groups, and long windows in groups, as the positions of wav2vec 2.0: cuDNN
  launches a kernel for each group.

What the windows hold becomes the rows of a matrix; where windows overlap, these rows do so in
memory, if the product's kernel can read them there. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.convolution.choose import (
    convolutions_of,
    is_plain,
    spatial_axes,
    stated_layouts,
)
from tvm_stitch.graph.front.dataflow import mutated, name_of
from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, dtype_of, has_shape, shape_of
from tvm_stitch.graph.front.pooling.windows import Windows
from tvm_stitch.stages.stage import constant

FEW_CHANNELS = 8
"""A vector of halves: convolutions of fewer channels leave part of each load unused."""
LONG_WINDOW = 32
"""Taps of a window that are enough for a product of its own."""
MOST_ELEMENTS = 1 << 29
"""Of windows that overlap, which are written out: a gigabyte of halves."""
CONVOLUTIONS = tuple(f"nn.conv{rank}d" for rank in (1, 2, 3))


def is_product(groups: int, depth: int, sides: Sequence[Windows]) -> bool:
    """Whether a convolution in groups of so many channels is a product, by its windows' sides."""
    taps = prod(side.size for side in sides)
    if groups > 1:
        return depth > 1 and (taps >= LONG_WINDOW or (taps == 1 and are_side_by_side(sides)))
    return depth < FEW_CHANNELS and taps > 1 and are_side_by_side(sides)


def are_side_by_side(sides: Sequence[Windows]) -> bool:
    """Whether no element is in two windows, and each has all of its elements."""
    return all(side.are_side_by_side for side in sides)


def ConvolutionProducts() -> tvm.transform.Pass:
    """The pass."""

    @tvm.transform.module_pass(opt_level=0, name="ConvolutionProducts")
    def convolution_products(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if not any(map(_product, convolutions_of(mod))):
            return mod
        return mutated(mod, _Written(mod))

    return convolution_products


@relax.expr_functor.mutator
class _Written(relax.PyExprMutator):
    """Writes products."""

    def visit_call_(self, call: Call) -> Expr:
        call = super().visit_call_(call)
        product = _product(call)
        return call if product is None else product.emitted(self.builder_)


def _product(call: Expr) -> _Product | None:
    """How a convolution is a product, if it is one."""
    if name_of(call) not in CONVOLUTIONS or not all(map(has_shape, (*call.args, call))):
        return None
    data, weight, _ = layouts = stated_layouts(call)
    dtypes = {str(dtype_of(each)) for each in (*call.args, call)}
    if len(dtypes) > 1 or dtypes.isdisjoint(ACCUMULATORS):
        return None
    if not all(map(is_plain, layouts, ("NC", "OI", "NC"))):
        return None
    spatial = spatial_axes(data)
    image = dict(zip(data, shape_of(call.args[0]), strict=True))
    known = [*shape_of(call.args[1]), *(image[axis] for axis in spatial)]
    padding = [int(each) for each in call.attrs.padding]
    before, after = padding[: len(spatial)], padding[len(spatial) :]
    if any(constant(each) is None for each in known) or before != after:
        return None
    filters = dict(zip(weight, map(int, shape_of(call.args[1])), strict=True))
    sizes = [filters[axis] for axis in spatial]
    sides = [
        Windows(*map(int, each))
        for each in zip(sizes, call.attrs.strides, before, call.attrs.dilation, strict=True)
    ]
    groups = int(call.attrs.groups)
    if not is_product(groups, filters["I"], sides):
        return None
    product = _Product(call, layouts, groups, filters, sides)
    return product if product.fits else None


class _Product:
    """A convolution on its way to a product."""

    def __init__(
        self,
        call: Call,
        layouts: Sequence[str],
        groups: int,
        filters: dict[str, int],
        sides: Sequence[Windows],
    ) -> None:
        self._call, self._groups, self._filters, self._sides = call, groups, filters, sides
        self._data, self._weight, self._out = layouts
        self._spatial = spatial_axes(self._data)
        self._image = dict(zip(self._data, shape_of(call.args[0]), strict=True))
        self._counts = [
            side.count(int(self._image[axis]))
            for axis, side in zip(self._spatial, sides, strict=True)
        ]
        self._overlap = not are_side_by_side(sides)
        # Neighbours of overlapping windows are neighbours in memory if channels are innermost;
        # else weights stay as they are.
        own = self._weight.replace("O", "")
        self._order = f"{self._spatial}I" if self._overlap else own
        self._depth = prod(filters[axis] for axis in self._order)
        self._by_group = [groups] if groups > 1 else []

    @property
    def fits(self) -> bool:
        """Whether there is room for windows that overlap, of images whose number is known."""
        number = constant(self._image["N"])
        each = self._groups * prod(self._counts) * self._depth
        return not self._overlap or (number is not None and number * each <= MOST_ELEMENTS)

    def emitted(self, builder: relax.BlockBuilder) -> Expr:
        """The product, laid out as the convolution's result."""
        emit, op = builder.emit, relax.op
        image, weight = self._call.args
        if self._overlap:
            image = emit(builder.call_te(self._grouped, image, primfunc_name_hint="grouped"))
        windows = emit(builder.call_te(self._windows, image, primfunc_name_hint="windows"))
        # A matrix for each group; where windows overlap, for each image of it.
        number, columns = self._image["N"], self._columns(weight, emit)
        rows = [number, prod(self._counts)] if self._overlap else [number * prod(self._counts)]
        windows = emit(op.reshape(windows, [*self._by_group, *rows, self._depth]))
        product = emit(op.matmul(windows, columns))
        places, filters = [number, *self._counts], self._filters["O"]
        shape = [*self._by_group, *places, filters // self._groups]
        each = emit(op.reshape(product, shape))
        if self._by_group:
            each = emit(op.permute_dims(each, [*range(1, len(shape) - 1), 0, len(shape) - 1]))
            each = emit(op.reshape(each, [*places, filters]))
        order = [f"N{self._spatial}C".index(axis) for axis in self._out]
        return op.permute_dims(each, order) if order != sorted(order) else each

    def _columns(self, weight: Expr, emit: Any) -> Expr:
        """Weights as matrices of a column for each filter."""
        op, order = relax.op, [self._weight.index(axis) for axis in f"O{self._order}"]
        if order != sorted(order):
            weight = emit(op.permute_dims(weight, order))
        outer = [*self._by_group, *([1] if self._overlap else [])]
        shape = [*outer, self._filters["O"] // self._groups, self._depth]
        rows = emit(op.reshape(weight, shape))
        axes = [*range(len(outer)), len(outer) + 1, len(outer)]
        return emit(op.permute_dims(rows, axes))

    def _grouped(self, image: te.Tensor) -> te.Tensor:
        """Groups of images, channels innermost, zeros around them."""
        spatial = [
            self._image[axis] + 2 * side.padding
            for axis, side in zip(self._spatial, self._sides, strict=True)
        ]
        shape = [self._groups, self._image["N"], *spatial, self._filters["I"]]

        def element(group: Expr, number: Expr, *at: Expr) -> Expr:
            known = {"N": number, "C": group * self._filters["I"] + at[-1]}
            inside = []
            for axis, side, place in zip(self._spatial, self._sides, at[:-1], strict=True):
                known[axis] = place - side.padding
                if side.padding:
                    inside += [known[axis] >= 0, known[axis] < self._image[axis]]
            own = image(*(known[axis] for axis in self._data))
            if not inside:
                return own
            return tirx.if_then_else(tirx.all(*inside), own, tirx.const(0, image.dtype))

        return te.compute(shape, element, name="grouped")

    def _windows(self, image: te.Tensor) -> te.Tensor:
        """What each window holds, by groups and images."""
        inner = [self._filters[axis] for axis in self._order]
        shape = [self._groups, self._image["N"], *self._counts, *inner]

        def element(group: Expr, number: Expr, *at: Expr) -> Expr:
            taps = dict(zip(self._order, at[len(self._counts) :], strict=True))
            # The margins are there, if there are any.
            places = [
                side.element(window, taps[axis]) + side.padding
                for axis, side, window in zip(self._spatial, self._sides, at, strict=False)
            ]
            if self._overlap:
                return image(group, number, *places, taps["I"])
            known = {"N": number, "C": group * self._filters["I"] + taps["I"]}
            known |= dict(zip(self._spatial, places, strict=True))
            return image(*(known[axis] for axis in self._data))

        return te.compute(shape, element, name="windows")
