"""Every model by name."""

from __future__ import annotations

import importlib.util

from bench.torch_models import diffusion, graphs, language, plain, vision
from bench.torch_models.model import Model
from bench.torch_models.row import AUTOCAST, DYNAMIC, INFERENCE, TRAINING


def all_models() -> list[Model]:
    """All of them, in the order of the table."""
    of_packages = [*language.models(), *vision.models(), *diffusion.models()]
    return [*of_packages, *plain.models(), *graphs.models()]


def find(name: str) -> Model:
    """The model of this name."""
    return next(model for model in all_models() if model.name == name)


def kinds_of(model: Model) -> list[str]:
    """In which ways a model can be tried."""
    found = {
        INFERENCE: True,
        TRAINING: model.trained,
        DYNAMIC: model.dynamic,
        AUTOCAST: model.trained,
    }
    return [kind for kind, possible in found.items() if possible]


def missing(model: Model) -> str | None:
    """Why a model cannot be made here, if so."""
    if model.needs is None or importlib.util.find_spec(model.needs) is not None:
        return None
    return f"{model.needs} is not installed"
