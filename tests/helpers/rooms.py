"""The rooms of the package: its modules, and the levels of kernel/."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "tvm_stitch").rglob("*.py")
}

# The rooms of the kernel, lowest first: each may import those on lines above it.
KERNEL = (
    ("kernel.ir",),
    ("kernel.codegen", "kernel.axis_order"),
    ("kernel.analysis",),
    ("kernel.rows",),
    (
        *("kernel.elementwise", "kernel.cooperative", "kernel.panels", "kernel.scattered"),
        "kernel.small_matmul",
    ),
    ("kernel.kinds", "kernel.shared_input"),
    ("kernel.footprint", "kernel.at_sizes"),
    ("kernel.cost_model", "kernel.partition", "kernel.choose", "kernel.emit"),
    ("kernel.kernel", "kernel.distinct_parts"),
    ("kernel.legal", "kernel.stitched", "kernel.tensor_core"),
    ("kernel.library_product", "kernel.skinny_matmul", "kernel.attention"),
    ("kernel.implementations",),
    ("kernel.build", "kernel.stated_sizes"),
)


def is_in(module: str, room: str) -> bool:
    return f"{module}.".startswith(f"tvm_stitch.{room}.")
