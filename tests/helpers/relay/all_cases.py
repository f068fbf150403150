"""All cases, by operator."""

from relay import cases_elementwise, cases_image, cases_movement, cases_nn
from relay.case import Generator

GENERATORS: dict[str, list[Generator]] = {
    **cases_elementwise.GENERATORS,
    **cases_image.GENERATORS,
    **cases_movement.GENERATORS,
    **cases_nn.GENERATORS,
}
