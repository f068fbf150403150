"""The shim asks cuDNN for the convolutions that it is told: against a stand-in library."""

import re
import threading
from functools import partial
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from library_stand_in import NATIVE, made_by_threads, stand_in

from tvm_stitch.library import locate, shim
from tvm_stitch.library.convolution import DATA, FORWARD, WEIGHT, Convolution, decoded
from tvm_stitch.library.numpy_convolution import convolved

TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
CLOSE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture
def seen(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN) as found:
        yield found


def extents_of(convolution, batch=2, channels=6, results=4, image=(7, 9, 5), window=(3, 2, 1)):
    """Those of data, weights and result, channels first."""
    image, window = image[: len(convolution.strides)], window[: len(convolution.strides)]
    places = zip(
        image,
        window,
        convolution.strides,
        convolution.before,
        convolution.after,
        convolution.dilation,
        strict=True,
    )
    out = [(n + b + a - apart * (w - 1) - 1) // s + 1 for n, w, s, b, a, apart in places]
    weight = (results, channels // convolution.groups, *window)
    return (batch, channels, *image), weight, (batch, results, *out)


def case(convolution, dtype, seed=0, **sizes):
    """Arrays of a call as it takes them, and the extents of its result."""
    random = np.random.default_rng(seed)
    data, weight, result = extents_of(convolution, **sizes)
    given = {FORWARD: (data, weight), DATA: (result, weight), WEIGHT: (data, result)}
    wanted = {FORWARD: result, DATA: data, WEIGHT: weight}[convolution.what]

    def lying(extents):
        last = (extents[0], *extents[2:], extents[1])
        return last if convolution.channels_last else extents

    shapes = [lying(extents) for extents in given[convolution.what]]
    shapes += [(wanted[1],)] * convolution.bias + [lying(wanted)] * convolution.residual
    arrays = [random.normal(size=shape).astype(TYPES[dtype]) for shape in shapes]
    return arrays, lying(wanted)


def tensor(array):
    return tvm.runtime.tensor(np.ascontiguousarray(array))


def call(convolution, arrays, extents, dtype, workspace=1 << 12):
    result = tensor(np.full(extents, 7, TYPES[dtype]))
    space = tensor(np.zeros(workspace, np.uint8))
    numbers = tvm_ffi.Shape(convolution.encoded())
    shim.function("convolution")(*map(tensor, arrays), numbers, result, space)
    return result.numpy().astype("float64")


def check(convolution, dtype="float32", **sizes):
    arrays, extents = case(convolution, dtype, **sizes)
    exact = convolved(convolution, arrays, extents)
    found = call(convolution, arrays, extents, dtype)
    scale = max(1.0, float(np.abs(exact).max(initial=0)))
    assert np.abs(found - exact).max(initial=0) <= CLOSE[dtype] * scale


def of(what=FORWARD, last=True, groups=1, strides=(1, 1), padding=(1, 1), dilation=(1, 1), **more):
    more.setdefault("after", padding)
    return Convolution(what, last, groups, strides, padding, dilation=dilation, **more)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("what", [FORWARD, DATA, WEIGHT])
@pytest.mark.parametrize("last", [True, False])
def test_layouts_and_types(seen, dtype, what, last):
    check(of(what, last), dtype)


@pytest.mark.parametrize("what", [FORWARD, DATA, WEIGHT])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1), (2, 3)])
@pytest.mark.parametrize("groups", [1, 2])
def test_strides_padding_dilation_and_groups(seen, what, strides, padding, dilation, groups):
    check(of(what, True, groups, strides, padding, dilation))


@pytest.mark.parametrize("what", [FORWARD, DATA, WEIGHT])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
def test_one_and_three_dimensions(seen, what, last, rank):
    check(of(what, last, 1, (2,) * rank, (1,) * rank, (1,) * rank))


@pytest.mark.parametrize("what", [FORWARD, DATA, WEIGHT])
@pytest.mark.parametrize(("before", "after"), [((0, 1), (1, 0)), ((2, 0), (0, 0))])
def test_uneven_padding(seen, what, before, after):
    check(of(what, True, 1, (2, 1), before, after=after))


@pytest.mark.parametrize("what", [FORWARD, DATA, WEIGHT])
def test_depthwise(seen, what):
    check(of(what, groups=6), results=6)
    check(of(what, groups=6), results=12)


@pytest.mark.parametrize("what", [FORWARD, DATA])
@pytest.mark.parametrize("fused", [True, False])
def test_epilogues(seen, monkeypatch, what, fused):
    if not fused:
        monkeypatch.setenv("STAND_IN_FAILS", "fused")
    for last, bias, residual, relu in product((True, False), repeat=4):
        before = seen.executed
        # Others are kept from the test before.
        sizes = {"batch": 2 + fused}
        check(of(what, last, bias=bias, residual=residual, relu=relu), "float16", **sizes)
        apart = not fused and (bias or residual or relu)
        assert seen.executed == before + 1 + apart


def test_an_engine_is_chosen_once_for_each_convolution_and_thread(seen):
    convolution = of(padding=(2, 2))
    arrays, extents = case(convolution, "float32")
    call(convolution, arrays, extents, "float32")
    before = seen.planned, seen.created
    call(convolution, arrays, extents, "float32")
    assert (seen.planned, seen.created) == before
    other = threading.Thread(target=call, args=(convolution, arrays, extents, "float32"))
    other.start()
    other.join()
    assert (seen.planned, seen.created) == (before[0] + 1, before[1] + 1)


