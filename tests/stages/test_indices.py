"""Indices of int32: in memory, and in TIR that counts in it."""

import numpy as np
import pytest
import tvm
from check import H200, check, fallbacks
from tvm import tirx
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from zoo import Case, graph_of, softmax64

import tvm_stitch
from tvm_stitch.stages.indices import counted_in_int32
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import find_reads, flatten, substitute

ROWS = np.array([2, 0, 9, 2], "int32")
X = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")

MOVED = {
    "padded": (
        lambda emit, x: op.nn.pad(x, (1, 1, 2, 2)),
        lambda x: np.pad(x, ((1, 1), (2, 2))),
    ),
    "joined": (lambda emit, x: op.concat([x, x], 0), lambda x: np.concatenate([x, x])),
    "rolled": (
        lambda emit, x: op.concat(
            [emit(op.strided_slice(x, [0], [5], [8])), emit(op.concat([x, x], 0))], 0
        ),
        lambda x: np.concatenate([x[5:], x, x]),
    ),
    "lower half": (lambda emit, x: op.tril(emit(op.concat([x, x], 0))), None),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", MOVED)
def test_rows_are_looked_up_in_what_is_computed_by_place(name, dtype):
    """What computes the rows goes by their numbers, which memory has in int32."""
    move, moved = MOVED[name]
    moved = moved or (lambda x: np.tril(np.concatenate([x, x])))
    case = graph_of(
        [((8, 16), "float32", X.astype("float64")), ((4,), dtype, ROWS.astype(dtype))],
        lambda emit, x, rows: emit(op.exp(emit(op.take(emit(move(emit, x)), rows, 0)))),
        lambda x, rows: np.exp(moved(x)[rows]),
    )
    check(case)


@I.ir_module
class Counted:
    """Everything counts in int32, as TVMScript does unless it is told otherwise."""

    @T.prim_func(private=True, s_tir=True)
    def odd(x: T.Buffer((8, 16), "float32"), y: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("odd"):
                v, w = T.axis.remap("SS", [i, j])
                y[v, w] = T.exp(x[v, w * 2 + 1]) * T.if_then_else(
                    w < 4, T.float32(1), T.Cast("float32", v + 1)
                )

    @T.prim_func(private=True, s_tir=True)
    def weighed(x: T.Buffer((8, 8), "float32"), y: T.Buffer((8,), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("weighed"):
                v, w = T.axis.remap("SR", [i, j])
                with T.init():
                    y[v] = T.float32(0)
                y[v] = y[v] + x[v, w] * T.Cast("float32", w + v * 2)

    @T.prim_func(private=True, s_tir=True)
    def mirrored(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("mirrored"):
                v = T.axis.spatial(8, i)
                y[v] = x[7 - v] - x[(v + 3) % 8]

    @R.function
    def main(x: R.Tensor((8, 16), "float32")):
        cls = Counted
        with R.dataflow():
            odd = R.call_tir(cls.odd, (x,), out_ty=R.Tensor((8, 8), "float32"))
            weighed = R.call_tir(cls.weighed, (odd,), out_ty=R.Tensor((8,), "float32"))
            mirrored = R.call_tir(cls.mirrored, (weighed,), out_ty=R.Tensor((8,), "float32"))
            R.output(odd, mirrored)
        return (odd, mirrored)


def odd64(x: np.ndarray) -> np.ndarray:
    scale = np.where(np.arange(8) < 4, 1, np.arange(8)[:, None] + 1)
    return np.exp(x[:, 1::2]) * scale


def test_functions_that_count_in_int32():
    x = X.astype("float64")
    rows = (odd64(x) * (np.arange(8) + 2 * np.arange(8)[:, None])).sum(1)
    mirrored = rows[::-1] - np.roll(rows, -3)
    check(Case(Counted, (X,), (odd64(x), mirrored)), kernels=None)
    report = tvm_stitch.explain(Counted, H200)
    assert "default" not in {kernel.scheme for kernel in report.kernels}


def test_stages_count_in_int64():
    (stage,) = read_stages(Counted["odd"])
    assert {str(axis.ty.dtype) for axis in stage.axes} == {"int64"}
    (read,) = find_reads(stage.value)
    row, column = stage.axes
    place = flatten(tuple(read.load.indices), (8, 16))
    assert tvm.sym.Analyzer().can_prove_equal(place, row * 16 + column * 2 + 1)


@I.ir_module
class Mixed:
    """A function of int32 between operators, whose TIR is of int64: FuseTIR takes no such pair."""

    @T.prim_func(private=True, s_tir=True)
    def mirrored(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("mirrored"):
                v = T.axis.spatial(8, i)
                y[v] = x[7 - v]

    @T.prim_func(private=True, s_tir=True)
    def halved(var_x: T.handle, var_y: T.handle):
        n = T.int32()
        x = T.match_buffer(var_x, (n,), "float32")
        y = T.match_buffer(var_y, (n,), "float32")
        for i in range(n):
            with T.sblock("halved"):
                v = T.axis.spatial(n, i)
                y[v] = x[v] / T.float32(2)

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        cls = Mixed
        with R.dataflow():
            exps = R.exp(x)
            mirrored = R.call_tir(cls.mirrored, (exps,), out_ty=R.Tensor((8,), "float32"))
            soft = R.nn.softmax(mirrored)
            halved = R.call_tir(cls.halved, (soft,), out_ty=R.Tensor((8,), "float32"))
            R.output(halved)
        return halved


def test_functions_that_count_otherwise_than_their_neighbours():
    soft = softmax64(np.exp(X[0, :8].astype("float64"))[::-1])
    check(Case(Mixed, (X[0, :8],), (soft / 2,)), kernels=None)
    reasons = {f.op: f.reason for f in fallbacks(Mixed)}
    assert "unlike the TIR of its neighbours" in reasons["mirrored"]
    assert "no int64" in reasons["halved"]
    assert isinstance(tvm_stitch.compile(Mixed, H200), tvm.relax.VMExecutable)


def test_what_wraps_around_in_32_bits_wraps_back():
    """An index that fits may be made of numbers that do not: only their last 32 bits count."""
    far, near = 2**40 + 5, 2**40 - 7
    large = tirx.IntImm("int64", far)
    x = tirx.Var("x", "int32")
    wide = tirx.Select(x < 1, large - tirx.Cast("int64", x), tirx.Cast("int64", x) * 3) - near
    narrow = counted_in_int32(wide)
    assert str(narrow.ty.dtype) == "int32"
    found = tvm.sym.Analyzer().simplify(substitute(narrow, {x: tirx.IntImm("int32", 0)}))
    assert int(found.value) == far - near


def test_extremes_are_of_32_bits_where_all_parts_are():
    x, y = tirx.Var("x", "int32"), tirx.Var("y", "int64")
    wide = tirx.Max(tirx.Cast("int64", x), y)
    assert isinstance(counted_in_int32(wide), tirx.Cast)
    narrow = counted_in_int32(wide, (tirx.Max,))
    assert isinstance(narrow, tirx.Max) and narrow.a.same_as(x)
