"""The table of operators for readers: OPERATORS.md beside this package.

`python -m tvm_stitch.frontend.torch.ops.table` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm_stitch.frontend.torch.decompositions import WRITTEN_OUT
from tvm_stitch.frontend.torch.ops import FAMILIES, LEFT


def table() -> str:
    """The table as Markdown."""
    reasons = dict.fromkeys(LEFT.values())
    written_out = sorted(str(packet).removeprefix("aten.") for packet in WRITTEN_OUT)
    lines = [
        "# Operators of PyTorch",
        "",
        "What becomes of ATen's core operators, and of others that AOTAutograd leaves in a graph.",
        "The rest PyTorch writes out in these. An overload called default is left out.",
        "",
        "## Converted to Relax",
        "",
        "| family | operators |",
        "|---|---|",
        *(f"| {family} | {_listed(names)} |" for family, names in FAMILIES.items()),
        f"| written out by PyTorch | {_listed(written_out)} |",
        "",
        "A call of one of these is left to PyTorch as well where its tensors are float64, complex",
        "or sparse, where integers are divided by what may be 0 or raised to other powers than 1, 2",
        "and 3, where a position is only known when the graph runs, and products of float32 that",
        "sum over more than 64 elements or have more than 256 columns.",
        "",
        "What reads and writes by indices stays PyTorch's: it answers an index beyond the end with",
        "an error, where a kernel of TVM's would take it for an address.",
        "",
        "## Left to PyTorch",
        "",
        "| why | operators |",
        "|---|---|",
        *(
            f"| {reason} | {_listed(name for name in LEFT if LEFT[name] == reason)} |"
            for reason in reasons
        ),
    ]
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


if __name__ == "__main__":
    print(table(), end="")
