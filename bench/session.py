"""A run from the user's side: what is left to do, the lines as cases end, the interruption."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import Any

from bench import dram, environment, table
from bench.case import Case
from bench.progress import Progress, duration
from bench.results import Results
from bench.runner import Job, Run, Settings


def begin(output: Path, resume: bool, arguments: list[str], commit: str | None = None) -> Results:
    """Results to add to: those of an interrupted run, or none."""
    about = environment.about_run(arguments, commit)
    if resume and output.exists():
        results = Results.load(output)
        # The copy bandwidth and systems that are missing belong to the run that goes on.
        results.run = {**about, "resumed": [*results.run.get("resumed", []), about["date"]]}
        results.machine.pop("copy_gbs", None)
        results.missing = {}
        return results
    return Results(run=about)


def left_to_do(cases: list[Case], systems: list[str], results: Results) -> list[Job]:
    """Every case with the systems that have no row yet."""
    jobs = [Job(c, [s for s in systems if results.row(c.name, s) is None]) for c in cases]
    return [job for job in jobs if job.systems]


def measure(
    cases: list[Case],
    systems: list[str],
    results: Results,
    options: argparse.Namespace,
    jobs: int,
) -> int:
    """Measure, showing every case as it ends; the exit code."""
    todo = left_to_do(cases, systems, results)
    if not todo and not options.dram:
        print(f"nothing left to do: {options.output} has every row")
        return 0
    settings = Settings(
        systems=tuple(systems),
        output=options.output,
        jobs=jobs,
        together=options.together,
        graphs=not options.no_graphs,
        time_limit_s=options.time_limit,
        records=options.records,
        trials=options.trials,
    )
    results.run["jobs"] = jobs
    progress = Progress(len(todo))
    run = Run(settings, results, progress.phase)
    shown: list[str] = []
    widths: list[int] = []

    def on_start() -> None:
        shown.extend(s for s in systems if s not in results.missing)
        widths.extend(table.column_widths(shown, [job.case.title for job in todo]))
        machine = results.machine
        progress.line(
            f"{machine['gpu']}, copy {machine.get('copy_gbs', '?')} GB/s; "
            "µs of GPU time/launches ×multiple of the copy"
        )
        for name, why in results.missing.items():
            progress.line(f"skipped: {name}: {why}")
        progress.line(table.aligned(table.header(shown), widths))

    def on_case(case: Case) -> None:
        progress.case_done()
        progress.line(table.aligned(table.line(results, case.name, shown), widths))
        for row in results.rows:
            if row.case == case.name and row.status in ("failed", "wrong"):
                progress.line(f"    {row.system} {row.status}: {row.detail}")

    # A time limit from outside should leave no worker behind either.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        run(todo, on_case, on_start)
        if options.dram and run.failure is None:
            dram.measure(results, options.output, options.records, options.time_limit, progress)
    except KeyboardInterrupt:
        progress.close()
        results.save(options.output)
        print(f"interrupted; what was measured is in {options.output}, --resume goes on")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
        progress.close()
    if run.failure is not None:
        print(f"bench: {run.failure}")
        return 1
    print(f"{len(todo)} cases in {duration(progress.elapsed())}: {options.output}")
    return 0


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
