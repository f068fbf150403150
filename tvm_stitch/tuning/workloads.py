"""The workloads of a model: what its stitched kernels compute, each different one once.

In: a Relax module. Out: Workloads, and the names of kernels whose sizes are not known. Runs the
passes of the pipeline up to where a Schedule is chosen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx

from tvm_stitch.build import dispatch_passes, stitch_passes
from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError
from tvm_stitch.graph.front.functions.operator_names import operator_name
from tvm_stitch.kernel.build import kernel_of
from tvm_stitch.options import Options
from tvm_stitch.stages.stage import Refused
from tvm_stitch.transform import bounds_of_module
from tvm_stitch.tuning.products import workload_with
from tvm_stitch.tuning.workload import Workload, titled

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Found:
    """The workloads of a model, and those that need `shapes`."""

    workloads: tuple[Workload, ...]
    symbolic: tuple[str, ...]


def find_workloads(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    options: Options | None = None,
    shapes: Shapes | None = None,
) -> Found:
    """The kernels that stitching makes of a module, for every combination of the shapes."""
    found: dict[str, Workload] = {}
    symbolic: dict[str, None] = {}
    for bound in _bound(mod, shapes or {}):
        for workload in _workloads(bound, target, options):
            if workload.is_symbolic:
                symbolic[workload.title] = None
            else:
                found.setdefault(workload.key, workload)
    return Found(tuple(found.values()), tuple(symbolic))


def parse_shapes(text: str) -> dict[str, list[int]]:
    """Read "batch=1,8;seq=128"."""
    found: dict[str, list[int]] = {}
    for item in filter(None, map(str.strip, text.split(";"))):
        match = re.fullmatch(r"(\w+)\s*=\s*(\d+(?:\s*,\s*\d+)*)", item)
        if match is None or match[1] in found:
            raise InputError(
                f"shapes {text!r}: {item!r} is not of the form batch=1,8,32, or stands twice; "
                'dimensions are separated by semicolons, as in "batch=1,8;seq=128,512"'
            )
        found[match[1]] = [int(size) for size in match[2].split(",")]
    return found


def _bound(mod: tvm.IRModule, shapes: Shapes) -> list[tvm.IRModule]:
    """The module with its symbolic dimensions bound in every way."""
    known = symbolic_dimensions(mod)
    for name, sizes in shapes.items():
        if name not in known:
            raise InputError(
                f"the model has no symbolic dimension {name!r}; it has {sorted(known) or 'none'}"
            )
        if not sizes or any(type(size) is not int or size < 1 for size in sizes):
            raise InputError(f"sizes of dimension {name!r} must be positive integers, not {sizes}")
    modules = []
    for sizes in itertools.product(*shapes.values()):
        binding = dict(zip(shapes, sizes, strict=True))
        bound = mod
        for function, names in _dimensions_by_function(mod).items():
            own = {name: size for name, size in binding.items() if name in names}
            if own:
                bound = relax.transform.BindSymbolicVars(own, function)(bound)
        modules.append(bound)
    return modules


def symbolic_dimensions(mod: tvm.IRModule) -> set[str]:
    """The names of the dimensions whose sizes a module does not say."""
    return {name for names in _dimensions_by_function(mod).values() for name in names}


def _dimensions_by_function(mod: tvm.IRModule) -> dict[str, set[str]]:
    return {
        var.name_hint: {each.name for each in relax.analysis.defined_symbolic_vars(function)}
        for var, function in mod.functions_items()
        if isinstance(function, relax.Function)
    }


def _workloads(
    mod: tvm.IRModule, target: tvm.target.Target, options: Options | None
) -> list[Workload]:
    device = device_of(target)
    chosen = options or Options()
    operators: dict[str, tuple[str, ...]] = {}  # by fused function
    passes = [*dispatch_passes(target), *stitch_passes(target, options)]
    with target, tvm.transform.PassContext(opt_level=3):
        for each in passes:
            if each.info.name == "StitchSchedule":
                break
            mod = each(mod)
            if each.info.name == "FuseOps":
                operators |= _operators(mod)
    bounds = bounds_of_module(mod)
    found = []
    for var, function in mod.functions_items():
        if not isinstance(function, tirx.PrimFunc) or "tirx.is_scheduled" in function.attrs:
            continue
        kernel = kernel_of(function, device, bounds, chosen.ways)
        if isinstance(kernel, Refused) or kernel.layout is None:  # a library chooses itself
            continue
        workload = workload_with(kernel.layout, function, device, bounds)
        assert not isinstance(workload, Refused), "it has a kernel"
        found.append(titled(workload, operators.get(var.name_hint, ())))
    return found


def _operators(mod: tvm.IRModule) -> dict[str, tuple[str, ...]]:
    """What functions that TVM will fuse consist of, as reports name it."""
    return {
        var.name_hint: tuple(
            operator_name(binding.value.args[0].name_hint)
            for block in function.body.blocks
            for binding in block.bindings
            if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir"
        )
        for var, function in mod.functions_items()
        if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {})
    }
