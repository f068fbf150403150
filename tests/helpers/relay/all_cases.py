"""All cases, by operator."""

from relay import (
    cases_creation,
    cases_dyn,
    cases_elementwise,
    cases_image,
    cases_indexing,
    cases_movement,
    cases_nn,
    cases_reductions,
    cases_windows,
)
from relay.case import Generator

GENERATORS: dict[str, list[Generator]] = {
    **cases_creation.GENERATORS,
    **cases_dyn.GENERATORS,
    **cases_elementwise.GENERATORS,
    **cases_image.GENERATORS,
    **cases_indexing.GENERATORS,
    **cases_movement.GENERATORS,
    **cases_nn.GENERATORS,
    **cases_reductions.GENERATORS,
    **cases_windows.GENERATORS,
}
