"""What is predicted of registers, shared memory and occupancy, beside what ptxas makes of it.

Over the golden kernels. A grid barrier's safety rests on these figures, and so do costs.
"""

import math
import re
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
from check import TOGETHER, primfuncs, schedule_of
from goldens import FULL, KERNELS, golden_kernel, target_of
from tvm import tirx

from tvm_stitch.build import lowering_context
from tvm_stitch.device import RESERVED_SHARED, device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.codegen.footprint import ALIGNED, Footprint, registers_left
from tvm_stitch.kernel.codegen.hazard_check import multiprocessors_needed
from tvm_stitch.kernel.cost_model.kernel_model import resident_blocks, schedule_at
from tvm_stitch.kernel.footprint import footprint_of
from tvm_stitch.kernel.skinny_matmul.build import SKINNY_ATTRIBUTE, read_skinny
from tvm_stitch.kernel.skinny_matmul.tiles import footprint as skinny_footprint
from tvm_stitch.kernel.skinny_matmul.tiles import tiles_from_json
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE, read_products
from tvm_stitch.kernel.tensor_core.tiles import Tiles, footprint
from tvm_stitch.simt.launch import Launch
from tvm_stitch.simt.lowering import Scope, lower
from tvm_stitch.stages.extents import Extents

NVCC = shutil.which("nvcc")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NVCC is None, reason="nvcc is not on the path"),
]

SYMBOLS = {"n": 5, "m": 50}
# The middle kernel of any length has 32 registers a thread, by two blocks of 1024 threads.
SPILLED_BYTES = {"softmax_of_any_length_kernel_1": 24}
MOST_BLOCKS = 32
# Blocks of a multiprocessor where ptxas takes other numbers of registers than are predicted, and
# what it leaves room for. None of these waits at a barrier of the grid.
PREDICTED_OTHERWISE = {
    "layer_norm_cluster": (3, 2),
    "product_on_tensor_cores": (5, 4),
    "residual_rms_norm_two_outputs": (25, 32),
    "scattered_sums": (5, 4),
    "softmax_block_peeled": (6, 8),
    "softmax_cluster": (6, 5),
    "softmax_of_any_length": (8, 6),
}


@dataclass(frozen=True)
class Compiled:
    """A kernel as ptxas reports it, and how it is launched, if these shapes launch it."""

    registers: int
    static: int  # bytes of shared memory
    spilled: int  # bytes of stack frame, stores or loads
    launch: Launch | None = None

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        assert self.launch is not None
        return self.static + self.launch.shared_bytes


