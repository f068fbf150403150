"""The directive `commands`: a section for every command of the command line, made of its parser.

In: the parser of tvm_stitch.commands.cli. Out: nodes of docutils: usage, description, arguments,
examples.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tvm_stitch.commands.cli import parser


class Commands(SphinxDirective):
    """`{commands}`, without arguments."""

    def run(self) -> list[nodes.Node]:
        """A section for each command, in the order of `--help`."""
        found = _commands(parser())
        return [_section(name, words, each) for name, words, each in found]


def _commands(whole: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, one line of help and parser."""
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield choice.dest, choice.help or "", action.choices[choice.dest]


def _section(name: str, words: str, command: argparse.ArgumentParser) -> nodes.section:
    title = f"tvm-stitch {name}"
    section = nodes.section(ids=[nodes.make_id(title)], names=[nodes.fully_normalize_name(title)])
    section += nodes.title("", "", nodes.literal(text=title))
    section += nodes.paragraph(text=command.description or f"{words[:1].upper()}{words[1:]}.")
    section += _code(" ".join(command.format_usage().split()).removeprefix("usage: "), "text")
    entries = [_entry(each) for each in command._actions if each.dest != "help"]
    if entries:
        section += nodes.definition_list("", *entries)
    if command.epilog:
        section += _code(command.epilog.strip(), "text")
    return section


def _entry(action: argparse.Action) -> nodes.definition_list_item:
    formatter = argparse.HelpFormatter("tvm-stitch")
    words = formatter._expand_help(action) if action.help else ""
    if action.choices:
        words = f"{words} ({', '.join(map(str, action.choices))})"
    term = nodes.term("", "", nodes.literal(text=formatter._format_action_invocation(action)))
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph(text=words)))


def _code(text: str, language: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
