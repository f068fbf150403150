"""Shallow products may have long rows: residual streams that are mixed at each place."""

import pytest
from check import DTYPES, H200, check
from library_stand_in import stand_in
from tvm.relax import op
from zoo import Case, graph

import tvm_stitch
from tvm_stitch.stages.patterns.matmul_pattern import SHALLOW


def mixed_streams(dtype: str, places: int, made: int, streams: int, width: int) -> Case:
    """At each place sums of the streams of as many weights as streams are made of them."""
    return graph(
        dtype,
        [(places, streams, made), (places, streams, width)],
        lambda emit, weights, x: emit(op.matmul(emit(op.permute_dims(weights, [0, 2, 1])), x)),
        lambda weights, x: weights.swapaxes(-1, -2) @ x,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "places, made, streams, width", [(3, 5, 4, 512), (7, 1, 3, 1027), (2, 9, SHALLOW, 257)]
)
def test_streams_are_mixed_in_a_kernel(dtype, places, made, streams, width):
    check(mixed_streams(dtype, places, made, streams, width), orders=2)


def test_many_places_are_no_batch_of_the_library(monkeypatch):
    """Whose tiles would be mostly empty: predicted at 794 us for what memory moves in 34."""
    with stand_in(monkeypatch):
        report = tvm_stitch.explain(mixed_streams("bfloat16", 8224, 9, 8, 512).module, H200)
    (kernel,) = report.kernels
    assert kernel.scheme == "regional" and kernel.predicted_us < 2 * kernel.floor_us
