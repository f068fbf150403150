"""How Sphinx builds the documentation: `sphinx-build -W docs build/docs`, with the extra `docs`."""

import inspect
import os
import re
import sys
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import tvm_stitch

project = "tvm_stitch"
author = "the tvm_stitch developers"
version = release = tvm_stitch.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery"]
extensions += ["commands", "bench_pages"]  # of this folder
suppress_warnings = ["myst.header"]  # pages of the bench skip levels of headings
html_theme = "furo"
html_title = f"tvm_stitch {version}"
html_static_path = ["page.css"]
html_css_files = ["page.css"]
html_copy_source = False
html_show_copyright = False
pygments_style, pygments_dark_style = "tango", "github-dark"
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "colon_fence"]
# In docstrings, `name` is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

# Tutorials are run, and shown with what they print; `-D plot_gallery=0` leaves that out.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
sphinx_gallery_conf = {
    "examples_dirs": "../tutorials",
    "gallery_dirs": "tutorials",  # made anew by every build
    "filename_pattern": "",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "image_scrapers": (),
    "reset_modules": (),
    "capture_repr": (),
    "copyfile_regex": "",
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": float("inf"),
}

# "name: what it is", with further lines set in: a field of a dataclass, an argument of a function.
_ENTRY = re.compile(r"^(\w+): (?=\S)")


def told(_app, _what, _name, thing, _options, lines: list[str]) -> None:
    """What docstrings say in this package's way, as reStructuredText; and comments on fields."""
    known = {each.name: each for each in fields(thing)} if is_dataclass(thing) else {}

    def term(entry: re.Match[str]) -> str:
        value = shown_default(known[entry[1]]) if entry[1] in known else ""
        return f"``{entry[1]}{value}``\n    "

    has_entries = any(_ENTRY.match(line) for line in lines)
    lines[:] = "\n".join(_ENTRY.sub(term, line) for line in lines).split("\n")
    if not has_entries:
        for each in known.values():
            comment = comment_on(thing, each.name) or each.name.replace("_", " ")
            lines += ["", f"``{each.name}: {each.type}{shown_default(each)}``", f"    {comment}"]


def shown_default(field: Field) -> str:
    """What a field is unless somebody says."""
    return "" if field.default is MISSING else f" = {field.default!r}"


def comment_on(kind: type, field: str) -> str:
    """The comment that a field has in the source: behind it, or in the lines before."""
    for each in kind.__mro__[:-1]:
        pattern = rf"((?:^    #.*\n)*)^    {field}: [^#\n]*(?:  # (.*))?$"
        found = re.search(pattern, inspect.getsource(each), re.MULTILINE)
        if found:
            comment = found[2] or " ".join(re.findall(r"# (.*)", found[1]))
            return comment.replace("`", "``")
    return ""


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", told)