def test_a_thread_has_what_one_before_has_left(seen):
    convolution = of(padding=(1, 2))
    arrays, extents = case(convolution, "float32")
    run = partial(call, convolution, arrays, extents, "float32")
    assert not made_by_threads(lambda: (seen.planned, seen.created), run)


def test_engines_are_reproducible_and_float32_is_tf32_on_request(seen):
    check(of(padding=(3, 3)), "float16")
    assert seen.engine == 1  # by tensor cores
    check(of(padding=(3, 3)), "float32")
    assert seen.engine == 2
    check(of(padding=(3, 3), tf32=True), "float32")
    assert seen.engine == 1
    convolution = of(padding=(4, 4))
    arrays, extents = case(convolution, "float16")
    call(convolution, arrays, extents, "float16", workspace=1 << 9)
    assert seen.engine == 2  # the other wants more workspace


@pytest.mark.parametrize("bias", [False, True])
def test_the_clock_chooses_an_engine_where_it_is_asked_to(seen, captures, bias):
    for timed, engine in ((False, 1), (True, 2)):
        before = seen.executed
        check(of(padding=(6, 6), bias=bias, timed=timed), "float16")
        assert seen.engine == engine
        assert seen.executed == before + (2 * 4 + 1 if timed else 1)
        check(of(padding=(6, 6), bias=bias, timed=timed), "float16")
        assert seen.engine == engine and seen.executed == before + (10 if timed else 2)


def test_each_of_two_steps_has_its_engine_by_the_clock(seen, captures, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "fused")
    before = seen.executed
    check(of(padding=(6, 5), bias=True, residual=True, relu=True, timed=True), "float16")
    assert seen.executed == before + 2 * (2 * 4 + 1) and seen.engine == 2


def test_what_is_captured_is_timed_later(seen, captures):
    convolution = of(padding=(5, 6), timed=True)
    captures.value = 1
    check(convolution, "float16")
    assert seen.engine == 1
    captures.value = 0
    check(convolution, "float16")
    assert seen.engine == 2


def test_an_engine_that_cannot_run_is_not_the_fastest(seen, captures, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "plain")
    check(of(padding=(5, 7), timed=True), "float16")
    assert seen.engine == 1


def test_the_stream_is_the_callers(seen):
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cpu", 0), 0x5EA):
        check(of())
    assert seen.stream == 0x5EA


def test_errors_say_what_the_library_says_of_which_convolution(seen, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "execute")
    said = r"convolution, float16, channels last: 2x6x7x9 4x6x3x2 2x4x7x10, strides 1x1.*nothing"
    with pytest.raises(RuntimeError, match=said):
        check(of(), "float16")
    monkeypatch.setenv("STAND_IN_FAILS", "engines")
    with pytest.raises(
        RuntimeError, match=r"cannot compute this gradient for the data .* no engine"
    ):
        check(of(DATA, padding=(5, 5)))


def test_tensors_that_do_not_fit_are_refused(seen):
    convolution = of()
    arrays, extents = case(convolution, "float32")
    with pytest.raises(RuntimeError, match="an extent that is not the convolution's"):
        call(convolution, arrays, (*extents[:1], extents[1] + 1, *extents[2:]), "float32")
    with pytest.raises(TypeError, match="with 5 arguments"):
        call(of(bias=True), arrays, extents, "float32")
    with pytest.raises(TypeError, match="float32, float16 and bfloat16 only"):
        call(convolution, [each.astype("float64") for each in arrays], extents, "float32")
    with pytest.raises(ValueError, match="a bias of 3 elements for 4 channels"):
        call(of(bias=True), [*arrays, np.zeros(3, "float32")], extents, "float32")


def test_nothing_to_convolve(seen):
    check(of(), batch=0)


@pytest.mark.parametrize(
    "convolution",
    [
        of(),
        of(WEIGHT, False, 3, (2,), (1,), (4,), after=(0,)),
        of(relu=True),
        of(tf32=True),
        of(timed=True),
    ],
)
def test_numbers_say_everything(convolution):
    assert decoded(convolution.encoded()) == convolution


def test_the_values_of_the_interface_are_those_of_cudnns_headers():
    library = locate.find(locate.CUDNN)
    header = Path(library or "/none").parent.parent / "include" / "cudnn_graph.h"
    if not header.is_file():
        pytest.skip("no headers of cuDNN")
    own = dict(
        re.findall(r"^\s*(?:enum.*\{ )?([A-Z]\w+) = (\d+)", _lines(NATIVE / "cudnn_api.h"), re.M)
    )
    theirs = dict(
        re.findall(r"\b(CUDNN_\w+)(?: CUDNN_DEPRECATED_ENUM)?\s*= (\d+)", header.read_text())
    )
    assert len(own) > 80
    assert own == {name: theirs[f"CUDNN_{name}"] for name in own}


def _lines(path):
    """The enumerators of a header, one a line."""
    return path.read_text().replace("{ ", "{\n").replace(", ", ",\n")
