"""A report, or searches, as one HTML page: data as JSON, and the page's files, which draw it.

In: what a report and a profile give as JSON, and the kernels' code. Out: HTML with everything in
it, no reference to elsewhere. Must not know TVM; how things look is said in page/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
SEARCHES_SCRIPTS = ("format.js", "searches/plots.js", "searches/main.js")
_PLACE = re.compile(r"<!-- (\w+) -->")


def page(
    report: Mapping[str, Any],
    code: Mapping[str, Mapping[str, str]],
    profile: Mapping[str, Any] | None = None,
) -> str:
    """The page of a report."""
    data = {"report": report, "profile": profile, "code": code}
    return _page("page.html", data, LIBRARIES, STYLES, SCRIPTS)


def searches_page(searches: Sequence[Mapping[str, Any]]) -> str:
    """The page of a record store."""
    styles = ("page.css", "picture.css", "searches/searches.css")
    data = {"searches": searches}
    return _page("searches/page.html", data, ("d3.min.js",), styles, SEARCHES_SCRIPTS)


def _page(
    template: str,
    data: Mapping[str, Any],
    libraries: Sequence[str],
    styles: Sequence[str],
    scripts: Sequence[str],
) -> str:
    parts = {
        "styles": f"<style>\n{_joined(styles)}</style>",
        "libraries": "".join(f"<script>{_read(f'vendor/{n}')}</script>\n" for n in libraries),
        "data": "".join(_data(name, value) for name, value in data.items()),
        "scripts": f'<script type="module">\n{_joined(scripts)}</script>',
    }
    return _PLACE.sub(lambda found: parts[found.group(1)], _read(template))


def _data(name: str, value: Any) -> str:
    """A value that a script reads; no text in it can end the element that holds it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def _joined(names: Sequence[str]) -> str:
    return "\n".join(map(_read, names))


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
