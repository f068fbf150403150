"""What becomes of one case: imported, compiled by TVM, stitched, run on the CPU executor.

In: a Case. Out: an Outcome, whatever happens short of the end of the process, against which
processes.py guards.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from onnx.backend.test.runner import Runner as OnnxRunner
from tvm import relax

import tvm_stitch
from tests.outside.onnx.cases import Case, DataSet, with_constants
from tests.outside.onnx.outcome import LONGEST_REASON, Outcome, Stage, Verdict
from tvm_stitch.errors import InputError, first_line
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.onnx import load
from tvm_stitch.report.report import Report
from tvm_stitch.verify import rounded, stitched_for_cpu

TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
ORDERS = 2  # of threads: the natural one and a random one


def judge(case: Case, enter: Callable[[Stage], None] = lambda _stage: None) -> Outcome:
    """Take a case all the way; `enter` is told of every stage."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _judge(case, enter)
    return replace(found, seconds=time.perf_counter() - started)


def _judge(case: Case, enter: Callable[[Stage], None]) -> Outcome:
    enter(Stage.IMPORT)
    try:
        case, mod = _imported(case)
    except Exception as error:
        return Outcome(case.name, case.kind, Verdict.IMPORTER, _said(error))
    enter(Stage.TVM)
    tvm_says = _of_tvm(case, mod)
    stitched = _of_stitching(case, mod, enter, compared=tvm_says is None)
    if tvm_says is None:
        return stitched
    verdict, reason = tvm_says
    # Wrong numbers are TVM's too, where no kernel but its own made them.
    of_tvm = stitched.verdict is Verdict.WRONG and not stitched.kernels
    if verdict is Verdict.TVM_WRONG and not stitched.verdict.right and not of_tvm:
        return stitched
    return replace(stitched, verdict=verdict, reason=reason)


def _imported(case: Case) -> tuple[Case, tvm.IRModule]:
    """The case as Relax; shapes, axes and the like are constants if the importer wants them so."""
    try:
        return case, load(case.model)
    except Exception:
        with suppress(Exception):
            constant = with_constants(case)
            return constant, load(constant.model)
        raise


def _of_tvm(case: Case, mod: tvm.IRModule) -> tuple[Verdict, str] | None:
    """What TVM's default build does wrong, if anything."""
    try:
        machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
        results = [
            _returned(machine["main"](*map(_tensor, data.inputs)), data) for data in case.data
        ]
    except Exception as error:
        return Verdict.TVM_FAILS, _said(error)
    for data, outputs in zip(case.data, results, strict=True):
        if difference := _difference(case, data, outputs):
            return Verdict.TVM_WRONG, difference
    return None


def _of_stitching(
    case: Case, mod: tvm.IRModule, enter: Callable[[Stage], None], compared: bool
) -> Outcome:
    """What becomes of the stitched module; `compared` with what ONNX expects, or only float64."""
    of_case = partial(Outcome, case.name, case.kind)
    stage = Stage.EXPLAIN
    try:
        enter(stage)
        report = tvm_stitch.explain(mod, TARGET)
        kernels = sum(kernel.stitched for kernel in report.kernels)
        notes = tuple(_notes(report))
        of_case = partial(of_case, kernels=kernels, notes=notes)
        enter(stage := Stage.COMPILE)
        tvm_stitch.compile(mod, TARGET)
        enter(stage := Stage.VERIFY)
        for data in case.data:
            wrong, refused = _against_float64(mod, data)
            if refused:
                of_case = partial(of_case, notes=(*notes, refused))
            if not wrong and compared:
                wrong = _difference(case, data, _executed(mod, data))
            if wrong:
                return of_case(Verdict.WRONG, wrong)
    except Exception as error:
        if stage is Stage.COMPILE and (refusal := _refusal_of_tvm(mod)):
            return of_case(Verdict.TVM_FAILS, f"for CUDA: {refusal}")
        return of_case(Verdict.CRASH, f"{stage.value}: {type(error).__name__}: {_said(error)}")
    if kernels:
        return of_case(Verdict.VERIFIED)
    return of_case(Verdict.NOT_STITCHED, _why_not(report))


def _refusal_of_tvm(mod: tvm.IRModule) -> str:
    """Why TVM's default pipeline does not build a module for the GPU either, empty if it does."""
    try:
        tvm.compile(mod, TARGET)
    except Exception as error:
        return _said(error)
    return ""


def _against_float64(mod: tvm.IRModule, data: DataSet) -> tuple[str, str]:
    """What verify finds wrong, and why it cannot say: empty if there is nothing."""
    try:
        found = tvm_stitch.verify(mod, TARGET, inputs=data.inputs, orders=ORDERS)
    except InputError as error:
        return "", f"verify refuses: {_said(error)}"
    return "" if found.ok else _what_is_wrong(str(found)), ""


def _executed(mod: tvm.IRModule, data: DataSet) -> list[Any]:
    """What the stitched CUDA computes on the CPU executor."""
    outputs = iter(Runner(stitched_for_cpu(mod, TARGET), TARGET).run(rounded(mod, data.inputs), 0))
    return [_like(expected, outputs) for expected in data.outputs]


def _like(expected: Any, outputs: Iterator[np.ndarray]) -> Any:
    """The next of all outputs in the form of what is expected."""
    if not isinstance(expected, (np.ndarray, np.generic)):
        return [_like(part, outputs) for part in expected]
    output = next(outputs)
    # The executor has bfloat16 as its bits.
    return output.view(expected.dtype) if expected.dtype.name == "bfloat16" else output


def _notes(report: Report) -> Iterable[str]:
    """What should not be, though every number may be right."""
    before = report.before.launches
    if before is not None and report.launches > before:
        yield f"{report.launches} launches where TVM's default makes {before}"
    for kernel in report.kernels:
        if kernel.name.startswith("stitched_") and not kernel.stitched:
            yield f"{kernel.name} is not stitched: {kernel.why}"


def _why_not(report: Report) -> str:
    if not report.fallbacks:
        return "no operator that needs a kernel"
    return "; ".join(dict.fromkeys(f"{each.op}: {each.reason}" for each in report.fallbacks))


def _what_is_wrong(table: str) -> str:
    lines = [" ".join(line.split()) for line in table.splitlines()]
    telling = [line for line in lines if "WRONG" in line or line.startswith("hazard")]
    return "; ".join(telling)[:LONGEST_REASON]


def _difference(case: Case, data: DataSet, outputs: Sequence[Any]) -> str:
    """How outputs differ from what ONNX expects, by its own comparison; empty if they do not."""
    try:
        OnnxRunner.assert_similar_outputs(data.outputs, outputs, case.rtol, case.atol)
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        return " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
    return ""


def _tensor(value: Any) -> Any:
    """What TVM's virtual machine takes for an input."""
    return tvm.runtime.tensor(np.asarray(value))


def _returned(result: Any, data: DataSet) -> list[Any]:
    """What the virtual machine returned, as ONNX has it: a single output comes without a tuple."""
    return [_value(part) for part in ([result] if len(data.outputs) == 1 else result)]


def _value(part: Any) -> Any:
    if isinstance(part, tvm.runtime.Tensor):
        return part.numpy()
    return [_value(each) for each in part]


def _said(error: Exception) -> str:
    """What an error says, in one line: of TVM's, the rest is the function at which it happened."""
    if not str(error).strip():
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {place.name} of {Path(place.filename).name}"
    return first_line(error)[:LONGEST_REASON]
