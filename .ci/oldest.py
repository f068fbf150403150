"""Prints pip's constraints for the oldest release of everything that pyproject.toml admits."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"

# Every requirement with a range stands between quotes and begins name>=version.
for name, oldest in sorted(set(re.findall(r'"([\w-]+)>=([\w.]+)[,"]', PROJECT.read_text()))):
    print(f"{name}=={oldest}")
