"""What all kernels answer, however they are computed, and the choice among them."""

import ast
from dataclasses import dataclass

import pytest
from check import H200, primfuncs, stitched
from library_stand_in import folder
from rooms import MODULES, is_in
from tensor_products import linear
from tvm import tirx
from zoo import softmax

import tvm_stitch
from tvm_stitch import Options, transform
from tvm_stitch.device import device_of
from tvm_stitch.kernel import build
from tvm_stitch.kernel.build import choose_kernel, kernel_of
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.implementations import IMPLEMENTATIONS, PRODUCTS
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.kernel.kernel import Implementation, Kernel, Missing
from tvm_stitch.kernel.tensor_core.emitted import EmittedProducts
from tvm_stitch.library import locate
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused

DEVICE = device_of(H200)
CASES = {
    "stitched": softmax("float32", 40, 1000),
    "tensor cores": linear("float16", 200, 72, 136),
    "few rows": linear("float16", 4, 512, 1000),
    "library": linear("float16", 2048, 4096, 1024),
}


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))


def fused(case) -> tirx.PrimFunc:
    (function,) = primfuncs(case.module, before="StitchSchedule").values()
    return function


@dataclass(frozen=True, eq=False)
class Fake(Kernel):
    """A kernel that takes as long as it says."""

    taken_us: float

    @property
    def cost_us(self):
        return self.taken_us

    @property
    def buffers(self):
        return ()

    def check(self):
        return None

    def emit(self, func):
        return func


def taking(us: float) -> Implementation:
    return Implementation("test", lambda _s, _o, device, bounds, _: Fake(device, bounds, us))


def refusing(refused: Refused) -> Implementation:
    return Implementation("test", lambda *_: refused)


@pytest.mark.parametrize("name", CASES)
def test_every_kernel_is_its_function(library, name):
    function = fused(CASES[name])
    kernel = kernel_of(function, DEVICE)
    assert set(kernel.buffers) == set(function.params)
    assert 0 < kernel.cost_us == kernel.planned_us
    assert kernel.check() is None
    emitted = kernel.emit(function)
    (own,) = [each for each in IMPLEMENTATIONS if each.attribute in emitted.attrs]
    assert build.is_library_call(emitted) == own.on_host != build.is_emitted(emitted)
    assert kernel.is_product == own.of_products == (own in PRODUCTS)
    assert (kernel.most_at_once > 0) == (name in (LIBRARY, "few rows"))
    assert (kernel.layout is None) == (name in (LIBRARY, "few rows"))  # nothing to search
    assert kernel.shares_launch == (name == "stitched")
    if kernel.layout is not None:
        assert emitted.attrs[own.attribute] == kernel.layout.to_json()


def test_a_product_shares_its_launch_with_none(library):
    kernels = [kernel_of(fused(case), DEVICE) for case in CASES.values()]
    for kernel in kernels:
        others = [other for other in kernels if other is not kernel]
        assert isinstance(kernel.joined(others), Refused)


@pytest.mark.parametrize("costs, best", [((3.0, 1.0, 2.0), 1), ((1.0, 1.0), 0), ((5.0,), 0)])
def test_the_fastest_is_taken_and_of_equal_ones_the_first(costs, best):
    chosen = [each.choose((), (), DEVICE, NO_BOUNDS, ()) for each in map(taking, costs)]
    among = [Implementation("test", lambda *_, own=own: own) for own in chosen]
    assert choose_kernel((), (), DEVICE, among=among) is chosen[best]


def test_a_refusal_does_not_hide_a_kernel():
    among = [refusing(Refused("too wide")), taking(4.0), refusing(Missing("install it"))]
    assert choose_kernel((), (), DEVICE, among=among).cost_us == 4.0


def test_of_refusals_the_first_is_told_and_what_is_missing():
    among = [refusing(Refused("too wide")), refusing(Refused("no halves"))]
    assert choose_kernel((), (), DEVICE, among=among) == Refused("too wide")
    among.append(refusing(Missing("install it")))
    assert choose_kernel((), (), DEVICE, among=among) == Refused("too wide; install it")


def test_kernels_of_symbolic_products_are_compared_at_the_same_sizes():
    """What a stitched kernel takes at the nominal size says nothing of it at those that come."""
    n = tirx.Var("n", "int64")
    function = fused(linear("float16", (n, 64), 32, 64))
    stages = read_stages(function)
    for rows in (1, 65536):
        bounds = Bounds((), (Extents((("n", rows),)),))
        found = [
            each.choose(stages, outputs_of(function, stages), DEVICE, bounds, Options().schemes)
            for each in IMPLEMENTATIONS
        ]
        legal = [kernel for kernel in found if not isinstance(kernel, Refused)]
        assert len(legal) > 1
        chosen = choose_kernel(stages, outputs_of(function, stages), DEVICE, bounds)
        assert chosen.cost_us == min(kernel.cost_us for kernel in legal)


@pytest.mark.parametrize("records", [False, True])
def test_a_kernel_is_chosen_once(monkeypatch, tmp_path, records):
    function = fused(CASES["stitched"])
    asked = []
    real = build.choose_kernel

    def choose(stages, *rest):
        asked.append(stages)
        return real(stages, *rest)

    monkeypatch.setattr(build, "choose_kernel", choose)
    store = tmp_path / "records.jsonl"
    store.touch()
    module = stitched(CASES["stitched"].module, before="StitchSchedule")
    scheduled = transform.StitchSchedule(H200, str(store) if records else None)(module)
    assert len(asked) == 1 and function is not None
    assert any(map(build.is_emitted, scheduled.functions.values()))


@pytest.mark.slow
def test_nobody_outside_of_its_room_asks_which_kernel_it_is():
    kinds = [*Kernel.__subclasses__(), *EmittedProducts.__subclasses__()]
    names = {each.__name__ for each in kinds if each not in (Fake, EmittedProducts)}
    assert names == {"StitchedKernel", "TensorKernel", "SkinnyKernel", "LibraryKernel"}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                assert not asked & names or is_in(module, "kernel.stitched"), module


def test_verified_whichever_it_is(library):
    for case in CASES.values():
        if case is not CASES["library"]:  # which takes the executor minutes
            assert tvm_stitch.verify(case.module, H200, orders=1).ok
