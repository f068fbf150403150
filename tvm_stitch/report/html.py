"""A Report as one HTML file: a picture of the kernels and what stands behind each.

In: a Report. Out: HTML with everything in it, no script, no reference to elsewhere. Must not know
TVM.
"""

from __future__ import annotations

from html import escape

from tvm_stitch.plan.plan import shown_bytes
from tvm_stitch.report.data import Findings, Kernel

WIDTH, ROW, LABEL = 960, 26, 330
COLOURS = {
    "local": "#4c78a8",
    "warp": "#59a14f",
    "regional": "#edc948",
    "cluster": "#f28e2b",
    "global": "#b07aa1",
    "independent": "#76b7b2",
}
DEFAULT_COLOUR = "#bab0ac"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd }
code { font-size: 13px } details { margin: .4rem 0 }
svg { width: 100%; height: auto } .muted { color: #666 }
"""


def page(report: Findings) -> str:
    """The whole page."""
    parts = [
        f"<h1>Stitched for {escape(report.device)} ({escape(report.target)})</h1>",
        _headline(report),
        _picture(report.kernels),
        "<h2>Kernels</h2>",
        *(_kernel(number, kernel) for number, kernel in enumerate(report.kernels, 1)),
        _cuts(report),
        _measured(report),
        _fallbacks(report),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tvm_stitch</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _headline(report: Findings) -> str:
    before = report.before.launches
    default = "refused by TVM's default pipeline" if before is None else f"{before} launches before"
    plans = "".join(
        f"<p>Plan: {plan.cost_us:.1f} us predicted, {escape(plan.status)}, gap "
        f"{100 * plan.gap:.2g} %; simple rule {plan.greedy_us:.1f} us.</p>"
        for plan in report.plans
    )
    return f"<p>{default}, <b>{report.launches} after</b>.</p>{plans}"


def _picture(kernels: tuple[Kernel, ...]) -> str:
    """A bar for each kernel, as long as it is predicted to take, with its floor marked."""
    times = [kernel.predicted_us or kernel.floor_us for kernel in kernels]
    scale = (WIDTH - LABEL - 90) / max([*times, 1e-9])
    rows = []
    for number, (kernel, time) in enumerate(zip(kernels, times, strict=True)):
        y, width = number * ROW, max(1.0, time * scale)
        colour = COLOURS.get(kernel.scheme, DEFAULT_COLOUR)
        name = kernel.name if len(kernel.name) <= 42 else kernel.name[:39] + "..."
        floor = LABEL + kernel.floor_us * scale
        label = f"{time:.1f} us" + (f" x {kernel.launches}" if kernel.launches > 1 else "")
        rows.append(
            f"<g><title>{escape(', '.join(kernel.ops))}</title>"
            f'<text x="0" y="{y + 17}" font-size="13">{escape(name)}</text>'
            f'<rect x="{LABEL}" y="{y + 4}" width="{width:.1f}" height="{ROW - 8}" '
            f'fill="{colour}"/><line x1="{floor:.1f}" x2="{floor:.1f}" y1="{y + 2}" '
            f'y2="{y + ROW - 2}" stroke="#222"/><text x="{LABEL + width + 6:.1f}" y="{y + 17}" '
            f'font-size="12">{label}</text></g>'
        )
    used = [scheme for scheme in COLOURS if any(k.scheme == scheme for k in kernels)]
    legend = ", ".join(
        f'<span style="color:{COLOURS[name]}">&#9632;</span> {name}' for name in used
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {max(1, len(kernels)) * ROW}" role="img" '
        f'aria-label="Predicted time of each kernel">{"".join(rows)}</svg>'
        f'<p class="muted">Predicted time, the line marks the floor of its bytes. {legend} '
        f"{_square(DEFAULT_COLOUR)} TVM's default (its floor)</p>"
    )


def _square(colour: str) -> str:
    return f'<span style="color:{colour}">&#9632;</span>'


def _kernel(number: int, kernel: Kernel) -> str:
    size = shown_bytes(kernel.bytes_min)
    lines = [
        f"computes {escape(', '.join(kernel.ops))}",
        f"mapping: {escape(kernel.mapping)}; at least {size}",
        escape(kernel.together),
        escape(kernel.why),
    ]
    body = "".join(f"<p>{line}</p>" for line in lines if line)
    name = f"{number}. <code>{escape(kernel.name)}</code> ({escape(kernel.scheme)})"
    return f"<details><summary>{name}</summary>{body}</details>"


def _cuts(report: Findings) -> str:
    if not report.cuts:
        return ""
    rows = "".join(
        f"<tr><td>{escape(', '.join(cut.writer))}</td><td>{escape(', '.join(cut.reader))}</td>"
        f"<td>{shown_bytes(cut.bytes)}{f' x {cut.count}' if cut.count > 1 else ''}</td>"
        f"<td>{escape(cut.reason)}</td></tr>"
        for cut in report.cuts
    )
    head = "<tr><th>from</th><th>to</th><th>bytes</th><th>why not one kernel</th></tr>"
    return f"<h2>Between kernels, through memory</h2><table>{head}{rows}</table>"


def _measured(report: Findings) -> str:
    if not report.measured:
        return ""
    rows = "".join(
        f"<tr><td>{escape(', '.join(found.operators))}</td><td>{found.count}</td>"
        f"<td>{escape(str(found))}</td></tr>"
        for found in report.measured
    )
    head = "<tr><th>operators</th><th>times</th><th>measured</th></tr>"
    return f"<h2>Measured, the faster kept</h2><table>{head}{rows}</table>"


def _fallbacks(report: Findings) -> str:
    if not report.fallbacks:
        return ""
    rows = "".join(
        f"<tr><td>{escape(fallback.op)}</td><td>{escape(fallback.reason)}</td></tr>"
        for fallback in report.fallbacks
    )
    return f"<h2>Left to TVM's default kernels</h2><table>{rows}</table>"
