"""What moved between two runs by more than their noise.

In: two Results. Out: changes, and whether any of them is a loss beyond the allowed share. A row
that had a time and has none now is a loss as well.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from bench.results import Results, Row
from bench.table import microseconds


@dataclass(frozen=True)
class Change:
    """One system on one case, before and after."""

    case: str
    system: str
    before_us: float | None
    after_us: float | None
    note: str = ""

    @property
    def factor(self) -> float | None:
        """After over before."""
        if self.before_us is None or self.after_us is None:
            return None
        return self.after_us / self.before_us

    def is_loss(self, allowed: float) -> bool:
        """Slower by more than the allowed share, or without a time where there was one."""
        if self.before_us is None:
            return False
        return self.factor is None or self.factor > 1 + allowed

    def __str__(self) -> str:
        times = f"{microseconds(self.before_us)} → {microseconds(self.after_us)} µs"
        share = f" ({(self.factor - 1) * 100:+.1f} %)" if self.factor is not None else ""
        return f"{self.case}, {self.system}: {times}{share}{self.note}"


def noise_us(row: Row) -> float:
    """Half the distance of the quartiles, at least 1 % and a tenth of a microsecond."""
    us = row.us or 0.0
    spread = ((row.us_q3 or us) - (row.us_q1 or us)) / 2
    return max(spread, 0.01 * us, 0.1)


def changes(before: Results, after: Results) -> list[Change]:
    """Rows of both runs whose times differ by more than both noises; lost and new times too.

    What the newer run did not measure at all is no change: it may have been asked for less.
    """
    found = []
    for old in before.rows:
        new = after.row(old.case, old.system)
        if new is None:
            continue
        old_us, new_us = before.us(old.case, old.system), after.us(old.case, old.system)
        if old_us is None and new_us is None:
            continue
        if old_us is None or new_us is None:
            note = f" ({new.status}: {new.detail})" if new_us is None else " (now right)"
            found.append(Change(old.case, old.system, old_us, new_us, note))
        elif abs(new_us - old_us) > noise_us(old) + noise_us(new):
            found.append(Change(old.case, old.system, old_us, new_us))
    return sorted(found, key=lambda c: -(c.factor if c.factor is not None else float("inf")))


def report(before: Results, after: Results, allowed: float) -> tuple[str, bool]:
    """The comparison as text, losses first, and whether there are any."""
    found = changes(before, after)
    losses = [c for c in found if c.is_loss(allowed)]
    others = [c for c in found if not c.is_loss(allowed)]
    lines = []
    if before.machine.get("gpu") != after.machine.get("gpu"):
        lines.append(f"different GPUs: {before.machine.get('gpu')} and {after.machine.get('gpu')}")
    if losses:
        lines.append(f"slower by more than {allowed:.0%}, or failing now:")
        lines += [f"  {c}" for c in losses]
    if others:
        lines.append("moved by more than the noise:")
        lines += [f"  {c}" for c in others]
    common = sum(after.row(r.case, r.system) is not None for r in before.rows)
    lines.append(f"{common} rows in both, {len(found)} moved, {len(losses)} lost")
    return "\n".join(lines), bool(losses)


def as_json(before: Results, after: Results, allowed: float) -> str:
    """The comparison as JSON: what moved, the worst first."""
    found = [
        {**asdict(each), "factor": each.factor, "loss": each.is_loss(allowed)}
        for each in changes(before, after)
    ]
    return json.dumps({"changes": found}, indent=2)
