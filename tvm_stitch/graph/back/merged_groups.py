"""Groups that are something else once TVM has merged them.

In: the groups of a module, planned from the stages of their operators. Out: for those of which no
kernel can be made as one function, the reason. Merging gives other names to what has shapes of
numbers: such a group is what was planned, but for kernels that were found apart and share a launch.
Others are merged, and read again. Must not know plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.graph.back.dissolve import groups_alone
from tvm_stitch.graph.back.merge import merged
from tvm_stitch.graph.front.read import Node
from tvm_stitch.kernel.build import VIEW, choose_kernel, kernel_of
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.stages.stage import Refused, Stage, Var


@dataclass(frozen=True, eq=False)
class MergedGroup:
    """Operators that are one function of a module."""

    name: str  # of the function; equal groups have the same
    nodes: tuple[Node, ...]
    outputs: tuple[Var, ...]
    has_several: bool  # kernels that were found apart

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What it computes."""
        return tuple(stage for node in self.nodes for stage in node.stages)

    @property
    def is_static(self) -> bool:
        """Whether merging it changes nothing but names."""
        return all(node.is_static for node in self.nodes)


@dataclass(frozen=True)
class Chooser:
    """What says which kernel a function becomes."""

    device: Device
    bounds: Bounds
    schemes: tuple[str, ...]

    def of_group(self, group: MergedGroup) -> Kernel | Refused:
        """The kernel of what a group computes."""
        return choose_kernel(group.stages, group.outputs, self.device, self.bounds, self.schemes)

    def of_function(self, function: tirx.PrimFunc) -> Kernel | Refused:
        """The kernel of a function that has been merged."""
        return kernel_of(function, self.device, self.bounds, self.schemes)


def refused_groups(
    mod: tvm.IRModule, groups: Iterable[MergedGroup], chooser: Chooser
) -> dict[str, str]:
    """Why no kernel can be made of groups, by their names."""
    by_name = {group.name: group for group in groups}
    several = [group for group in by_name.values() if group.is_static and group.has_several]
    kernels = {group.name: chooser.of_group(group) for group in several}
    unsure = [group.name for group in by_name.values() if not group.is_static]
    functions = merged(groups_alone(mod, unsure)) if unsure else {}
    kernels |= {name: chooser.of_function(function) for name, function in functions.items()}
    return {
        name: kernel.reason
        for name, kernel in kernels.items()
        if isinstance(kernel, Refused) and kernel is not VIEW
    }
