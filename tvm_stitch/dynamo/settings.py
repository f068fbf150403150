"""What a user of torch.compile can decide: `options={...}` as a checked dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.options import Options

CUDA = "cuda"
EXECUTOR = "cpu-executor"
LLVM = "llvm"
DEVICES = {CUDA: "cuda", EXECUTOR: "cpu", LLVM: "cpu"}
"""Where our parts run, with the kind of PyTorch device whose tensors they take."""


@dataclass(frozen=True)
class Settings:
    """Settings of the PyTorch backend.

    device: "cuda" compiles what lies on a GPU. "cpu-executor" compiles what lies on the CPU: the
        kernels that a GPU would run, thread by thread on this machine, slow and watched. "llvm"
        compiles what lies on the CPU with TVM's LLVM target, without stitching.
    target: the GPU that "cpu-executor" and `explain` plan for, as TVM names it.
    smallest_part: parts of fewer operators, views apart, stay PyTorch's. None: single products,
        convolutions and constants do, for which nothing is gained.
    stitching: Options of the stitching passes.
    database: the path of a record store that `tvm_stitch.tune` wrote.
    cuda_graphs: capture graphs on a GPU and replay them, as torch.compile's mode "reduce-overhead"
        does: results are overwritten by the next call.
    largest_logits: in training, logits of more bytes, the loss of them and its gradients are
        computed by chunks of rows, of which none has more. None: all at once.
    """

    device: str = CUDA
    target: Any = CUDA
    smallest_part: int | None = None
    stitching: Options = field(default_factory=Options)
    database: Any = None
    cuda_graphs: bool = False
    largest_logits: int | None = None

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise InputError(f"unknown device {self.device!r}; known are {list(DEVICES)}")
        for name in ("smallest_part", "largest_logits"):
            least = getattr(self, name)
            if least is not None and (not isinstance(least, int) or least < 1):
                raise InputError(f"{name} must be 1 or more, or None, not {least!r}")
        if not isinstance(self.stitching, Options):
            raise InputError(
                f"stitching takes a tvm_stitch.Options, not {type(self.stitching).__name__}"
            )

        if self.stitching.cuda_graph:
            raise InputError(
                "Options(cuda_graph=True) is for modules of TVM; here "
                'torch.compile(mode="reduce-overhead") captures graphs'
            )

    @property
    def device_type(self) -> str:
        """The kind of PyTorch device whose tensors are compiled."""
        return DEVICES[self.device]

    @staticmethod
    def of(options: Mapping[str, Any] | None) -> Settings:
        """From what torch.compile hands over."""
        given = dict(options or {})
        known = [each.name for each in fields(Settings)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise InputError(f"unknown options {unknown} of backend tvm_stitch; known are {known}")
        return Settings(**given)
