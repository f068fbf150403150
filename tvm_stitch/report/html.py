"""A report as one HTML page: its data as JSON, and the page's files, which draw it.

In: what a report and a profile give as JSON, and the kernels' code. Out: HTML with everything in
it, no reference to elsewhere. Must not know TVM; how things look is said in page/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_PAGE = files("tvm_stitch.report") / "page"
LIBRARIES = ("d3.min.js", "dagre.min.js", "highlight.min.js")
STYLES = ("page.css", "picture.css", "code.css")
# In the order in which the browser reads them: each uses what stands before it.
SCRIPTS = (
    "data.js",
    "format.js",
    "tree.js",
    "layout.js",
    "picture.js",
    "details.js",
    "table.js",
    "roofline.js",
    "times.js",
    "main.js",
)
_PLACE = re.compile(r"<!-- (\w+) -->")


def page(
    report: Mapping[str, Any],
    code: Mapping[str, Mapping[str, str]],
    profile: Mapping[str, Any] | None = None,
) -> str:
    """The whole page."""
    parts = {
        "styles": f"<style>\n{_joined('', STYLES)}</style>",
        "libraries": "".join(f"<script>{_read('vendor', name)}</script>\n" for name in LIBRARIES),
        "data": _data("report", report) + _data("profile", profile) + _data("code", code),
        "scripts": f'<script type="module">\n{_joined("", SCRIPTS)}</script>',
    }
    return _PLACE.sub(lambda found: parts[found.group(1)], _read("", "page.html"))


def _data(name: str, value: Any) -> str:
    """A value that a script reads; no text in it can end the element that holds it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def _joined(folder: str, names: tuple[str, ...]) -> str:
    return "\n".join(_read(folder, name) for name in names)


def _read(folder: str, name: str) -> str:
    return (_PAGE / folder / name if folder else _PAGE / name).read_text(encoding="utf-8")
