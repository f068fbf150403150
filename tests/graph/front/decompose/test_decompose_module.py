"""Decompose over whole modules: several functions, control flow, and what it must not touch."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from decompose_helpers import operators
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import tvm_stitch
from tvm_stitch.graph.front.decompose import Decompose


def called_in(mod: tvm.IRModule, name: str) -> list[str]:
    return operators(tvm.IRModule({name: mod[name]}))


def test_every_function_and_every_kind_of_block():
    @I.ir_module
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def twice(
            x: T.Buffer((T.int64(4), T.int64(8)), "float32"),
            y: T.Buffer((T.int64(4), T.int64(8)), "float32"),
        ):
            for i, j in T.grid(T.int64(4), T.int64(8)):
                with T.sblock("twice"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] * T.float32(2)

        @R.function
        def plain(x: R.Tensor((4, 8), "float32")):
            y = R.nn.silu(x)
            z = R.nn.softmax(y)
            return z

        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            cls = Module
            with R.dataflow():
                y = R.nn.gelu(x)
                two = R.call_tir(cls.twice, (y,), out_ty=R.Tensor((4, 8), "float32"))
                R.output(two)
            z = cls.plain(two)
            with R.dataflow():
                w = R.nn.log_softmax(z)
                R.output(w)
            return w

    written = Decompose()(Module)
    relax.analysis.well_formed(written)
    assert called_in(written, "plain")[:2] == ["relax.sigmoid", "relax.multiply"]
    assert not [name for name in operators(written) if ".nn." in name]
    tvm.ir.assert_structural_equal(written["twice"], Module["twice"])

    x = tvm.runtime.tensor(np.random.default_rng(0).standard_normal((4, 8)).astype("float32"))
    results = []
    for mod in (Module, written):
        machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
        results.append(machine["main"](x).numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_both_branches_of_a_condition():
    @I.ir_module
    class Module:
        @R.function
        def main(condition: R.Tensor((), "bool"), x: R.Tensor((4, 8), "float32")):
            if condition:  # noqa: SIM108 (TVMScript)
                y = R.nn.silu(x)
            else:
                y = R.nn.gelu(x)
            return y

    written = Decompose()(Module)
    relax.analysis.well_formed(written)
    silu, gelu = ["sigmoid", "multiply"], ["multiply", "erf", "multiply", "add", "multiply"]
    assert operators(written) == [f"relax.{name}" for name in silu + gelu]


def test_a_function_within_a_function():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            @R.function
            def inner(z: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
                w = R.nn.silu(z)
                return w

            y = inner(x)
            return y

    written = Decompose()(Module)
    relax.analysis.well_formed(written)
    assert operators(written) == ["relax.sigmoid", "relax.multiply"]


@pytest.mark.parametrize("attribute", ["Primitive", "Composite", "Codegen"])
def test_functions_that_are_spoken_for_stay_whole(attribute):
    @I.ir_module
    class Module:
        @R.function(private=True)
        def fused(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
            with R.dataflow():
                y = R.nn.softmax(x)
                R.output(y)
            return y

        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            cls = Module
            with R.dataflow():
                y = cls.fused(x)
                z = R.nn.silu(y)
                R.output(z)
            return z

    value = 1 if attribute == "Primitive" else "library"
    mod = Module.clone()
    mod["fused"] = mod["fused"].with_attr(attribute, value)
    written = Decompose()(mod)
    assert called_in(written, "fused") == ["relax.nn.softmax"]
    assert called_in(written, "main") == ["relax.sigmoid", "relax.multiply"]


def test_other_operators_and_integers_pass_through():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), i: R.Tensor((4, 8), "int32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.matmul(a, R.permute_dims(a))
                c = R.sum(i, axis=[1])
                d = R.max(x, axis=[1])
                e = R.mean(x, axis=[1])
                out = (b, c, d, e)
                R.output(out)
            return out

    assert Decompose()(Module)["main"].same_as(Module["main"])


def test_what_changes_nothing_is_gone():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.broadcast_to(x, R.shape([n, 8]))
                b = R.reshape(a, R.shape([n, 8]))
                c = R.astype(b, "float32")
                d = R.broadcast_to(c, R.shape([n, n, 8]))
                e = R.reshape(d, R.shape([n * n, 8]))
                f = R.astype(e, "float16")
                R.output(f)
            return f

    assert operators(Decompose()(Module)) == ["relax.broadcast_to", "relax.reshape", "relax.astype"]


def test_a_function_that_changes_nothing():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                y = R.reshape(x, R.shape([4, 8]))
                R.output(y)
            return y

    written = Decompose()(Module)
    relax.analysis.well_formed(written)
    assert operators(written) == []
    tvm_stitch.compile(Module, {"kind": "cuda", "arch": "sm_90"})


def test_shapes_that_are_unknown_pass_through():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor("float32", ndim=2)):
            with R.dataflow():
                y = R.nn.softmax(x)
                R.output(y)
            return y

    assert operators(Decompose()(Module)) == ["relax.nn.softmax"]


def norm_with_constants(gamma, beta, mean, variance) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3, 4, 5), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            vectors = [relax.const(np.array(v, "float32")) for v in (gamma, beta, mean, variance)]
            norm = builder.emit(relax.op.nn.batch_norm(x, *vectors, axis=1, training=False))
            result = builder.emit_output(relax.TupleGetItem(norm, 0))
        builder.emit_func_output(result)
    return builder.get()


def test_constant_parameters_are_folded():
    gamma, beta, mean, variance = (
        [1.0, 2.0, 3.0],
        [0.5, 0.0, -1.0],
        [1.0, 2.0, 3.0],
        [4.0, 9.0, 1.0],
    )
    mod = norm_with_constants(gamma, beta, mean, variance)
    written = Decompose()(mod)
    assert operators(written) == ["relax.subtract", "relax.multiply", "relax.add"]

    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")
    machine = relax.VirtualMachine(tvm.compile(written, "llvm"), tvm.cpu())
    columns = [np.reshape(v, (3, 1, 1)) for v in (gamma, beta, mean, variance)]
    expected = (x - columns[2]) / np.sqrt(columns[3] + 1e-5) * columns[0] + columns[1]
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(x)).numpy(), expected, rtol=1e-5)


def test_parameters_that_do_nothing_cost_nothing():
    written = Decompose()(norm_with_constants([1.0] * 3, [0.0] * 3, [1.0] * 3, [4.0] * 3))
    assert operators(written) == ["relax.subtract", "relax.multiply"]


def test_dropout_passes_its_data_on():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                both = R.nn.dropout(x, rate=0.5)
                y = both[0]
                z = R.exp(y)
                R.output(z)
            return z

    assert operators(Decompose()(Module)) == ["relax.exp"]


def torch_models():
    from torch import nn

    return {
        "encoder": (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), (2, 5, 32)),
        "image": (
            nn.Sequential(
                nn.BatchNorm2d(8), nn.GELU(), nn.GroupNorm(2, 8), nn.SiLU(), nn.InstanceNorm2d(8)
            ).eval(),
            (2, 8, 6, 6),
        ),
        "row": (
            nn.Sequential(
                nn.RMSNorm(32), nn.GELU("tanh"), nn.LayerNorm(32), nn.Softplus(), nn.LogSoftmax(-1)
            ),
            (4, 32),
        ),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["encoder", "image", "row"])
def test_models_from_torch(name):
    torch = pytest.importorskip("torch")
    from tvm.relax.frontend.torch import from_exported_program

    model, shape = torch_models()[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    mod = from_exported_program(torch.export.export(model, (x,)))
    written = Decompose()(mod)
    assert not [op for op in operators(written) if ".nn." in op and op != "relax.nn.relu"]

    machine = relax.VirtualMachine(tvm.compile(written, "llvm"), tvm.cpu())
    actual = machine["main"](tvm.runtime.tensor(x.numpy()))[0].numpy()
    with torch.no_grad():
        np.testing.assert_allclose(actual, model(x).numpy(), rtol=1e-4, atol=1e-5)
