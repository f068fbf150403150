"""Repeated stretches of a list, such as the equal layers of a model, written once with a count.

In: the kernels that are launched, in order. Out: the same order as a tree of launches and Repeats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_stitch.report.data import Repeat

MOST_ITEMS = 120  # that one list shows; a longer one is cut into sections
SECTION = 60
# A repeat covers so many launches, and of a long list at least this share: a search that finds only
# small ones would take time in proportion to the cube of its length.
LEAST = 4
LONG, LEAST_SHARE = 512, 1 / 16


def folded(launches: Sequence[int]) -> tuple[int | Repeat, ...]:
    """The places of a list from 0 on, in order; what is repeated on end stands there once."""
    return _sections(_folded(np.asarray(launches, dtype=np.int64), 0, len(launches)))


def _folded(names: np.ndarray, start: int, stop: int) -> list[int | Repeat]:
    """The best repeat of a stretch, and what is before and after it; else its places."""
    best = _longest_repeat(names[start:stop])
    if best is None:
        return list(range(start, stop))
    at, period, count = best
    first, after = start + at, start + at + period * count
    body = _sections(_folded(names, first, first + period))
    return [
        *_folded(names, start, first),
        Repeat(first, period, count, body),
        *_folded(names, after, stop),
    ]


def _longest_repeat(names: np.ndarray) -> tuple[int, int, int] | None:
    """Where it starts, its period and its count: of those that cover most, the shortest period."""
    best, most = None, max(LEAST, LEAST_SHARE * len(names) if len(names) > LONG else 0) - 1
    for period in range(1, len(names) // 2 + 1):
        equal = names[period:] == names[:-period]
        starts, lengths = _runs(equal)
        if not len(lengths):
            continue
        longest = int(lengths.argmax())
        count = int(lengths[longest]) // period + 1
        if count > 1 and period * count > most:
            best, most = (int(starts[longest]), period, count), period * count
    return best


def _runs(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of true values start, and how long they are."""
    edges = np.diff(np.concatenate(([0], flags.astype(np.int8), [0])))
    starts = np.flatnonzero(edges == 1)
    return starts, np.flatnonzero(edges == -1) - starts


def _sections(items: list[int | Repeat]) -> tuple[int | Repeat, ...]:
    if len(items) <= MOST_ITEMS:
        return tuple(items)
    parts = [items[at : at + SECTION] for at in range(0, len(items), SECTION)]
    return _sections([_section(part) for part in parts])


def _section(items: list[int | Repeat]) -> Repeat:
    start, last = _start(items[0]), items[-1]
    stop = last + 1 if isinstance(last, int) else last.start + last.period * last.count
    return Repeat(start, stop - start, 1, tuple(items))


def _start(item: int | Repeat) -> int:
    return item if isinstance(item, int) else item.start
