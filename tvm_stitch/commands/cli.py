"""The command line: demo, explain, compile, verify, tune, profile, diff, cache, completion, bench.

Exit codes: 0 done; 1 something is wrong, or missing on this machine; 2 wrong use: a file, model,
option or target that cannot be used as given; 130 interrupted. Results go to stdout, messages to
stderr.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvm

import tvm_stitch
from tvm_stitch.cache import cli as cache_cli
from tvm_stitch.commands.terminal import coloured, stages_shown
from tvm_stitch.errors import CompilerMissing, InputError, StitchError, first_line
from tvm_stitch.executable.link import to_be_exported
from tvm_stitch.frontend.read import KINDS, read
from tvm_stitch.options import Options
from tvm_stitch.profiling import cli as profiling_cli
from tvm_stitch.report import diff_cli, explain
from tvm_stitch.report.searches import write_searches
from tvm_stitch.target import cuda_target
from tvm_stitch.tuning import cli as tuning_cli
from tvm_stitch.tuning.store import Store

TARGET_HELP = (
    "an architecture (sm_90), a GPU (H100 PCIe), a TVM tag (nvidia/nvidia-h100), a TVM target as "
    "JSON, or cuda: this machine's GPU, or sm_90 if it has none (default: cuda)"
)
MODEL_HELP = KINDS
DATABASE_HELP = "records of `tvm-stitch tune`: tuned kernels use their best schedule"
SHELLS = ("bash", "fish", "tcsh", "zsh")
FILES = (
    "MODEL",
    "FILE",
    "FOLDER",
    "OUT.so",
    "OLD",
    "NEW",
)  # what arguments that name one are called
DUMP_HELP = "write every stage from Relax to CUDA to a numbered folder in there"
EXAMPLES = """\
examples:
  tvm-stitch demo                            stitch and verify a Transformer block
  tvm-stitch explain model.onnx              show kernels before and after, and why
  tvm-stitch explain model.pt2 --target sm_80 --json
  tvm-stitch explain model.onnx --html report.html
  tvm-stitch verify model.onnx               check kernels on the CPU against float64
  tvm-stitch compile model.json -o model.so  load it with tvm.runtime.load_module
  tvm-stitch tune model.json --database records.jsonl
  tvm-stitch compile model.json -o model.so --database records.jsonl
  tvm-stitch compile model.json -o model.so --dump stages
  tvm-stitch profile model.onnx --json       measure each kernel
  tvm-stitch diff old.json new.json          compare two outputs of explain --json
  tvm-stitch cache info                      show what the cache holds
  tvm-stitch completion bash                 print a completion script
  tvm-stitch bench --help                    run benchmarks on a GPU

