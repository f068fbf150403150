"""The convolutions that are checked and timed: those of models, and what they are followed by.

In: nothing. Out: Shapes, each with a name that says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from tvm_stitch.library.convolution import DATA, FORWARD, WEIGHT, Convolution

PLAIN, FUSED = "", "bias-relu"
RESIDUAL = "bias-residual-relu"


@dataclass(frozen=True)
class Shape:
    """A convolution of square images, of its data, weights and what is computed."""

    model: str
    batch: int
    channels: int
    results: int
    image: int
    window: int
    stride: int = 1
    groups: int = 1
    dtype: str = "float16"
    what: str = FORWARD
    ending: str = PLAIN
    channels_last: bool = True
    timed: bool = False  # its engine, by the clock

    @property
    def padding(self) -> int:
        """As models pad: the size stays but for the stride; patches are not padded."""
        return 0 if self.window == self.stride else self.window // 2

    @property
    def out(self) -> int:
        """The side of the result."""
        return (self.image + 2 * self.padding - self.window) // self.stride + 1

    @property
    def name(self) -> str:
        """All of it, for people and for patterns."""
        kind = "depthwise-" if self.groups > 1 else ""
        size = f"{self.batch}x{self.channels}x{self.image}-{self.results}"
        layout = "nhwc" if self.channels_last else "nchw"
        stride = f"-s{self.stride}" if self.stride > 1 else ""
        parts = [self.model, f"{kind}{self.window}x{self.window}{stride}", size, self.dtype, layout]
        return " ".join([*parts, self.what, *([self.ending] if self.ending else [])])

    @property
    def convolution(self) -> Convolution:
        """What the library is asked for."""
        padding = (self.padding,) * 2
        found = Convolution(
            self.what, self.channels_last, self.groups,
            (self.stride,) * 2, padding, padding, (1, 1), timed=self.timed,
        )  # fmt: skip
        if not self.ending:
            return found
        return replace(found, bias=True, residual=self.ending == RESIDUAL, relu=True)

    @property
    def extents(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Those of data, weights and result, channels second."""
        return (
            (self.batch, self.channels, self.image, self.image),
            (self.results, self.channels // self.groups, self.window, self.window),
            (self.batch, self.results, self.out, self.out),
        )

    @property
    def operations(self) -> float:
        """Additions and multiplications."""
        _, weight, result = self.extents
        return 2.0 * result[0] * result[2] * result[3] * weight[0] * weight[1] * self.window**2


_MODELS = (
    Shape("resnet50", 16, 3, 64, 224, 7, 2),
    Shape("resnet50", 16, 64, 64, 56, 1),
    Shape("resnet50", 16, 64, 64, 56, 3),
    Shape("resnet50", 16, 64, 256, 56, 1),
    Shape("resnet50", 16, 256, 64, 56, 1),
    Shape("resnet50", 16, 128, 128, 56, 3, 2),
    Shape("resnet50", 16, 128, 128, 28, 3),
    Shape("resnet50", 16, 128, 512, 28, 1),
    Shape("resnet50", 16, 512, 256, 28, 1),
    Shape("resnet50", 16, 256, 512, 56, 1, 2),
    Shape("resnet50", 16, 256, 256, 14, 3),
    Shape("resnet50", 16, 256, 1024, 14, 1),
    Shape("resnet50", 16, 512, 512, 7, 3),
    Shape("resnet50", 16, 512, 2048, 7, 1),
    Shape("efficientnet", 16, 3, 32, 224, 3, 2),
    Shape("efficientnet", 16, 32, 32, 112, 3, 1, 32),
    Shape("efficientnet", 16, 96, 96, 112, 3, 2, 96),
    Shape("efficientnet", 16, 24, 144, 56, 1),
    Shape("efficientnet", 16, 144, 144, 56, 5, 2, 144),
    Shape("efficientnet", 16, 672, 672, 14, 5, 1, 672),
    Shape("efficientnet", 16, 112, 672, 14, 1),
    Shape("efficientnet", 16, 320, 1280, 7, 1),
    Shape("convnext", 16, 3, 96, 224, 4, 4),
    Shape("convnext", 16, 96, 96, 56, 7, 1, 96),
    Shape("convnext", 16, 192, 192, 28, 7, 1, 192),
    Shape("convnext", 16, 384, 384, 14, 7, 1, 384),
    Shape("convnext", 16, 768, 768, 7, 7, 1, 768),
    Shape("convnext", 16, 96, 192, 56, 2, 2),
    Shape("unet", 8, 4, 320, 64, 3),
    Shape("unet", 8, 320, 320, 64, 3),
    Shape("unet", 8, 320, 320, 64, 3, 2),
    Shape("unet", 8, 640, 640, 32, 3),
    Shape("unet", 8, 320, 640, 32, 1),
    Shape("unet", 8, 1280, 1280, 16, 3),
    Shape("unet", 8, 2560, 1280, 8, 3),
    Shape("small", 8, 64, 128, 32, 3),
    Shape("odd", 3, 33, 31, 17, 3),
)


def shapes() -> list[Shape]:
    """All of them: float16 first, then what only some are asked for.

    But none by groups that end with something: modules do not ask for these.
    """
    return [s for s in dict.fromkeys(_all()) if s.groups == 1 or not s.ending]


def _all() -> Iterator[Shape]:
    for shape, ending in product(_MODELS, (PLAIN, FUSED)):
        yield replace(shape, ending=ending)
    for shape in _MODELS:
        if shape.window == 1 and shape.model == "resnet50":
            yield replace(shape, ending=RESIDUAL)
    for shape, what in product(_MODELS, (DATA, WEIGHT)):
        yield replace(shape, what=what)
    for shape, last, what in product(_MODELS[::3], (True, False), (FORWARD, DATA, WEIGHT)):
        yield replace(shape, dtype="float32", channels_last=last, what=what)
    for shape in _MODELS[::3]:
        yield replace(shape, dtype="float32", channels_last=False, ending=FUSED)
        yield replace(shape, dtype="bfloat16", ending=FUSED)
        yield replace(shape, channels_last=False)
