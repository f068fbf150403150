"""What changed between two compilations of a model: kernels that appeared, went, changed, got
slower.

In: two reports or profiles as JSON. Out: a Difference. Kernels are the same if they compute the
same operators on as many bytes; names do not count, which TVM numbers anew. Must not know TVM.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.json_data import parsed

Kernel = Mapping[str, Any]
TOLERANCE = 0.03  # of a kernel's time; runs differ by that much
_COMPARED = ("scheme", "mapping", "launches", "bytes_planned")
_NEEDED = ("name", "ops", "predicted_us", "floor_us", "bytes_min", *_COMPARED)


@dataclass(frozen=True)
class Change:
    """A kernel that both have."""

    name: str  # the new one's
    ops: tuple[str, ...]
    fields: Mapping[str, tuple[Any, Any]]  # what differs: old and new
    old_us: float | None  # of a launch: measured where both were, else predicted
    new_us: float | None

    @property
    def ratio(self) -> float:
        """The new time over the old."""
        return self.new_us / self.old_us if self.old_us and self.new_us else 1.0


@dataclass(frozen=True)
class Difference:
    """What one compilation has and the other has not; `str()` is a text for people."""

    launches: tuple[int, int]
    us: tuple[float, float]  # of all launches whose time is known
    times: str  # "measured" or "predicted"
    appeared: tuple[Kernel, ...]
    went: tuple[Kernel, ...]
    changed: tuple[Change, ...]
    slower: tuple[Change, ...]
    faster: tuple[Change, ...]

    @property
    def is_nothing(self) -> bool:
        """Whether they are the same."""
        parts = (self.appeared, self.went, self.changed, self.slower, self.faster)
        return not any(parts)

    def to_json(self) -> dict[str, Any]:
        """All of it, as what json.dump writes."""
        return asdict(self)

    def __str__(self) -> str:
        (old, new), (old_us, new_us) = self.launches, self.us
        lines = [f"launches {old} -> {new}; {self.times} {old_us:.1f} -> {new_us:.1f} us"]
        if self.is_nothing:
            return f"{lines[0]}\nno kernel differs"
        lines += [f"+ {_shown(kernel)}" for kernel in self.appeared]
        lines += [f"- {_shown(kernel)}" for kernel in self.went]
        for change in self.changed:
            differing = (f"{name} {old} -> {new}" for name, (old, new) in change.fields.items())
            lines.append(f"~ {_computes(change.name, change.ops)}: {'; '.join(differing)}")
        for word, changes in (("slower", self.slower), ("faster", self.faster)):
            lines += [f"{word}: {_shown_time(change)}" for change in changes]
        return "\n".join(lines)


def load(path: str | Path) -> Mapping[str, Any]:
    """A report or a profile that was written as JSON."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(_no_report(path)) from None
    return _checked(parsed(text, str(path)), path)


def _checked(data: Any, path: str | Path) -> Mapping[str, Any]:
    kernels = _report(data).get("kernels") if isinstance(data, dict) else None
    if not isinstance(kernels, list):
        raise InputError(_no_report(path))
    for kernel in kernels:
        missing = [name for name in _NEEDED if not isinstance(kernel, dict) or name not in kernel]
        if missing:
            raise InputError(f"{path} is damaged: a kernel has no {missing[0]}")
    return dict(data)


def _no_report(path: str | Path) -> str:
    return (
        f"{path} is no report or profile: write one with `tvm-stitch explain MODEL --json` or "
        "`tvm-stitch profile MODEL --json`"
    )


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float = TOLERANCE
) -> Difference:
    """What changed from one report or profile, as JSON, to the other."""
    are_measured = all(data.get("measured") for data in (old, new))
    before, after = _kernels(old, are_measured), _kernels(new, are_measured)
    pairs, went, appeared = _matched(before, after)
    changes = [_change(one, two) for one, two in pairs]
    return Difference(
        launches=(_launches(before), _launches(after)),
        us=(_total_us(before), _total_us(after)),
        times="measured" if are_measured else "predicted",
        appeared=tuple(appeared),
        went=tuple(went),
        changed=tuple(change for change in changes if change.fields),
        slower=tuple(change for change in changes if change.ratio > 1 + tolerance),
        faster=tuple(change for change in changes if change.ratio < 1 - tolerance),
    )


def _report(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report in a profile, or the report itself."""
    found = data.get("report", data)
    return found if isinstance(found, dict) else {}


def _kernels(data: Mapping[str, Any], are_measured: bool) -> list[dict[str, Any]]:
    """The kernels with the fields that are compared, and `us`, the time of a launch."""
    measured = {each["name"]: each.get("measured_us") for each in data.get("kernels", ())}
    return [
        {
            **{name: kernel[name] for name in _NEEDED},
            "us": measured[kernel["name"]] if are_measured else kernel["predicted_us"],
        }
        for kernel in _report(data)["kernels"]
    ]


def _matched(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]
) -> tuple[list[tuple[Kernel, Kernel]], list[Kernel], list[Kernel]]:
    """Pairs of the same kernel, and what is left of both; of equal ones, the same name first."""
    waiting: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for kernel in before:
        waiting[_computed(kernel)].append(kernel)
    pairs: list[tuple[Kernel, Kernel]] = []
    appeared: list[Kernel] = []
    for kernel in after:
        equal = waiting[_computed(kernel)]
        if not equal:
            appeared.append(kernel)
            continue
        best = next((each for each in equal if each["name"] == kernel["name"]), equal[0])
        equal.remove(best)
        pairs.append((best, kernel))
    return pairs, [kernel for each in waiting.values() for kernel in each], appeared


def _computed(kernel: Kernel) -> tuple[Any, ...]:
    return tuple(kernel["ops"]), kernel["bytes_min"]


def _change(old: Kernel, new: Kernel) -> Change:
    fields = {name: (old[name], new[name]) for name in _COMPARED if old[name] != new[name]}
    return Change(new["name"], tuple(new["ops"]), fields, old["us"], new["us"])


def _launches(kernels: Sequence[Kernel]) -> int:
    return sum(kernel["launches"] for kernel in kernels)


def _total_us(kernels: Sequence[Kernel]) -> float:
    return float(sum((kernel["us"] or 0.0) * kernel["launches"] for kernel in kernels))


def _shown(kernel: Kernel) -> str:
    us = "" if kernel["us"] is None else f", {kernel['us']:.2f} us"
    times = f" x {kernel['launches']}" if kernel["launches"] > 1 else ""
    return f"{_computes(kernel['name'], kernel['ops'])}: {kernel['scheme']}{us}{times}"


def _shown_time(change: Change) -> str:
    times = f"{change.old_us:.2f} -> {change.new_us:.2f} us ({100 * (change.ratio - 1):+.0f} %)"
    return f"{_computes(change.name, change.ops)}: {times}"


def _computes(name: str, ops: Sequence[str]) -> str:
    listed = ", ".join(ops) if len(ops) <= 4 else f"{ops[0]}, {ops[1]} ... {ops[-1]}"
    return f"{name} ({listed})"
