"""Options(measure=True): products that may be the library's or kernels of ours, timed both ways."""

from contextlib import closing
from pathlib import Path

import pytest
import tvm
from check import H200, primfuncs
from library_stand_in import stand_in
from products_with_endings import product
from tvm import relax
from tvm.relax import op
from zoo import graph

from tvm_stitch import Options, transform
from tvm_stitch.kernel.build import is_emitted, is_library_call
from tvm_stitch.kernel.ir.mapping import LIBRARY, SCHEMES, TF32
from tvm_stitch.plan.measured import Time
from tvm_stitch.tuning import clock as real_clocks
from tvm_stitch.tuning.clock import GpuClock
from tvm_stitch.tuning.measuring import module as modules


class MadeUpClocks:
    """By the schemes that they are made with, they show what they are told to."""

    def __init__(self, own, library):
        self.own, self.library, self.asked, self.opened = own, library, [], 0

    def __call__(self, _target, schemes, _dependent_launch):
        self.schemes, self.opened = schemes, self.opened + 1
        return MadeUpClock(self, schemes)


class MadeUpClock:
    def __init__(self, clocks, schemes):
        self._clocks, self._schemes = clocks, schemes

    def times(self, module, plans):
        if len(plans) > 1:  # a region, and TVM's kernels for it
            return [Time(1.0), Time(2.0)]
        self._clocks.asked.append((module, plans, self._schemes))
        assert (LIBRARY in self._schemes) != ("regional" in self._schemes)
        return [self._clocks.library if LIBRARY in self._schemes else self._clocks.own]

    def close(self):
        self._clocks.opened -= 1


@pytest.fixture
def clocks(monkeypatch):
    with stand_in(monkeypatch):

        def of(own, library):
            found = MadeUpClocks(own, library)
            monkeypatch.setattr(transform, "GpuClock", found)
            return found

        yield of


def functions(module, options):
    return list(primfuncs(module, options=options).values())


@pytest.mark.parametrize("own_is_faster", [True, False])
@pytest.mark.parametrize("ending", ["", "bias", "residual bias"])
def test_the_faster_way_is_taken(clocks, own_is_faster, ending):
    module = product("float16", 1024, 768, 768, ending).module
    asked = clocks(Time(2.0), Time(3.0)) if own_is_faster else clocks(Time(3.0), Time(2.0))
    (function,) = functions(module, Options(measure=True))
    assert is_emitted(function) == own_is_faster and is_library_call(function) != own_is_faster
    assert len(asked.asked) == 2 and asked.opened == 0


def test_what_is_timed_can_be_built_by_its_schemes(clocks):
    """Its plan fits the module, whose product goes the way that the schemes leave."""
    asked = clocks(Time(2.0), Time(3.0))
    functions(product("float16", 1024, 768, 768, "bias").module, Options(measure=True))
    for module, (plan,), schemes in asked.asked:
        (group,) = plan.blocks[0].groups
        assert group.nodes == (0,) and len(module["main"].params) == 3
        built = transform.StitchSchedule(H200, None, Options(schemes=schemes))(
            modules_grouped(module, plan, schemes)
        )
        (function,) = (built[var] for var in built.get_global_vars() if var.name_hint != "main")
        assert is_library_call(function) == (LIBRARY in schemes)


def modules_grouped(module, plan, schemes):
    options = Options.of_ways(schemes, plan=plan)
    passes = [transform.StitchOps(H200, options), relax.transform.FuseOps()]
    for each in (*passes, relax.transform.FuseTIR()):
        module = each(module)
    return module


@pytest.mark.slow
def test_each_way_is_compiled(clocks, monkeypatch):
    asked = clocks(Time(2.0), Time(3.0))
    functions(product("float16", 64, 768, 768, "bias").module, Options(measure=True))
    monkeypatch.setattr(real_clocks, "_check_gpu", lambda target: None)
    for module, plans, schemes in asked.asked:
        with closing(GpuClock(H200, schemes)) as real:
            (found,) = real.times(module, plans)
            assert [path.name for path in Path(real._folder.name).iterdir()] == ["0.so"]
        if not tvm.cuda(0).exist:
            assert found == Time(None, "there is no GPU that TVM can use")


def test_products_beside_attention_of_a_library(clocks):
    """Its call gives a tuple, a part of which is taken."""
    asked = clocks(Time(3.0), Time(2.0))

    def build(emit, q, k, v, w, bias):
        heads = emit(op.nn.attention(q, k, v))
        found = emit(op.matmul(emit(op.reshape(heads, (1024, 768))), w))
        return emit(op.add(found, bias))

    shapes = [(2, 512, 12, 64)] * 3 + [(768, 768), (768,)]
    module = graph("float16", shapes, build, lambda *_: ()).module
    functions(module, Options(measure=True))
    assert asked.asked


def test_equal_products_are_timed_once(clocks):
    asked = clocks(Time(2.0), Time(3.0))

    def build(emit, x, *weights):
        for weight in weights:
            x = emit(op.matmul(emit(op.nn.relu(x)), weight))
        return x

    shapes = [(1024, 768), *[(768, 768)] * 5]
    found = functions(graph("float16", shapes, build, lambda *_: ()).module, Options(measure=True))
    # With a ReLU behind it, and without.
    assert all(map(is_emitted, found)) and len(asked.asked) == 2 * 2


@pytest.mark.parametrize("missing", ["own", "library"])
def test_where_a_way_cannot_be_timed_the_model_decides(clocks, missing):
    module = product("float16", 1024, 768, 768, "bias").module
    times = Time(None, "it hung"), Time(1.0)
    clocks(*(times if missing == "own" else reversed(times)))
    (function,) = functions(module, Options(measure=True))
    (unmeasured,) = functions(module, Options())
    assert is_library_call(function) == is_library_call(unmeasured)


def test_without_products_no_clock_is_opened(clocks):
    asked = clocks(Time(2.0), Time(3.0))
    case = graph("float32", [(64, 64)], lambda emit, x: emit(op.nn.softmax(x)), lambda *_: ())
    functions(case.module, Options(measure=True))
    assert not asked.asked and asked.opened == 0


def test_ways_are_schemes_and_what_is_allowed_besides():
    plain, rounded = Options(), Options(tf32_products=True)
    assert plain.ways == SCHEMES and rounded.ways == (*SCHEMES, TF32)
    assert rounded.schemes == SCHEMES
    for each in (plain, rounded):
        assert Options.of_ways(each.ways) == each
    assert modules.Options is Options