A model is an ONNX file, a program saved by torch.export.save, TVMScript, a module saved by Relay,
or a Relax module as JSON: open("model.json", "w").write(tvm.ir.save_json(mod))
"""


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["bench"]:
            return _bench(arguments[1:])
        try:
            options = parser().parse_args(arguments)
        except SystemExit as stop:
            return int(stop.code or 0)
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = options.run(options)
        sys.stdout.flush()
        return code
    except InputError as error:
        return _complain(error, 2)
    except StitchError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, say head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """A warning without the place in the code, which says nothing to users."""
    print(f"tvm-stitch: warning: {message}", file=sys.stderr)


def _complain(error: Exception, code: int) -> int:
    print(f"tvm-stitch: {error}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """The parser of the command line: its commands, and what each takes."""
    program = argparse.ArgumentParser(
        "tvm-stitch",
        description="Fuses the memory-bound operators of a model into a few CUDA kernels.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    program.add_argument("--version", action="version", version=_version())
    commands = program.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="stitch, verify and time a Transformer block")
    demo.add_argument("--json", action="store_true", help="JSON instead of text")
    demo.set_defaults(run=_demo)

    explained = commands.add_parser("explain", help="kernels of a model before and after")
    explained.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    explained.add_argument("--json", action="store_true", help="JSON instead of text")
    explained.add_argument("--html", metavar="FILE", help="also write a page that shows the plan")
    explained.set_defaults(run=_explain)

    compiled = commands.add_parser("compile", help="compile a model to a shared library")
    compiled.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    compiled.add_argument(
        "-o", "--output", required=True, metavar="OUT.so", help="library to write"
    )
    compiled.set_defaults(run=_compile)

    verified = commands.add_parser(
        "verify", help="run a model's kernels on the CPU and compare with float64"
    )
    verified.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    verified.add_argument("--json", action="store_true", help="JSON instead of a table")
    verified.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    verified.add_argument("--orders", type=int, default=3, help="thread orders to try (default: 3)")
    verified.set_defaults(run=_verify)

    tuned = _room(commands, "tune", "search for faster schedules and record them", tuning_cli)
    tuned.set_defaults(run=_tune)

    profiled = _room(
        commands, "profile", "measure each kernel on this machine's GPU", profiling_cli
    )
    profiled.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    profiled.add_argument("--database", metavar="FILE", help=DATABASE_HELP)
    profiled.set_defaults(run=_profile)

    _room(commands, "diff", "compare two reports or profiles", diff_cli)
    _room(commands, "cache", "show or clear the build cache", cache_cli)
    completion = commands.add_parser("completion", help="print a completion script for a shell")
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    completion.set_defaults(run=_completion)

    for command in (explained, compiled):
        command.add_argument("--database", metavar="FILE", help=DATABASE_HELP)
        command.add_argument("--dump", metavar="FOLDER", help=DUMP_HELP)
    for command in (demo, explained, compiled, verified, tuned, profiled):
        command.add_argument("--target", default="cuda", help=TARGET_HELP)
    commands.add_parser("bench", help="benchmarks against other compilers", add_help=False)
    return program


def _room(commands: Any, name: str, words: str, room: Any) -> argparse.ArgumentParser:
    """The command of a room that describes, adds to and runs it by itself."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=words,
        description=room.DESCRIPTION,
        epilog=getattr(room, "EXAMPLES", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    room.add_arguments(parser)
    parser.set_defaults(run=room.run)
    return parser


def _version() -> str:
    return f"tvm-stitch {tvm_stitch.__version__} (apache-tvm {tvm.__version__})"


def _demo(options: argparse.Namespace) -> int:
    from tvm_stitch.commands import demo

    return demo.main(options.target, options.json)


def _explain(options: argparse.Namespace) -> int:
    stitching = Options(dump=options.dump)
    mod = read(options.model)
    if options.html:
        _require_writable(Path(options.html))
    with stages_shown():
        report = explain(mod, cuda_target(options.target), stitching, options.database)
        text = json.dumps(report.to_json(), indent=2) if options.json else coloured(str(report))
    if options.html:
        report.to_html(options.html)
    print(text)
    return 0


def _compile(options: argparse.Namespace) -> int:
    target = cuda_target(options.target)
    mod = read(options.model)
    output = Path(options.output)
    if output.suffix != ".so":
        raise InputError(f"{output} must end in .so: a shared library is written")
    _require_writable(output)
    with stages_shown():
        executable = _compiled(mod, target, options)
    try:
        executable.export_library(str(output))
    except Exception as error:
        raise CompilerMissing(
            f"the compiled model could not be linked into {output}: {first_line(error)}; is g++ "
            "installed (Debian: apt-get install g++)?"
        ) from error
    print(f"{output}: {output.stat().st_size} bytes for {target.attrs['arch']}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    target = cuda_target(options.target)
    mod = read(options.model)
    found = tvm_stitch.verify(mod, target, seed=options.seed, orders=options.orders)
    print(json.dumps(found.to_json(), indent=2) if options.json else coloured(str(found)))
    return 0 if found.ok else 1


def _require_writable(output: Path) -> None:
    """InputError where no file can be written, before the time is spent that compiling takes."""
    if not output.parent.is_dir():
        raise InputError(f"cannot write {output}: there is no folder {output.parent}")
    new = not output.exists()
    try:
        output.open("ab").close()
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from None
    if new:
        output.unlink()


def _tune(options: argparse.Namespace) -> int:
    if options.html:
        _require_writable(Path(options.html))
    code = tuning_cli.run(options, read)
    if options.html:
        write_searches(Store(options.database).existing().records, options.html)
    return code


def _profile(options: argparse.Namespace) -> int:
    for path in filter(None, (options.html, options.trace)):
        _require_writable(Path(path))
    return profiling_cli.run(options, read)


def _compiled(
    mod: tvm.IRModule, target: tvm.target.Target, options: argparse.Namespace
) -> tvm.relax.VMExecutable:
    try:
        with to_be_exported():
            return tvm_stitch.compile(mod, target, Options(dump=options.dump), options.database)
    except StitchError:
        raise
    except Exception as error:
        raise InputError(
            f"TVM cannot compile {options.model}: {first_line(error)}; see whether tvm.compile "
            "without stitching can"
        ) from error


def _completion(options: argparse.Namespace) -> int:
    import shtab  # which nothing else needs

    program = parser()
    for action in _actions(program):
        if action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(program, options.shell))
    return 0


def _actions(program: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of a parser and of its commands."""
    for action in program._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


def _bench(arguments: list[str]) -> int:
    """The benchmarks lie beside the package in its repository; they are not installed."""
    repository = str(Path(tvm_stitch.__file__).parents[1])
    sys.path.insert(0, repository)
    try:
        bench = importlib.import_module("bench.cli")
    except ModuleNotFoundError as missing:
        raise InputError(
            f"bench needs the module {missing.name}; it runs in a checkout of the repository, "
            "installed with `pip install -e .[bench]`"
        ) from None
    finally:
        sys.path.remove(repository)
    return int(bench.main(arguments))
