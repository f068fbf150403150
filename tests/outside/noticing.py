"""Which tests are meant to notice that a file of the kernel is broken, the quickest first."""

from __future__ import annotations

from pathlib import Path

ROWS = ("choose_table", "choose", "golden", "emit", "row_sizes")
PRODUCTS = ("small_matmul", "golden")
TENSOR = ("tensor_core", "wgmma", "golden")
ROUNDS = ("rounds", "persistent_rows")

# Every test file by its name, which no two of them share.
ROOT = Path(__file__).parents[2]
FILES = {
    path.stem.removeprefix("test_"): str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
}

# By the room and name of the file in kernel/, or in stages/; what is not here belongs to PRODUCTS,
# TENSOR or ROWS.
TESTS: dict[str, tuple[str, ...]] = {
    "rows/global_access": ("vector_loads", "alternate_traversal", *ROWS),
    "analysis/vector_loads": ("vector_loads", "emit"),
    "rows/async_copy": ("long_rows", "golden", "legal"),
    "cooperative/emit_row_segment": (*ROUNDS, "nvcc"),
    "build": ("emit", "fallback", "small_matmul"),
    "analysis/variance_pattern": ("variance_pattern", "long_rows", "persistent_rows", "golden"),
    "codegen/hazard_check": ("hazard_check", "emit"),
    "choose": ("choose_table", "choose", "side_by_side", "length_dispatch", "legal"),
    "cooperative/choose_column_sums": ("choose_table", "column_sums", "choose", "legal"),
    "small_matmul/choose": (*PRODUCTS, "legal"),
    "cooperative/choose_rounds": ("choose_table", *ROUNDS, "choose", "legal"),
    "rows/choose": ("choose_table", "choose", "row_batching", "long_rows", "legal"),
    "tensor_core/choose": TENSOR,
    "analysis/contiguity": ("choose_table", "row_sizes", "emit", "column_sums"),
    "stages/op_pattern": ("op_pattern", "fallback"),
    "codegen/cluster_exchange": ("long_rows", "golden", "simt_hazards"),
    "cooperative/hoisted_loads": ("column_sums", "rounds"),
    "cost_model/kernel_model": ("cost", "planner"),
    "cooperative/workspace": ROUNDS,
    "cost_model/part_model": ("emit", "program", "rounds"),
    "emit": ("golden", "side_by_side", "shared_input", "length_dispatch", "emit", *ROUNDS),
    "rows/row_batching": ("choose_table", "row_batching", "golden", "choose"),
    "analysis/addressing": ("golden", "emit", "row_sizes", "rows_in_pieces"),
    "cooperative/emit_column_sums": ("column_sums", "golden"),
    "shared_input": ("shared_input", "golden"),
    "codegen/block_order": ("side_by_side", "shared_input", "golden"),
    "codegen/prim_func": ("golden", "emit", "length_dispatch"),
    "legal": ("choose_table", "legal", "space", "choose"),
    "codegen/placed_loads": PRODUCTS,
    "analysis/keep_or_recompute": ("choose_table", "choose", "emit", "long_rows"),
    "analysis/two_stage_variance": ("long_rows", "persistent_rows", "emit"),
    "analysis/online_reduction": ("choose_table", "long_rows", "choose", "golden"),
    "rows/emit": ("golden", "emit", "row_sizes"),
    "rows/emit_phase": ("emit", "small_matmul", "program"),
    "codegen/thread_indexing": ("golden", "emit", "row_sizes", "alternate_traversal"),
    "analysis/profile": ("profile", "cost"),
    "small_matmul/profile": ("profile", "cost"),
    "ir/program": ("program", "emit"),
    "partition": ("program", "emit", "rounds"),
    "codegen/reduction": ("golden", "emit", "long_rows"),
    "rows/footprint": ("footprint", "choose_table", "choose", "legal", "long_rows"),
    "cooperative/rounds": (*ROUNDS, "program"),
    "ir/schedule": ("schedule", "legal", "choose"),
    "ir/mapping": ("schedule", "legal", "choose"),
    "codegen/footprint": ("footprint", "hazard_check", "choose_table"),
    "analysis/kind": ("legal", "space", "choose"),
    "rows/kind": ("legal", "space", "choose"),
    "rows/legal": ("choose_table", "legal", "space", "choose"),
    "rows/space": ("space",),
    "panels/space": ("space",),
    "elementwise/space": ("space",),
    "cooperative/space": ("space", *ROUNDS),
    "small_matmul/space": ("space", *PRODUCTS),
    "footprint": ("footprint", "choose_table", "side_by_side"),
    "elementwise/kind": ("legal", "space", "choose"),
    "cooperative/kinds": ("legal", "space", *ROUNDS),
    "small_matmul/kind": (*PRODUCTS, "legal"),
    "ir/iteration_space": ("program", "rows_in_pieces", "emit"),
    "cooperative/split_reduction": ("two_stage_reduction", *ROUNDS),
    "cooperative/two_stage_reduction": ("two_stage_reduction", *ROUNDS),
    "stages/stage": ("stage", "emit", "program"),
    "stages/read_stages": ("stage", "indices", "program"),
    "cooperative/persistent_rows": ("choose_table", "persistent_rows", "rounds"),
    "cooperative/emit_persistent_row": ("persistent_rows", "rounds"),
    "rows/emit_vector": ("golden", "emit"),
    "elementwise/emit_transposed": ("transposed_reads", "golden"),
    "elementwise/transposed_reads": ("transposed_reads", "golden"),
    "cooperative/footprint": ("choose_table", "persistent_rows", "rounds", "column_sums"),
    "codegen/bfloat16": ("bf16_widen", "no_bfloat", "golden"),
    "codegen/lane_indices": ("lane_indices", "emit"),
    "analysis/strided_loads": ("strided_loads", "vector_loads"),
    "codegen/tir_builder": ("golden", "emit", "row_sizes"),
}


def meant_to_notice(file: str) -> tuple[str, ...]:
    """The test files for a file, as arguments of pytest."""
    path = Path(file).with_suffix("")
    place = "/".join(path.parts[path.parts.index("tvm_stitch") + 1 :]).removeprefix("kernel/")
    room = place.partition("/")[0]
    family = {"small_matmul": PRODUCTS, "tensor_core": TENSOR}.get(room, ROWS)
    return tuple(FILES[name] for name in TESTS.get(place, family))
