"""`python -m bench.torch_models`: models of PyTorch under eager, torch.compile and tvm_stitch.

Every model is tried in a process of its own: in inference, with sizes that change, and in 20 steps
of training, against float64. With a GPU the systems are timed in turns.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench import environment
from bench.torch_models import table
from bench.torch_models.registry import all_models, kinds_of, missing
from bench.torch_models.row import AUTOCAST, DYNAMIC, INFERENCE, KINDS, TRAINING, Results
from bench.torch_models.runner import Job, Run, Settings
from bench.torch_models.systems import CUDA, DEVICES, EAGER, OPTIONAL, STITCH, SYSTEMS

DTYPES = ("float32", "float16", "bfloat16")
# These are tried first.
TELLING = ("bert", "gpt2", "llama", "vit", "timm-resnet50", "resnet", "t5", "whisper", "convnext")


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser("bench.torch_models", description=__doc__)
    made.add_argument("--list", action="store_true", help="models, and what can be tried of each")
    made.add_argument("--models", metavar="A,B,…", help="these alone")
    made.add_argument("--dtypes", default=",".join(DTYPES), metavar="A,B,…")
    made.add_argument("--kinds", default=",".join(KINDS), metavar="A,B,…", help=f"of {KINDS}")
    made.add_argument("--systems", metavar="A,B,…", help=f"of {SYSTEMS + OPTIONAL}")
    made.add_argument("--device", choices=DEVICES, default=CUDA)
    made.add_argument("--small", action="store_true", help="small sizes of the same models")
    made.add_argument("--tf32", action="store_true", help="let float32 be rounded to TF32")
    made.add_argument(
        "--channels-last", action="store_true", help="convolutions' weights lie channels last"
    )
    made.add_argument("--untimed", action="store_true", help="call and compare, without times")
    made.add_argument("--jobs", type=int, default=1, help="models that compile at once")
    made.add_argument(
        "--time-limit", type=float, default=300.0, metavar="S", help="for one system of a model"
    )
    made.add_argument("--seconds", type=float, metavar="S", help="stop after so long")
    made.add_argument(
        "--second-process", action="store_true", help="the first call in a second process as well"
    )
    made.add_argument("--resume", action="store_true", help="leave out what --output has")
    made.add_argument("--output", type=Path, default=Path("torch_models.json"))
    made.add_argument("--markdown", type=Path, help="write the table there")
    made.add_argument("--tables", type=Path, metavar="RUN.json", help="show a run; measure nothing")
    return made


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments)
    if options.list:
        return _list()
    if options.tables:
        return _show(Results.load(options.tables), options.markdown)
    reason = environment.missing_for_measuring() if options.device == CUDA else None
    if reason is not None:
        print(f"bench.torch_models: {reason}; see --device", file=sys.stderr)
        return 1
    resumed = options.resume and options.output.exists()
    results = Results.load(options.output) if resumed else Results()
    results.run = environment.about_run(arguments, program="bench.torch_models")
    jobs = _jobs(options, results)
    settings = Settings(
        device=options.device,
        small=options.small,
        timed=not options.untimed,
        tf32=options.tf32,
        channels_last=options.channels_last,
        output=options.output,
        jobs=options.jobs,
        time_limit_s=options.time_limit,
        seconds=options.seconds,
        second_process=options.second_process,
        threads=max(1, (os.cpu_count() or 1) // options.jobs),
    )
    Run(settings, results, _print)(jobs)
    return _show(results, options.markdown)


def _jobs(options: argparse.Namespace, results: Results) -> list[Job]:
    usual = SYSTEMS if options.device == CUDA else (EAGER, STITCH)
    systems = _chosen(options.systems or ",".join(usual), SYSTEMS + OPTIONAL)
    models = {model.name: model for model in all_models()}
    jobs = []
    for name in _chosen(options.models, tuple(models)):
        model = models[name]
        reason = missing(model)
        if reason is not None:
            print(f"skipped: {name}: {reason}", flush=True)
            continue
        for kind in kinds_of(model):
            for dtype in _chosen(options.dtypes, DTYPES):
                if kind == AUTOCAST and dtype == "float32":
                    continue
                key = name, dtype, kind
                done = all(results.row(key, system) for system in systems)
                if kind in _chosen(options.kinds, KINDS) and not (options.resume and done):
                    jobs.append(Job(*key, systems))
    return sorted(jobs, key=_urgency)


def _urgency(job: Job) -> tuple[int, int]:
    """What most want to know comes first, should the time end."""
    rounds = [(INFERENCE, "float16"), (TRAINING, "bfloat16"), (INFERENCE, "bfloat16"),
              (INFERENCE, "float32"), (TRAINING, "float32")]  # fmt: skip
    this = (job.kind, job.dtype)
    telling = TELLING.index(job.model) if job.model in TELLING else len(TELLING)
    if telling == len(TELLING) or this not in rounds:
        return len(rounds) + (job.kind == DYNAMIC), telling
    return rounds.index(this), telling


def _chosen(given: str | None, known: tuple[str, ...]) -> list[str]:
    names = list(known) if given is None else [name for name in given.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"bench.torch_models: unknown {unknown}; known are {list(known)}")
    return names


def _list() -> int:
    for model in all_models():
        reason = missing(model)
        print(f"{model.name}: {', '.join(kinds_of(model))}" + (f" ({reason})" if reason else ""))
    return 0


def _show(results: Results, markdown: Path | None) -> int:
    text = table.document(results)
    if markdown is not None:
        markdown.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _print(line: str) -> None:
    print(line, flush=True)
