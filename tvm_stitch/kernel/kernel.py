"""What every kernel answers, however it is computed; kernel/implementations lists the ways.

In: stages and what is needed of them. Out: a Kernel, which says what it costs, what it can share
and hold, and becomes a PrimFunc. Nobody outside of its room asks which one it is.

A Kind (kernel/kinds) maps one program on threads, beside others in the same launch. A Kernel is the
launch: programs of any kinds, or one product that takes all of a block, or a call of the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import Refused, Stage, Var


class Missing(Refused):
    """A kernel that there would be if something were installed; the reason says what to do."""


@dataclass(frozen=True)
class Least:
    """What is left of a kernel's time however its operators are divided among kernels."""

    memory_us: float  # of its bytes alone
    work_us: float  # of its bytes, its instructions, and the steps that wait for each other


@dataclass(frozen=True, eq=False)
class Kernel(ABC):
    """Stages as one launch, chosen for a device and for what is known of symbolic sizes."""

    device: Device
    bounds: Bounds
    # So many operators it may have to take at its end together; 0: each by itself.
    most_at_once: ClassVar[int] = 0

    @property
    @abstractmethod
    def buffers(self) -> tuple[Var, ...]:
        """The tensors that it reads and writes."""

    @property
    @abstractmethod
    def cost_us(self) -> float:
        """What it should take, on average at the sizes that symbols may have."""

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product first of all."""
        return True

    @property
    def shares_launch(self) -> bool:
        """Whether others that are no products can be put into it, or it into them."""
        return False

    @property
    def planned_us(self) -> float:
        """The same for the planner, which weighs kernels against bytes between them."""
        return self.cost_us

    def after_us(self, _fresh: int) -> float:
        """The same where so many bytes of what it reads have just been written."""
        return self.planned_us

    @property
    def sort(self) -> Hashable:
        """Equal for kernels of which `check` finds the same."""
        return self

    @abstractmethod
    def check(self, seen: set[Hashable] | None = None) -> Refused | None:
        """What check_kernel will find in it, asked before there is a fused PrimFunc.

        `seen` are sorts of parts that held in other kernels; it takes up those that hold in this.
        """

    @abstractmethod
    def emit(self, func: tirx.PrimFunc) -> tirx.PrimFunc | Refused:
        """The kernel in place of a fused PrimFunc that its stages were read from."""

    @property
    def layout(self) -> Any:
        """What a tuner searches, and records hold; None: somebody else has chosen."""
        return None

    def least(self, _extents: Extents) -> Least | None:
        """What several kernels cannot beat that compute the same; None: it is not known."""
        return None

    @property
    def parts(self) -> int:
        """How many unrelated computations it holds."""
        return 1

    @property
    def is_cooperative(self) -> bool:
        """Whether its grid has barriers between rounds, and needs a cooperative launch."""
        return False

    def joined(self, _others: Sequence[Kernel]) -> Kernel | Refused:
        """This kernel and unrelated ones in one launch."""
        return Refused("it shares its launch with none")


@dataclass(frozen=True)
class Implementation:
    """A way to compute stages in one kernel."""

    attribute: str  # of PrimFuncs that it has emitted: how, as JSON
    choose: Callable[
        [tuple[Stage, ...], tuple[Var, ...], Device, Bounds, Sequence[str]], Kernel | Refused
    ]
    of_products: bool = False  # of nothing else, that is
    on_host: bool = False  # where a library is called, which launches the kernel