def launches(name: str) -> tuple[str, dict[str, Launch]]:
    """The CUDA of a golden kernel, and what its host launches."""
    with lowering_context():
        program = lower(golden_kernel(name), target_of(name), name)
    arrays = {}
    for param in program.parameters:
        shape = [SYMBOLS[e.name] if isinstance(e, tirx.Var) else int(e) for e in param.ty.shape]
        dtype = str(param.ty.dtype)
        arrays[param] = np.empty(shape, "uint16" if dtype == "bfloat16" else dtype)
    scope = Scope(arrays)
    return program.cuda, {call.kernel: call.launch(scope) for call in program.calls(scope)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> dict[str, Compiled]:
    """All golden kernels, by the names that they have in CUDA."""
    found: dict[str, Compiled] = {}
    for target in dict.fromkeys(str(target_of(name).attrs["arch"]) for name in KERNELS):
        folder = tmp_path_factory.mktemp(target)
        launched: dict[str, Launch] = {}
        files = []
        for name in (n for n in KERNELS if str(target_of(n).attrs["arch"]) == target):
            source, own = launches(name)
            launched |= own
            files.append(folder / f"{name}.cu")
            files[-1].write_text(source)
        command = [NVCC, f"-arch={target}", "-cubin", "-Xptxas", "-v", "--use_fast_math"]
        done = subprocess.run(
            [*command, "--threads", "2", *map(str, files)],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        parts = re.split(r"Compiling entry function '(\w+)'", done.stderr)
        for kernel, said in zip(parts[1::2], parts[2::2], strict=True):
            found[kernel] = _read(said, launched.get(kernel))
    return found


def _read(said: str, launch: Launch | None) -> Compiled:
    used = re.search(r"Used (\d+) registers", said)
    assert used, said
    static = re.search(r"(\d+) bytes smem", said)
    spilled = re.findall(r"(\d+) bytes (?:stack frame|spill)", said)
    return Compiled(int(used[1]), int(static[1]) if static else 0, max(map(int, spilled)), launch)


def kernel_of(compiled: dict[str, Compiled], name: str) -> Compiled:
    """The kernel of a golden case that the shapes at hand launch."""
    (found,) = (
        kernel
        for key, kernel in compiled.items()
        if kernel.launch is not None and re.fullmatch(rf"{name}_kernel(_\d)?", key)
    )
    return found


def resident(name: str, kernel: Compiled) -> int:
    """Blocks that a multiprocessor holds, by what ptxas says."""
    assert kernel.launch is not None
    device = device_of(target_of(name))
    taken = Footprint(kernel.launch.threads, kernel.registers, kernel.shared)
    return taken.blocks_per_sm(device)


def programs_of(name: str):
    """The programs of a golden kernel, which come as one function."""
    functions = primfuncs(KERNELS[name].module, target_of(name), TOGETHER, before="StitchSchedule")
    (function,) = functions.values()
    return read_programs(function)


PRODUCTS = ("product_by_clusters", "product_by_warpgroups", "product_on_tensor_cores")
OF_FEW_ROWS = "product_of_few_rows"
SCHEDULED = [name for name in KERNELS if name not in (*PRODUCTS, OF_FEW_ROWS)]


def test_what_is_read_of_a_kernel_is_what_it_says():
    by_tiles = [name for name in KERNELS if TILES_ATTRIBUTE in golden_kernel(name).attrs]
    assert by_tiles == [name for name in KERNELS if name in PRODUCTS]
    assert all(SCHEDULE_ATTRIBUTE in golden_kernel(name).attrs for name in SCHEDULED)
    assert SKINNY_ATTRIBUTE in golden_kernel(OF_FEW_ROWS).attrs


def test_no_thread_needs_its_stack(compiled):
    spilling = {name: k.spilled for name, k in compiled.items() if k.spilled}
    assert spilling == SPILLED_BYTES


@pytest.mark.parametrize("name", KERNELS)
def test_a_block_is_no_larger_than_the_device_has_room_for(name, compiled):
    kernel, device = kernel_of(compiled, name), device_of(target_of(name))
    assert kernel.shared + RESERVED_SHARED <= device.shared_total
    assert kernel.shared <= device.shared_block
    assert resident(name, kernel) >= 1


@pytest.mark.parametrize("name", KERNELS)
def test_blocks_that_wait_for_each_other_are_resident(name, compiled):
    """On as few multiprocessors as the kernel says that it needs."""
    kernel = kernel_of(compiled, name)
    needed = multiprocessors_needed(golden_kernel(name), device_of(target_of(name)))
    assert kernel.launch is not None and kernel.launch.cooperative == bool(needed)
    if needed:
        assert resident(name, kernel) * needed >= kernel.launch.blocks
        programs, schedule = programs_of(name), schedule_of(golden_kernel(name))
        # The compiler is told how many, and may take whatever registers that leaves to each.
        said = footprint_of(programs, schedule).blocks_per_sm(device_of(target_of(name)))
        assert min(said, resident(name, kernel)) >= schedule.told_blocks


@pytest.mark.parametrize("name", SCHEDULED)
def test_blocks_take_the_shared_memory_that_is_predicted(name, compiled):
    programs = programs_of(name)
    sizes = Extents(tuple(SYMBOLS.items()))
    schedule = schedule_at(programs, schedule_of(golden_kernel(name)), sizes)
    real, said = kernel_of(compiled, name).shared, footprint_of(programs, schedule).shared
    # ptxas counts no gap behind the last array, nor where TVM puts small ones into others' places.
    assert 0 <= said - real < 2 * ALIGNED


@pytest.mark.parametrize("name", SCHEDULED)
def test_occupancy(name, compiled):
    """As many blocks are predicted beside each other as ptxas's registers leave room for."""
    kernel, device = kernel_of(compiled, name), device_of(target_of(name))
    programs = programs_of(name)
    schedule = schedule_at(
        programs, schedule_of(golden_kernel(name)), Extents(tuple(SYMBOLS.items()))
    )
    said = resident_blocks(schedule, footprint_of(programs, schedule), device)
    launch = kernel.launch
    assert launch is not None
    # Blocks of a grid barrier are as many as the grid has for a multiprocessor. More may fit
    # beside them, but none comes, so neither count matters beyond the grid's.
    most = math.ceil(launch.blocks / device.multiprocessors) if launch.cooperative else MOST_BLOCKS
    found = min(said, most), min(resident(name, kernel), most)
    assert found == PREDICTED_OTHERWISE.get(name, (found[1], found[1]))


@pytest.mark.parametrize("name", SCHEDULED)
def test_registers_are_estimated_on_the_safe_side(name, compiled):
    """By a tenth at most they are more than estimated, where values wait in registers; told of
    blocks beside each other, the compiler takes what these leave, and has to spill nothing."""
    schedule = schedule_of(golden_kernel(name))
    if any(mapping.residence != "register" for mapping in schedule.parts):
        return
    kernel, taken = kernel_of(compiled, name), footprint_of(programs_of(name), schedule)
    left = registers_left(taken.threads * schedule.told_blocks) if schedule.told_blocks else 0
    assert kernel.registers <= max(1.1 * taken.registers, left)
    assert not (left and kernel.spilled)


def test_products_of_few_rows_take_what_their_tiles_do(compiled):
    target = target_of(OF_FEW_ROWS)
    module = KERNELS[OF_FEW_ROWS].module
    (function,) = primfuncs(module, target, TOGETHER, before="StitchSchedule").values()
    (product,) = read_skinny(function)
    (tiles,) = tiles_from_json(str(golden_kernel(OF_FEW_ROWS).attrs[SKINNY_ATTRIBUTE]))
    kernel, taken = kernel_of(compiled, OF_FEW_ROWS), skinny_footprint(product, tiles)
    assert kernel.shared == taken.shared
    assert kernel.registers <= 1.1 * taken.registers
    assert resident(OF_FEW_ROWS, kernel) == taken.blocks_per_sm(device_of(target))


@pytest.mark.parametrize("name", PRODUCTS)
def test_shared_memory_of_products_is_what_their_tiles_take(name, compiled):
    functions = primfuncs(KERNELS[name].module, target_of(name), TOGETHER, before="StitchSchedule")
    (function,) = functions.values()
    tiles = Tiles.from_json(str(golden_kernel(name).attrs[TILES_ATTRIBUTE]))
    kernel, device = kernel_of(compiled, name), device_of(target_of(name))
    (product,) = read_products(function)
    assert kernel.shared == footprint(product, tiles).shared
    # As many blocks as the compiler was told to leave registers for, as far as there is memory.
    room = Footprint(tiles.threads, 0, kernel.shared).blocks_per_sm(device)
    real = resident(name, kernel)
    assert real >= min(tiles.min_blocks_per_sm, room)
    said = tiles.min_blocks_per_sm or footprint(product, tiles).blocks_per_sm(device)
    assert (said, real) == PREDICTED_OTHERWISE.get(name, (real, real))


def test_code_for_one_gpu_alone_is_compiled_as_such():
    assert all(str(target_of(name).attrs["arch"]).endswith("a") for name in FULL)
