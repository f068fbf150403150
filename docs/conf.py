"""How Sphinx builds the documentation: `sphinx-build -W docs build/docs`, with the extra `docs`."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import tvm_stitch

project = "tvm_stitch"
author = "the tvm_stitch developers"
version = release = tvm_stitch.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "commands"]
html_theme = "furo"
html_title = f"tvm_stitch {version}"
html_static_path = ["page.css"]
html_css_files = ["page.css"]
html_copy_source = False
pygments_style, pygments_dark_style = "tango", "github-dark"
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "colon_fence"]
# In docstrings, `name` is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

# "name: what it is", with further lines set in: a field of a dataclass, an argument of a function.
_ENTRY = re.compile(r"^(\w+): (?=\S)")


def entries(_app, _what, _name, _thing, _options, lines: list[str]) -> None:
    """The entries of a docstring as a list of fields."""
    lines[:] = [_ENTRY.sub(r":\1: ", line) for line in lines]
    heads = [place for place, line in enumerate(lines) if line.startswith(":")]
    if heads and heads[0] and lines[heads[0] - 1]:
        lines.insert(heads[0], "")


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", entries)
