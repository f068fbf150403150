"""What a user can decide about stitching."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.kernel.ir.mapping import SCHEMES, TF32
from tvm_stitch.plan.saved import SavedPlan

SOLVERS = ("highs", "greedy")
_FLAGS = (
    "deterministic",
    "partition",
    "fast_math",
    "tf32_convolutions",
    "tf32_products",
    "tf32x3_products",
    "timed_convolutions",
    "timed_products",
    "measure",
    "cuda_graph",
    "dependent_launch",
)
# Of each number: what it must be, and the least.
_NUMBERS: dict[str, tuple[Any, int]] = {
    "time_limit_s": (Real, 0),
    "launch_us": (Real, 0),
    "workspace_bytes": (Integral, 0),
    "recomputed": (Integral, 0),
    "largest_kernel": (Integral, 1),
}


@dataclass(frozen=True)
class Options:
    """Settings of the stitching passes; the defaults suit most models.

    schemes: the ways in which a kernel may pass values between its stages; kernels that need one
        that is left out are compiled by TVM. "library": products may become calls of cuBLASLt,
        convolutions and attention calls of cuDNN, if these are installed.
    solver: "highs" solves for the cheapest set of kernels, "greedy" applies a simple rule.
    time_limit_s: seconds to plan a module. When they are over, the best plan found so far is used;
        operators that planning has not reached are left to TVM, and the report says so. 0 means no
        solver and no limit.
    deterministic: one solver thread and a fixed seed, so that the plan is the same every time and
        on every machine, unless the time limit is reached.
    launch_us: cost of a launch besides the time of its kernel: the gap between two kernels of a
        CUDA graph, or more if the host launches every kernel.
    partition: compute every operator in exactly one kernel. Otherwise cheap ones may be computed
        again if that avoids a round trip through memory.
    workspace_bytes: limit of what the kernels of one region may store for each other; None for no
        limit. A region that would exceed it uses the simple rule's plan.
    recomputed: how many element-wise operators may be repeated to compute a value again instead of
        reading it; 0: none.
    largest_kernel: most operators of a kernel, before kernels are packed into common launches. With
        less than the default there may be more launches than with TVM's own fusion.
    fast_math: compute sigmoid (in SiLU), and erf where no constant is added to it, with the
        hardware's tanh: errors up to 6e-6 on an H200 instead of 1e-7, relative to the result and
        its RMS. Kernels are tuned with it or without: pass the same to `tune`.
    tf32_convolutions: let cuDNN round the factors of float32 convolutions to TF32 (10 bits of
        mantissa), which tensor cores multiply. Under PyTorch its own flag decides as well, which is
        on by default.
    tf32_products: the same of products of float32 by cuBLASLt, if the planner prefers these to a
        kernel that does not round; of convolutions that become products, too. Under PyTorch
        `torch.set_float32_matmul_precision("high")` asks for this as well.
    tf32x3_products: compute large products of float32 by cuBLASLt as three of TF32 (3xTF32), of
        both halves of each factor, in about half of float32's time. The largest errors are 1e-5 of
        the result's RMS at a depth of 768 and 4e-5 at 3072 (float32: 7e-6 and 3e-6, TF32: 1.5e-3).
        What is infinite may become not a number. Takes memory for three times each factor.
    timed_convolutions: convolutions by cuDNN try up to eight of its engines in their first call and
        keep the fastest, still a reproducible one. Under PyTorch `torch.backends.cudnn.benchmark`
        asks for this as well.
    timed_products: the same of products by cuBLASLt and its algorithms, all of which add up in a
        fixed order.
    measure: time every region (equal ones once) on this machine's GPU, both as planned and as TVM
        compiles it, and keep the faster; products that may be cuBLASLt's or a kernel of ours, both
        ways. Takes seconds per region. What libraries compute is timed, too.
    cuda_graph: capture launches in CUDA graphs in the first call and replay them afterwards (with
        TVM's RewriteCUDAGraph). This holds for launches whose arguments lie in memory that the
        module allocates, or are weights: parameters after the first `num_input`, an attribute of
        the function. Weights that move are captured again.
    dependent_launch: launch kernels by programmatic dependent launch, which GPUs of compute
        capability 9.0 and newer have: a kernel is launched when the blocks of the one in front have
        ended, and waits until that is complete before it accesses memory, which is checked in
        machine code. Kernels with a barrier of the whole grid are launched without, and all where
        the user has registered a CUDA compiler in place of TVM's. Changes no result.
    extents: representative sizes of symbolic dimensions by name, {"n": (1, 128, 4096)}. Plans are
        compared by their average cost where every dimension has its first size, its second and so
        on (or its last, if another has more); unlisted dimensions count as 256, or as their upper
        bound. Kernels are mapped for these sizes: each length and number of rows gets a variant,
        which the host selects; tiles suit the sizes in the middle. For exactly the listed sizes (of
        up to eight) there are variants as if they were known, of kernels whose dimensions are all
        listed. Without any extents, plans are compared by traffic alone, and long rows get variants
        for few and for many. This limits nothing: kernels are correct for all sizes.
    plan: a SavedPlan to follow instead of planning; the module must be the one it was made for.
    dump: a folder to which every stage of each compilation is written, from Relax to CUDA; by
        default the one that the environment variable TVM_STITCH_DUMP names. Changes no result.
    cache: a folder that keeps lowered modules and compiled kernels for later builds, or "off"; by
        default what the environment variable TVM_STITCH_CACHE says, else ~/.cache/tvm-stitch.
        Builds that are timed, dumped or instrumented bypass it. Changes no result.
    """

    schemes: tuple[str, ...] = SCHEMES
    solver: str = "highs"
    time_limit_s: float = 300.0
    deterministic: bool = True
    launch_us: float = 1.0
    partition: bool = False
    workspace_bytes: int | None = None
    recomputed: int = 4
    largest_kernel: int = 256
    fast_math: bool = False
    tf32_convolutions: bool = False
    tf32_products: bool = False
    tf32x3_products: bool = False
    timed_convolutions: bool = False
    timed_products: bool = False
    measure: bool = False
    cuda_graph: bool = False
    dependent_launch: bool = True
    extents: Mapping[str, Sequence[int]] = field(default_factory=dict, hash=False)
    plan: SavedPlan | None = None
    dump: str | os.PathLike[str] | None = None
    cache: str | os.PathLike[str] | None = None

    @property
    def ways(self) -> tuple[str, ...]:
        """The schemes, and what flags allow besides, as those take them who choose kernels."""
        return (*self.schemes, TF32) if self.tf32_products else self.schemes

    @classmethod
    def of_ways(cls, ways: Sequence[str], **settings: Any) -> Options:
        """The settings that have such ways."""
        schemes = tuple(way for way in ways if way != TF32)
        return cls(schemes=schemes, tf32_products=TF32 in ways, **settings)

    def __post_init__(self) -> None:
        if isinstance(self.schemes, str) or not isinstance(self.schemes, Iterable):
            raise InputError(f"schemes must be a tuple of names, not {self.schemes!r}")
        object.__setattr__(self, "schemes", tuple(self.schemes))
        unknown = [scheme for scheme in self.schemes if scheme not in SCHEMES]
        if unknown:
            raise InputError(f"unknown schemes {unknown}; known are {list(SCHEMES)}")
        if self.plan is not None and not isinstance(self.plan, SavedPlan):
            raise InputError(f"plan must be a SavedPlan, not {type(self.plan).__name__}")
        if self.plan is not None and self.measure:
            raise InputError("a pinned plan is followed, not measured: give plan or measure")
        for name in ("dump", "cache"):
            folder = getattr(self, name)
            if folder is not None and not isinstance(folder, (str, os.PathLike)):
                raise InputError(f"{name} must name a folder, not {folder!r}")
        if self.tf32_products and self.tf32x3_products:
            raise InputError("products are rounded to TF32 or split: not both at once")
        if self.solver not in SOLVERS:
            raise InputError(f"unknown solver {self.solver!r}; known are {list(SOLVERS)}")
        object.__setattr__(self, "extents", _sizes(self.extents))
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, (kind, smallest) in _NUMBERS.items():
            value: Any = getattr(self, name)
            if name == "workspace_bytes" and value is None:
                continue
            fits = isinstance(value, kind) and not isinstance(value, bool)
            if not fits or not value >= smallest:
                what = "a whole number" if kind is Integral else "a number"
                raise InputError(f"{name} must be {what} of at least {smallest}, not {value!r}")


def _sizes(extents: Any) -> Mapping[str, tuple[int, ...]]:
    """Sizes by name as tuples; what is no mapping of names to sizes is refused."""
    if not isinstance(extents, Mapping):
        raise InputError(f"extents must map names to sizes, not {extents!r}")
    for name, sizes in extents.items():
        is_list = isinstance(sizes, Sequence) and not isinstance(sizes, str)
        if not isinstance(name, str) or not is_list or not sizes:
            raise InputError(f"extents must map names to sizes, not {name!r} to {sizes!r}")
        if not all(isinstance(size, int) and size >= 1 for size in sizes):
            raise InputError(f"extents of {name!r} must be whole numbers of at least 1: {sizes!r}")
    return {name: tuple(map(int, sizes)) for name, sizes in extents.items()}
