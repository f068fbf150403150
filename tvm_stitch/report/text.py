"""A Report as text: at most 100 columns, a table of kernels and what stands behind each."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tvm_stitch.plan.plan import Fallback, Measured, Solved, shown_bytes
from tvm_stitch.report.data import Findings, Kernel, Passed, PassTime

WIDTH = 100
MOST_PASSED = 12  # in the text
_HEADINGS = ("", "scheme", "launches", "least", "planned", "floor us", "predicted us", "kernel")


def render(report: Findings) -> str:
    """The whole report."""
    parts = [_headline(report)]
    if report.kernels:
        parts += ["", *_table(report.kernels)]
    for number, kernel in enumerate(report.kernels, 1):
        parts += ["", *_details(number, kernel)]
    parts += _passed(report)
    if report.measured:
        parts += ["", "Measured on this GPU; the faster of the two was kept:"]
        for each in report.measured:
            parts += _measured_lines(each)
    parts += _named("A library would take:", report.for_library)
    parts += _named("Left to TVM's default kernels:", report.fallbacks)
    if report.times:
        parts += ["", *_wrapped("time    ", _times(report.times))]
    return "\n".join(parts)


def _headline(report: Findings) -> str:
    stitched = sum(kernel.stitched for kernel in report.kernels)
    after = f"{_count(report.launches, 'kernel launch')}, {stitched} of "
    after += f"{_count(len(report.kernels), 'kernel')} stitched"
    by_library = sum(kernel.by_library for kernel in report.kernels)
    after += f", {by_library} by NVIDIA's libraries" if by_library else ""
    if report.before.launches is None:
        before = f"TVM's default pipeline fails on this module: {report.before.failure}"
    else:
        before = f"TVM's default pipeline: {_count(report.before.launches, 'kernel launch')}"
    target = f"target  {report.target}, planned for {report.device}"
    target += f" ({report.versions})" if report.versions else ""
    plans = [line for plan in report.plans for line in _wrapped("plan    ", _quality(plan))]
    return "\n".join([*_wrapped("before  ", before), *_wrapped("after   ", after), *plans, target])


def _times(passes: Sequence[PassTime]) -> str:
    """Where it went by stage, most first."""
    seconds: dict[str, float] = {}
    for each in passes:
        seconds[each.stage] = seconds.get(each.stage, 0.0) + each.seconds
    longest = sorted(seconds.items(), key=lambda each: -each[1])
    told = ", ".join(f"{stage} {each:.1f} s" for stage, each in longest if each >= 0.05)
    total = f"{sum(seconds.values()):.1f} s"
    return f"{total}: {told}" if told else total


def _quality(plan: Solved) -> str:
    if plan.cost_us:
        text = f"{plan.cost_us:.1f} us predicted with launches, {plan.status}"
    else:
        text = f"TVM's kernels have no predicted time, {plan.status}"
    if plan.cost_us and plan.status != "simple rule":
        text += f" (gap {100 * plan.gap:.2g} %, simple rule {plan.greedy_us:.1f} us)"
    text = (
        f"{text}; {_count(plan.candidates, 'candidate')} in {_count(plan.regions, 'region')}, "
        f"{plan.distinct} distinct"
    )
    if plan.parts:
        text += (
            f"; {plan.parts} are parts of larger ones, across which kernels could save at most "
            f"{plan.parts_us:.1f} us"
        )
    return text


def _named(title: str, found: Sequence[Fallback]) -> list[str]:
    """Operators and reasons below a title; nothing where there are none."""
    longest = max((len(each.op) for each in found), default=0)
    lines = [_wrapped(f"  {each.op:{min(longest, 24)}}  ", each.reason) for each in found]
    return ["", title, *(line for each in lines for line in each)] if found else []


def _passed(report: Findings) -> list[str]:
    """What flows between kernels, by their numbers and names; nothing where nothing does."""
    found = report.flow.passed
    lines = ["", "Passed between kernels through memory:"] if found else []
    for each in found[:MOST_PASSED]:
        writer, reader = (
            _end(place, report.kernels[place]) for place in (each.writer, each.reader)
        )
        lines += _wrapped("  ", f"{writer} -> {reader} ({_amount(each)})")
        lines += _wrapped("      ", each.reason) if each.reason else []
    if len(found) > MOST_PASSED:
        lines.append(f"  and {len(found) - MOST_PASSED} smaller ones (--json lists all)")
    return lines


def _end(place: int, kernel: Kernel) -> str:
    return f"{place + 1} {_shortened(kernel.ops)}"


def _amount(passed: Passed) -> str:
    """How often, if not once, and how much; a single value by its name."""
    size = "of unknown size" if passed.bytes is None else shown_bytes(passed.bytes)
    if passed.count > 1:
        return f"{passed.count} times, {size} in all"
    return f"{', '.join(passed.values)}, {size}" if len(passed.values) == 1 else size


def _measured_lines(found: Measured) -> list[str]:
    times = f", {found.count} times" if found.count > 1 else ""
    return _wrapped("  ", f"{_shortened(found.operators)}{times}: {found}")


def _shortened(names: Sequence[str]) -> str:
    """The last of many names, which is what the kernel comes to."""
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"


def _count(number: int, thing: str) -> str:
    plural = "es" if thing.endswith("ch") else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"


def _table(kernels: Sequence[Kernel]) -> list[str]:
    rows = [_HEADINGS]
    for number, kernel in enumerate(kernels, 1):
        rows.append(
            (
                str(number),
                kernel.scheme,
                str(kernel.launches),
                shown_bytes(kernel.bytes_min),
                "-" if kernel.bytes_planned is None else shown_bytes(kernel.bytes_planned),
                f"{kernel.floor_us:.2f}",
                "-" if kernel.predicted_us is None else f"{kernel.predicted_us:.2f}",
                kernel.name,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column == 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row[:-1], widths, strict=True))
        ]
        lines.append(_cut("  ".join([*cells, row[-1]]).rstrip()))
    return lines


def _details(number: int, kernel: Kernel) -> list[str]:
    lines = [f"{number}  {kernel.name}"]
    lines += _wrapped("   computes  ", ", ".join(kernel.ops))
    tuned = f" ({kernel.origin})" if kernel.origin.startswith("tuned") else ""
    lines += _wrapped("   mapping   ", kernel.mapping + tuned)
    if kernel.formula:
        lines += _wrapped("   sizes     ", f"{kernel.formula} bytes; figures for {kernel.sizes}")
    if kernel.schemes:
        flows = (f"{name}: {scheme}" for name, scheme in kernel.schemes.items())
        lines += _wrapped("   values    ", ", ".join(flows))
    if kernel.together:
        lines += _wrapped("   fused     ", kernel.together)
    return [*lines, *_wrapped("   why       ", kernel.why)]


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * len(label)) or [
        label.rstrip()
    ]


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
