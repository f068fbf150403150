"""A model tried in training: the same steps under each system, and how far they are from float64.

In: a Model that returns a loss. Out: Rows. Losses of many steps say little: a rounding of the first
step's weights may be as large as they are after ten. What says most is what a single step computes
from the parameters and the state that it finds, at the beginning, in the middle and at the end.
"""

from __future__ import annotations

import contextlib
import copy
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench.torch_models.exact import Exact, errors, gradients_error, in_float64
from bench.torch_models.model import Inputs, placed
from bench.torch_models.row import AUTOCAST, TRAINING, Row
from bench.torch_models.systems import CUDA, System
from bench.torch_models.tries import Call, Try, first_call

STEPS = 20
# Steps of which everything is compared. The second is the first that finds a state, and that may be
# written over it.
WATCHED = (1, 2, STEPS)
# Times that all steps are made, from weights that are equal but for the last bit of some.
STARTS = 4

State = dict[str, torch.Tensor]


class Training(Try):
    """Steps of AdamW on one batch: forward, backward and update."""

    kind = TRAINING

    def prepare(self) -> None:
        """The module, its inputs, and the losses in float64."""
        torch.manual_seed(0)
        make, inputs = self.model.trained, self.model.trained_on
        assert make is not None and inputs is not None
        with torch.device(self.place):
            module = make(self.size)
        self.module = module.to(self.place).to(self.type).train()
        self.inputs = placed(inputs(self.size), self.place, self.type)
        given = placed(self.inputs, self.place, torch.float64)
        with Exact():
            self._exact = Steps(
                in_float64(self.module), given, lambda each: each, self.place, self.model.rate
            )
            self.losses = [self._exact().item() for _ in range(STEPS)]

    def one(self, system: System, row: Row) -> Call:
        """All steps from every start, some of the first ones watched; further steps are timed."""
        module = copy.deepcopy(self.module)
        steps = Steps(module, self.inputs, system.compile, self.place, self.model.rate, self.around)
        found = []
        for number in range(1, STEPS + 1):
            if number in WATCHED:
                step = first_call(steps.watched, row) if number == 1 else steps.watched()
                found.append(self._errors_of(step))
            loss = step.loss if number in WATCHED else steps()
            row.losses.append(loss.item())
        row.gradients_error, row.update_error, row.state_error = map(max, zip(*found, strict=True))
        off = [self._off(row.losses)]
        for start in range(1, STARTS):
            steps.begin(nudged(list(self.module.parameters()), start))
            off.append(self._off([steps().item() for _ in range(STEPS)]))
        row.starts = [together for _, together in off]
        row.error, row.rms_error = map(statistics.median, zip(*off, strict=True))
        system.tell(row)
        return steps

    def around(self) -> contextlib.AbstractContextManager[Any]:
        """What the forward pass runs in, but for float64's."""
        return contextlib.nullcontext()

    def _errors_of(self, step: Watched) -> tuple[float, float, float]:
        """How far a step's gradients, its update and its state are from those in float64."""
        with Exact():
            exact = self._exact.from_there(step)
        changes = [
            torch.cat([(a.double() - b.double()).flatten() for a, b in pairs])
            for pairs in (list(zip(each.after, step.before, strict=True)) for each in (exact, step))
        ]
        states = [
            [torch.cat([state[name].flatten() for state in each.states]) for name in step.states[0]]
            for each in (exact, step)
        ]
        return (
            gradients_error(exact.gradients, step.gradients),
            errors(changes[:1], changes[1:])[1],
            errors(*states)[1],
        )

    def _off(self, losses: list[float]) -> tuple[float, float]:
        """How far losses are from those in float64: the largest, and all together."""
        exact, found = (torch.tensor(each, dtype=torch.float64) for each in (self.losses, losses))
        return errors([exact], [found])


