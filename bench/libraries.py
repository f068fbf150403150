"""What the programs that time libraries have in common: what is chosen, what is kept, how near.

In: names, rows of measurements. Out: those that are asked for, a file, a line for people.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def is_named(name: str, patterns: Sequence[str] | None) -> bool:
    """Whether a name matches one of the patterns, or there are none."""
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def keep(path: Path | None, result: dict[str, Any]) -> None:
    """Write what there is so far, if anywhere: an interrupted run has measured that."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1))


def how_near(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The share of times within 5 % of the best, the geometric mean, and the worst."""
    near = sum(ratio <= 1.05 for ratio in ratios) / len(ratios)
    return near, math.exp(sum(map(math.log, ratios)) / len(ratios)), max(ratios)
