"""Which GPU is meant, where nobody said it exactly."""

from __future__ import annotations

import json
import re
from typing import Any

import tvm

from tvm_stitch.device import MODEL, WARPGROUPS, device_of, is_preset, known_names, preset
from tvm_stitch.errors import InputError, last_line

# Plans need an architecture; on a machine without a GPU TVM would take sm_50.
WITHOUT_GPU = "sm_90"


def cuda_target(target: Any) -> tvm.target.Target:
    """The CUDA target for "cuda" (this machine's GPU, or sm_90 without one), "sm_86", a GPU's name
    ("H100 PCIe"), a tag, JSON.

    TVM's own targets and dicts pass through.
    """
    if isinstance(target, str):
        target = _from_text(target.strip())
    if isinstance(target, dict) and target.get("kind") == "cuda" and "arch" not in target:
        target = _with_arch(target)
    try:
        given = target if isinstance(target, tvm.target.Target) else tvm.target.Target(target)
    except Exception as error:
        raise InputError(
            f"{target!r} is no target ({_why(error)}): name an architecture (sm_90), a TVM tag "
            "(nvidia/nvidia-h100), a TVM target as JSON, or one of the GPUs known by name: "
            f"{known_names()}"
        ) from None
    device_of(given)
    return given


def full_target(target: Any) -> tvm.target.Target:
    """As `cuda_target`, with instructions that only this architecture has: sm_90a for sm_90.

    Nothing is lost: TVM compiles to machine code, and that for sm_90 runs on no other GPU either.
    """
    cuda = cuda_target(target)
    if f"{cuda.attrs.get('arch')}a" != WARPGROUPS:
        return cuda
    return tvm.target.Target({**cuda.export(), "arch": WARPGROUPS})


def plain_target(target: tvm.target.Target) -> tvm.target.Target:
    """The same by its architecture's number: DLight takes sm_90a for one without tensor cores."""
    arch = str(target.attrs.get("arch", WITHOUT_GPU))
    if arch[-1].isdigit():
        return target
    return tvm.target.Target({**target.export(), "arch": arch[:-1]})


def _with_arch(target: dict[str, Any]) -> dict[str, Any]:
    """The target with the architecture of the GPU it names, or of none if one is here to ask."""
    if MODEL in target:
        return {**target, "arch": f"sm_{preset(str(target[MODEL])).capability}"}
    return target if tvm.cuda(0).exist else {**target, "arch": WITHOUT_GPU}


def _why(error: Exception) -> str:
    """What TVM says, without the target once more."""
    return last_line(error).partition(". Target creation")[0]


def _from_text(text: str) -> Any:
    if text == "cuda":
        return {"kind": "cuda"}
    if is_preset(text):
        return {"kind": "cuda", MODEL: preset(text).name}
    if re.fullmatch(r"sm_\d+[af]?", text):
        return {"kind": "cuda", "arch": text}
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"target {text!r} is not JSON: {error}") from None
