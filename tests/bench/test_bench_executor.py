"""Every sub-graph of the benchmarks at a small size in the CPU executor, in shuffled orders."""

import pytest
from check import H200

torch = pytest.importorskip("torch")

from bench.case import make_inputs  # noqa: E402
from bench.cases import suite  # noqa: E402
from bench.check import error  # noqa: E402
from bench.importing import by_itself  # noqa: E402
from tvm_stitch.executable.on_cpu import Runner  # noqa: E402
from tvm_stitch.verify import rounded, stitched_for_cpu  # noqa: E402

# One width of the grid stands for all: they differ in nothing else.
SUBGRAPHS = [c for c in suite("subgraphs") if c.grid is None or c.grid[2] == 1024]


@pytest.mark.slow
@pytest.mark.parametrize("case", SUBGRAPHS, ids=lambda c: c.name)
def test_the_stitched_kernels_are_right(case):
    workload = case.workload(small=True)
    inputs = make_inputs(workload.arrays, "cpu")
    module = by_itself(workload, inputs)
    plain = [x.float().numpy() if x.is_floating_point() else x.numpy() for x in inputs]
    arrays = rounded(module, plain)
    runner = Runner(stitched_for_cpu(module, H200), H200)
    for seed in range(3):
        outputs = [_tensor(array) for array in runner.run(arrays, seed)]
        assert error(workload, inputs, outputs) <= workload.allowed
    assert runner.ran and not runner.hazards


def _tensor(array):
    found = torch.from_numpy(array)
    return found.view(torch.bfloat16) if found.dtype == torch.uint16 else found
