"""Transposed convolutions as sub-pixel convolutions: plain ones of more filters, then a shuffle.

In: a dataflow block. Out: the same, in which each transposed convolution that moves in steps and
pays is a convolution in steps of one. A step of s leaves s results between two elements of the
data, each of which reads ceil(k / s) taps of its own. A filter for each of them makes one
convolution of all, with s times the filters along each axis; a reshape and a transpose (pixel
shuffle), which become part of a kernel behind it, put them in order. cuDNN's kernels for forward
passes keep tensor cores busier than those of gradients, and add in the same order every time: on an
H200 a decoder's 512 x 300 by ten taps in steps of five takes 38 us by TF32, and 484 reproducibly as
a gradient (bench/results/h200/convolutions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tvm import relax
from tvm.ir import Expr

from tvm_stitch.graph.front.convolution.choose import (
    convolution_of,
    is_convolution,
    layouts_of,
)
from tvm_stitch.graph.front.dataflow import bound
from tvm_stitch.graph.front.decompose.stages import HALF, dtype_of, shape_of
from tvm_stitch.library.convolution import DATA, FORWARD, Convolution
from tvm_stitch.stages.stage import constant

Emit = Callable[[Expr], relax.Var]

MOST_WORK, MOST_WORK_FLOAT32 = 1.2, 1.6
"""How many times the multiplications may be that a gradient would do: filters are widened to a
multiple of the step, and windows reach beyond the result."""
WIDE = 128
"""So many filters fill a tile of cuDNN's kernels. Of halves those for gradients are as fast then,
where windows overlap: 256 filters of 4 x 4 by 2 take 87 us for 32 images of 32 x 24, and 84 so."""


def as_subpixel(tf32: bool, block: relax.DataflowBlock) -> relax.DataflowBlock:
    """The block with plain convolutions in place of transposed ones that pay."""
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        shuffle = _shuffle_of(binding.value, tf32)
        if shuffle is None:
            bindings.append(binding)
        else:
            value = shuffle.written(bindings, binding.var.name, *binding.value.args[:2])
            bindings.append(relax.VarBinding(binding.var, relax.BlockBuilder().normalize(value)))
    return relax.DataflowBlock(bindings)


def _shuffle_of(call: Expr, tf32: bool) -> _Shuffle | None:
    """How a call is written, if it is a transposed convolution that pays."""
    found = convolution_of(call, tf32) if is_convolution(call) else None
    if not isinstance(found, Convolution) or found.what != DATA or found.groups != 1:
        return None
    weight = [constant(extent) for extent in shape_of(call.args[1])]
    known = [extent for extent in weight if extent is not None]
    if max(found.strides) == 1 or max(found.dilation) > 1 or len(known) < len(weight):
        return None
    depth, *others = known
    last = found.channels_last
    sizes, filters = (others[:-1], others[-1]) if last else (others[1:], others[0])
    images, results = (
        shape_of(each)[1:-1] if last else shape_of(each)[2:] for each in (call.args[0], call)
    )
    shuffle = _Shuffle(depth, filters, sizes, found.strides, found.before, results, last)
    beyond = map(int, call.attrs.output_padding)
    sides = zip(sizes, beyond, found.after, shuffle.widths, strict=True)
    # What output_padding adds may lie behind what windows give, and is nothing but zeros.
    reaches = all(size + more - after <= width for size, more, after, width in sides)
    is_half = dtype_of(call) in HALF
    if not reaches or (is_half and max(shuffle.taps) > 1 and filters >= WIDE):
        return None
    allowed = MOST_WORK if is_half else MOST_WORK_FLOAT32
    return shuffle if shuffle.work(images) <= allowed else None


@dataclass(frozen=True)
class _Shuffle:
    """A transposed convolution in steps, along each spatial axis."""

    depth: int
    filters: int
    sizes: Sequence[int]
    strides: Sequence[int]
    before: Sequence[int]  # results left out at the beginning
    results: Sequence[Expr]  # how many there are
    channels_last: bool

    @property
    def taps(self) -> list[int]:
        """Of each of the filters."""
        return [-(-size // step) for size, step in zip(self.sizes, self.strides, strict=True)]

    @property
    def widths(self) -> list[int]:
        """Of the filters as they are widened to a multiple of the steps."""
        return [taps * step for taps, step in zip(self.taps, self.strides, strict=True)]

    def work(self, extents: Sequence[Expr]) -> float:
        """How many times the multiplications of the gradient; of symbolic extents at large ones."""
        widened = prod(self.widths) / prod(self.sizes)
        known = zip(map(constant, extents), self.taps, strict=True)
        return widened * prod(1 + (taps - 1) / extent for extent, taps in known if extent)

    def written(
        self, bindings: list[relax.Binding], name: str, data: relax.Expr, weight: relax.Expr
    ) -> Expr:
        """The result, of which all but the last operator is bound to variables."""

        def emit(value: Expr) -> relax.Var:
            return bound(bindings, f"{name}_shuffled", value)

        spatial = len(self.sizes)
        layouts = layouts_of(FORWARD, spatial, self.channels_last)
        how = dict(zip(("data_layout", "kernel_layout", "out_layout"), layouts, strict=True))
        convolve = getattr(relax.op.nn, f"conv{spatial}d")
        padding = [taps - 1 for taps in self.taps] * 2
        convolved = emit(convolve(data, self._filters(emit, weight), padding=padding, **how))
        return self._in_order(emit, convolved)

    def _filters(self, emit: Emit, weight: relax.Expr) -> relax.Var:
        """Filters for each result between two elements of the data; a window's last tap first."""
        last, sides = self.channels_last, len(self.sizes)
        widened = [(0, width - size) for size, width in zip(self.sizes, self.widths, strict=True)]
        if any(more for _, more in widened):
            around = [(0, 0), *widened, (0, 0)] if last else [(0, 0), (0, 0), *widened]
            weight = emit(relax.op.nn.pad(weight, [each for pair in around for each in pair]))
        split = [each for pair in zip(self.taps, self.strides, strict=True) for each in pair]
        shape = [*split, self.filters] if last else [self.filters, *split]
        found = emit(relax.op.reshape(weight, [self.depth, *shape]))
        first, filters = (1, 1 + 2 * sides) if last else (2, 1)
        taps, steps = ([first + 2 * n + each for n in range(sides)] for each in range(2))
        for axis, several in zip(taps, self.taps, strict=True):
            found = emit(relax.op.flip(found, axis)) if several > 1 else found
        inner = [*taps, 0] if last else [0, *taps]
        found = emit(relax.op.permute_dims(found, [*steps, filters, *inner]))
        shape = [*self.taps, self.depth] if last else [self.depth, *self.taps]
        return emit(relax.op.reshape(found, [self.filters * prod(self.strides), *shape]))

    def _in_order(self, emit: Emit, convolved: relax.Var) -> Expr:
        """The results that are wanted, by their places: what the filters give lies apart."""
        spatial, steps = len(self.sizes), list(self.strides)
        batch, *extents = shape_of(convolved)
        if self.channels_last:
            windows = extents[:-1]
            split = [batch, *windows, *steps, self.filters]
            order = [each for n in range(spatial) for each in (1 + n, 1 + spatial + n)]
            order = [0, *order, 1 + 2 * spatial]
        else:
            windows = extents[1:]
            split = [batch, *steps, self.filters, *windows]
            order = [each for n in range(spatial) for each in (2 + spatial + n, 1 + n)]
            order = [0, 1 + spatial, *order]
        apart = emit(relax.op.permute_dims(emit(relax.op.reshape(convolved, split)), order))
        sides = [count * step for count, step in zip(windows, steps, strict=True)]
        whole = [*sides, self.filters] if self.channels_last else [self.filters, *sides]
        places = [(1 if self.channels_last else 2) + n for n in range(spatial)]
        ends = [begin + count for begin, count in zip(self.before, self.results, strict=True)]
        together = emit(relax.op.reshape(apart, [batch, *whole]))
        return relax.op.strided_slice(together, places, list(self.before), ends)
