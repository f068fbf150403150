"""python -m tests.outside.graphs: random graphs by the thousand, in processes of their own."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from tests.outside.graphs.outcome import FAILURES, KINDS, NOT_JUDGED, OK, OURS, TVMS, Outcome
from tests.outside.graphs.worker import Worker


def main(arguments: list[str] | None = None) -> int:
    """0 if nothing failed."""
    options = _parser().parse_args(arguments)
    from tests.outside.graphs.trial import Settings

    settings = Settings(options.gpu, options.orders, not options.compile_only, options.symbolic)
    if options.minimize is not None:
        from tests.outside.graphs.minimize import minimize

        print(minimize(options.minimize, settings, options.timeout, options.time_limit))
        return 0
    if options.show is not None:
        from tests.outside.graphs.script import script

        print(script(settings.graph(options.show)))
        return 0
    seeds = options.seeds or range(options.start, options.start + options.count)
    start = time.monotonic()
    found = run(seeds, settings, options.jobs, options.timeout, options.time_limit, _shown)
    summary = table(found, time.monotonic() - start)
    print(summary)
    if options.report:
        report(options.report, found, summary)
    return 1 if any(outcome.kind in FAILURES for outcome in found) else 0


def run(
    seeds: Iterable[int],
    settings: object,
    jobs: int,
    timeout: float,
    time_limit: float | None,
    tell: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """The outcomes of seeds, each of `jobs` workers taking the next one."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for seed in seeds:
        waiting.put(seed)
    found: list[Outcome] = []
    lock = threading.Lock()
    end = time.monotonic() + time_limit if time_limit else float("inf")

    def work() -> None:
        worker = Worker(settings, timeout)
        try:
            while time.monotonic() < end:
                outcome = worker.ask(waiting.get_nowait())
                with lock:
                    found.append(outcome)
                    tell(outcome)
        except queue.Empty:
            pass
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found, key=lambda outcome: outcome.seed)


def table(found: list[Outcome], seconds: float) -> str:
    """Counts by whose fault it is and by kind, and seeds grouped by where they come from."""
    counts = Counter(outcome.kind for outcome in found)
    blamed = {"ours": OURS, "TVM's as well": TVMS, "not judged": NOT_JUDGED, "right": (OK,)}
    shares = [f"{sum(counts[kind] for kind in own)} {whose}" for whose, own in blamed.items()]
    lines = [f"{len(found)} graphs, {seconds:.0f} s: {', '.join(shares)}"]
    lines += [f"{counts[kind]:7} {kind:10} {KINDS[kind]}" for kind in KINDS if counts[kind]]
    causes: dict[tuple[str, str], list[int]] = {}
    for outcome in found:
        if outcome.kind not in (OK, "launches"):
            causes.setdefault((outcome.kind, outcome.where), []).append(outcome.seed)
    for (kind, where), seeds in sorted(causes.items(), key=lambda cause: -len(cause[1])):
        shown = ", ".join(map(str, seeds[:6])) + (", …" if len(seeds) > 6 else "")
        lines.append(f"{len(seeds):7} {kind}: {where}  [{shown}]")
    return "\n".join(lines)


def report(path: Path, found: list[Outcome], summary: str) -> None:
    """JSON: counts, and everything that is known of each seed that is not ok."""
    counts = Counter(outcome.kind for outcome in found)
    content = {
        "graphs": len(found),
        "operators": sum(outcome.operators for outcome in found),
        "counts": {kind: counts[kind] for kind in KINDS},
        "launches": {
            "ours": sum(o.launches[0] or 0 for o in found if o.launches[1] is not None),
            "default": sum(o.launches[1] or 0 for o in found if o.launches[0] is not None),
        },
        "seeds": {
            kind: [outcome.seed for outcome in found if outcome.kind == kind]
            for kind in KINDS
            if kind != OK and counts[kind]
        },
        "failures": [asdict(outcome) for outcome in found if outcome.kind != OK],
        "summary": summary.splitlines(),
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def _shown(outcome: Outcome) -> None:
    print(f"{outcome} ({outcome.operators} operators, {outcome.seconds} s)", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.outside.graphs", description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--seeds", type=int, nargs="+", help="these seeds instead")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--gpu", action="store_true", help="on this machine's GPU")
    parser.add_argument("--orders", type=int, default=1, help="thread orders in the executor")
    parser.add_argument("--compile-only", action="store_true", help="run nothing; a second each")
    parser.add_argument("--symbolic", action="store_true", help="only with symbolic extents")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one graph")
    parser.add_argument("--time-limit", type=float, help="seconds after which no graph is begun")
    parser.add_argument("--report", type=Path, help="write counts and failures as JSON")
    parser.add_argument("--minimize", type=int, metavar="SEED", help="print the least that fails")
    parser.add_argument("--show", type=int, metavar="SEED", help="print a graph as a script")
    return parser


if __name__ == "__main__":
    sys.exit(main())