class Autocast(Training):
    """The same by torch.autocast: parameters, their gradients and the update are float32's."""

    kind = AUTOCAST

    def prepare(self) -> None:
        """As of float32; the element type is that of products."""
        self.cast, self.type = self.type, torch.float32
        super().prepare()

    def around(self) -> contextlib.AbstractContextManager[Any]:
        """Products in the element type."""
        return torch.autocast(self.place, self.cast)


@dataclass(frozen=True)
class Watched:
    """A step: what it found, and what it made of that."""

    loss: torch.Tensor
    gradients: list[torch.Tensor]
    before: list[torch.Tensor]  # the parameters
    after: list[torch.Tensor]
    found: list[State]  # the optimizer's state, by parameter; nothing at the first step
    states: list[State]


class Steps:
    """A module and its optimizer; a call makes one step and returns the loss."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Inputs,
        compile_: Callable[[Any], Any],
        place: str,
        rate: float,
        around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:
        self._around = around
        self._parameters = list(module.parameters())
        # By lists of tensors, as is usual on a GPU: PyTorch traces other operators for a CPU's.
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=rate, foreach=True, capturable=place == CUDA
        )
        self._inputs = inputs
        self._forward, self._update = compile_(module), compile_(self._optimizer.step)

    def __call__(self) -> torch.Tensor:
        """One step."""
        loss = self._differentiated()
        self._update()
        self._optimizer.zero_grad(set_to_none=True)
        return loss

    def watched(self) -> Watched:
        """One step, and all that it reads and writes."""
        loss = self._differentiated()
        trained = self._trained()
        gradients = [each.grad.clone() for each in trained if each.grad is not None]
        before, found = _copies(trained), self._states(trained)
        self._update()
        after, states = _copies(trained), self._states(trained)
        self._optimizer.zero_grad(set_to_none=True)
        return Watched(loss, gradients, before, after, found, states)

    def from_there(self, step: Watched) -> Watched:
        """The step of what another one found: gradients, and the update by those that it had."""
        trained = [each for each in self._parameters if each in self._optimizer.state]
        with torch.no_grad():
            for parameter, value in zip(trained, step.before, strict=True):
                parameter.copy_(value)
        loss = self._differentiated()
        gradients = [each.grad for each in trained if each.grad is not None]
        for number, parameter in enumerate(trained):
            parameter.grad = step.gradients[number].double()
            state = step.found[number]
            self._optimizer.state[parameter] = {
                name: value.clone() if name == "step" else value.double()
                for name, value in state.items()
            }
        self._optimizer.step()
        after, states = _copies(trained), self._states(trained)
        self._optimizer.zero_grad(set_to_none=True)
        return Watched(loss, gradients, step.before, after, step.found, states)

    def begin(self, parameters: list[torch.Tensor]) -> None:
        """From these parameters on, in the same memory, as if no step had been made."""
        with torch.no_grad():
            for own, value in zip(self._parameters, parameters, strict=True):
                own.copy_(value)
        for state in self._optimizer.state.values():
            for value in state.values():
                value.zero_()

    def _differentiated(self) -> torch.Tensor:
        with self._around():
            loss = self._forward(**self._inputs)
        loss.backward()
        return loss.detach()

    def _trained(self) -> list[nn.Parameter]:
        return [each for each in self._parameters if each.grad is not None]

    def _states(self, parameters: list[nn.Parameter]) -> list[State]:
        return [
            {name: value.clone() for name, value in self._optimizer.state.get(each, {}).items()}
            for each in parameters
        ]


def _copies(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    return [each.detach().clone() for each in parameters]


def nudged(parameters: list[nn.Parameter], seed: int) -> list[torch.Tensor]:
    """The parameters with the last bit of each element up by one, down by one, or as it was."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for parameter in parameters:
        value = parameter.detach()
        bits = value.view(torch.int32 if value.element_size() == 4 else torch.int16)
        moved = torch.randint(-1, 2, value.shape, generator=generator).to(bits.device, bits.dtype)
        found.append(torch.where(value == 0, bits, bits + moved).view(value.dtype))
    return found
