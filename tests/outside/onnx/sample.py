"""A fixed tenth of the cases, for tests: a case is in it by its name alone.

So it stays the same case by case, whatever other cases the suite gains or loses.
"""

from __future__ import annotations

import hashlib

EVERY = 10  # one case of so many


def in_sample(name: str) -> bool:
    """Whether a case is in the sample."""
    return _number(name) % EVERY == 0


def part(name: str, parts: int) -> int:
    """The part of the sample that a case belongs to, of so many."""
    return _number(name) // EVERY % parts


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
