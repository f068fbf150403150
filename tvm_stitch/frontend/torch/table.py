"""The table of operators for readers: OPERATORS.md beside this package.

`python -m tvm_stitch.frontend.torch.table` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm_stitch.frontend.torch.decompositions import WRITTEN_OUT
from tvm_stitch.frontend.torch.ops import FAMILIES, LEFT
from tvm_stitch.frontend.torch.ops.indices.scatter import MOST_PAIRS_REPLACED, MOST_WRITES
from tvm_stitch.frontend.torch.ops.indices.sorting import (
    FEW,
    MOST_PAIRS,
    MOST_PAIRS_OF_ROW,
    SHARE,
)
from tvm_stitch.frontend.torch.ops.indices.sorting import (
    LONGEST as LONGEST_ROW,
)
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN
from tvm_stitch.graph.front.scattered.scatter_nd import LONGEST, MOST_ROWS


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
        "or sparse, where integers are divided by what may be 0 or raised to other powers than 1,",
        "2 and 3, where a position is only known when the graph runs, where an element may be hit",
        f"by more than {MOST_WRITES} writes (aside from what `index_put` adds, and `index_reduce`",
        "adds, averages or compares, where indices of neighbouring dimensions say, in tables of at",
        f"most {MOST_ROWS:,} rows of {LONGEST:,} elements, and from `scatter_add` and",
        "`scatter_reduce` whose index is spread along the other dimensions, which become these;",
        "and from what replaces elements, where they and the writes make at most",
        f"{MOST_PAIRS_REPLACED:,} pairs)",
        f"or is made of a window of more than {MOST_WRITTEN}, where an image is enlarged to a size",
        "that changes, and",
        "products that sum over more than 64 elements or have more than 256 columns, of float32,",
        "or of halves where they have fewer than 16 rows, both where parts cannot call cuBLASLt,",
        "or have sizes that change. Convolutions and their gradients are, where parts cannot call",
        "cuDNN; in training also those of float32, of sequences and volumes, and gradients of",
        "convolutions in groups, but for those of single pixels.",
        "",
        "Sums and means of bags (`_embedding_bag`) of one length are written out in these, as are",
        "their gradients, also where offsets say what is in a bag. Such bags themselves are only",
        "where no PyTorch is behind a program: `searchsorted.Tensor` finds the bag of a row there.",
        "",
        "Rows are sorted by counting who stands before whom, where an operator's rows have at most",
        f"{MOST_PAIRS:,} pairs of elements in all, or {MOST_PAIRS_OF_ROW:,} each where only run",
        "time knows how many there are; of the largest or smallest, and of histograms, pairs are",
        f"those of elements and results as well. The largest {FEW} or fewer of {SHARE} times as",
        f"many, in rows of {LONGEST_ROW:,} at most, are found one by one, of any number of rows.",
        "",
        "An index is checked where it is used: beyond the end it stops the kernel on a GPU, as it",
        "does PyTorch's, and is an IndexError on the CPU.",
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
