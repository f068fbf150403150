"""The gradient of a convolution for its weights as cuDNN takes it: of all rows of the images.

In: the call that Relax writes it as, a convolution over the batch, which reads what some window
reads and nothing else: the padding behind the images is less than before them, and rows are cut
off. Out: the same with both back where cuDNN, which counts windows, has as many; with as much
padding on both sides it has more kernels.
"""

from __future__ import annotations

from dataclasses import replace

import tvm
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.stages import has_shape, same_extents, shape_of
from tvm_stitch.graph.front.decompose.view import Definition
from tvm_stitch.graph.front.pooling.windows import Windows
from tvm_stitch.library.convolution import Convolution

SLICE = "relax.strided_slice"


def with_all_rows(
    convolution: Convolution, call: Call, definition: Definition
) -> tuple[Convolution, Call]:
    """The gradient and its call, with as much padding behind as before where that is the same."""
    data, gradient = call.args[:2]
    first = 1 if convolution.channels_last else 2
    spatial = slice(first, first + len(convolution.strides))
    even = replace(convolution, after=convolution.before)
    wanted = _numbers(gradient, spatial)
    for whole in (_uncut(data, spatial, definition), data):
        if wanted and _windows(even, _numbers(whole, spatial), _numbers(call, spatial)) == wanted:
            return even, Call(call.op, [whole, gradient], call.attrs, call.ty_args)
    return convolution, call


def _uncut(data: Expr, spatial: slice, definition: Definition) -> Expr:
    """The images that rows and columns were cut off the end of; others as they are."""
    value = definition(data)
    if not isinstance(value, Call) or getattr(value.op, "name", "") != SLICE:
        return data
    source, _axes, starts, _ends, *steps = value.args
    is_dense = all(int(step) == 1 for each in steps for step in each.fields)
    if any(int(start) for start in starts.fields) or not is_dense or not has_shape(source):
        return data
    whole, cut = shape_of(source), shape_of(data)
    whole[spatial] = cut[spatial]
    return source if same_extents(whole, cut) else data


def _windows(convolution: Convolution, extents: list[int], sizes: list[int]) -> list[int]:
    """How many windows of these sizes there are along each spatial dimension, if all are known."""
    how = zip(convolution.strides, convolution.before, convolution.dilation, strict=True)
    return [
        Windows(size, stride, pad, apart).count(extent)
        for extent, size, (stride, pad, apart) in zip(extents, sizes, how, strict=False)
    ]


def _numbers(value: Expr, spatial: slice) -> list[int]:
    """The spatial extents of a tensor; none if some are not known."""
    extents = shape_of(value)[spatial]
    is_known = all(isinstance(extent, tvm.tirx.IntImm) for extent in extents)
    return [int(extent) for extent in extents] if is_known else []
