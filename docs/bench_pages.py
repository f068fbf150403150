"""The benchmark's own pages as pages of the site: copies in `docs/bench`, made anew by every build.

In: `bench/README.md` and `bench/results`. Out: their text and plots. Links between them stay; those
to files that are no pages become text. Links from the documentation, which lead into the
repository (`../bench/results/README.md`), lead to the copies.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_INTO_BENCH = re.compile(r"\]\((?:\.\./)+(bench/[\w/.-]+\.(?:md|png))")


def copied(app: Sphinx) -> None:
    """Write the copies."""
    source, to = ROOT / "bench", Path(app.srcdir) / "bench"
    shutil.rmtree(to, ignore_errors=True)
    files = [source / "README.md", *sorted((source / "results").rglob("*"))]
    for file in (each for each in files if each.suffix in (".md", ".png")):
        target = to / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".png":
            shutil.copy(file, target)
        else:
            target.write_text(_page(file), encoding="utf-8")


def _page(file: Path) -> str:
    """The copy of a page; one without a title has the file's name."""
    text = file.read_text(encoding="utf-8")
    title = "" if text.startswith("# ") else f"# {file.stem.capitalize()}\n\n"
    return title + _LINK.sub(lambda link: _link(link, file), text)


def _link(link: re.Match[str], page: Path) -> str:
    """A link of a page as it is in the copy."""
    mark, text, target = link.groups()
    if target.startswith(("http", "#")):
        return link[0]
    path = page.parent / target
    if path.is_dir():
        path, target = path / "README.md", f"{target}/README.md"
    is_copied = path.suffix in (".md", ".png") and path.is_file()
    return f"{mark}[{text}]({target})" if is_copied else text


def redirected(_app: Sphinx, _page: str, content: list[str]) -> None:
    """Links into the repository's bench lead to the copies."""
    content[0] = _INTO_BENCH.sub(r"](/\1", content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", copied)
    app.connect("source-read", redirected)
    return {"parallel_read_safe": True}
