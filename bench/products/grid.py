"""The products that are measured and checked, as data.

Rows from one to many, inner and outer sizes of real models, batches of attention, both layouts of
either factor, and what a product ends with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HALVES, SINGLES = ("float16", "bfloat16"), ("float32",)
ENDINGS = ("", "bias", "residual", "bias ReLU", "bias GELU", "residual bias", "scale residual bias")


@dataclass(frozen=True)
class Shape:
    """rows x depth by depth x columns, so many times."""

    dtype: str
    rows: int
    depth: int
    columns: int
    batch: int = 1
    left_by_depth: bool = True
    right_by_depth: bool = False
    ending: str = ""

    @property
    def name(self) -> str:
        """Says all of it."""
        sizes = f"{self.rows}x{self.depth}x{self.columns}"
        layout = f"{'N' if self.left_by_depth else 'T'}{'T' if self.right_by_depth else 'N'}"
        times = f"{self.batch}*" if self.batch > 1 else ""
        return f"{self.dtype} {times}{sizes} {layout} {self.ending}".rstrip()

    @property
    def parts(self) -> list[str]:
        """What it ends with, in order."""
        return self.ending.split()


_ROWS = (1, 4, 8, 16, 32, 64, 128, 197, 256, 300, 512, 1024, 2048, 3152, 4096, 8192, 16384)
# Depth and columns: BERT, ViT and GPT-2; Llama; a recommender's and a vocabulary's.
_BERT = ((768, 768), (768, 2304), (768, 3072), (3072, 768))
_LLAMA = ((4096, 4096), (4096, 11008), (11008, 4096))
_OTHERS = ((512, 2048), (2048, 512), (1024, 4096), (768, 30522), (1000, 1000))
_ATTENTION = ((384, 128, 64, 128), (384, 128, 128, 64), (192, 197, 64, 197), (192, 197, 197, 64),
              (64, 512, 64, 512), (32, 2048, 128, 2048), (32, 2048, 2048, 128))  # fmt: skip
# Gradients of weights, whose left factor lies across the depth: ConvNeXt's, BERT's, GPT-2's.
_GRADIENTS = ((96, 50176, 384), (192, 12544, 768), (384, 3136, 1536), (1536, 3136, 384),
              (768, 784, 3072), (768, 4096, 3072), (3072, 4096, 768), (768, 512, 768))  # fmt: skip
# Layers of vision models in stages, whose first are wide images of few channels: 32 of 224 x 224.
_STAGES = ((100352, 64, 256), (100352, 256, 64), (50176, 96, 384), (50176, 384, 96),
           (25088, 128, 512), (25088, 512, 128), (12544, 192, 768), (12544, 768, 192),
           (6272, 320, 1280), (6272, 1280, 320), (6272, 320, 960), (3136, 384, 1536),
           (1568, 512, 2048), (1568, 2048, 512))  # fmt: skip
# Rows, depth and columns: few tiles and many, deep and not.
_SWEPT = ((16, 4096, 4096), (64, 3072, 768), (197, 4096, 11008), (300, 4096, 4096),
          (512, 3072, 768), (1024, 768, 768), (1024, 3072, 768), (1024, 768, 3072),
          (1024, 768, 2304), (3152, 768, 3072), (3152, 3072, 768), (4096, 4096, 4096))  # fmt: skip


def stages() -> Iterator[Shape]:
    """Layers of vision models in stages, with and without what follows them."""
    for rows, depth, columns in _STAGES:
        for ending in ("", "bias GELU") if columns > depth else ("", "residual bias"):
            yield Shape("bfloat16", rows, depth, columns, right_by_depth=True, ending=ending)


def timed() -> list[Shape]:
    """About two hundred shapes, whose times say which way is taken where."""
    return list(dict.fromkeys(_timed()))


def _timed() -> Iterator[Shape]:
    for rows in _ROWS:
        for depth, columns in (_BERT[0], *_BERT[2:], *_LLAMA[:2]):
            yield Shape("float16", rows, depth, columns)
    for rows in (8, 300, 2048):
        for depth, columns in _LLAMA:
            yield Shape("bfloat16", rows, depth, columns)
            yield Shape("bfloat16", rows, depth, columns, right_by_depth=True)
    for rows in (64, 1024, 3152):
        for depth, columns in (_BERT[1], *_OTHERS):
            yield Shape("float16", rows, depth, columns)
    for batch, rows, depth, columns in _ATTENTION:
        yield Shape("float16", rows, depth, columns, batch)
        yield Shape("float16", rows, depth, columns, batch, right_by_depth=True)
    for ending in ENDINGS:
        for rows in (197, 512, 4096):
            yield Shape("float16", rows, 768, 3072, ending=ending)
            yield Shape("float16", rows, 3072, 768, ending=ending)
    yield from stages()
    for rows in (16, 64, 256, 1024, 4096):
        for depth, columns in (*_BERT[:1], *_BERT[2:], (1024, 4096), (512, 2048)):
            yield Shape("float32", rows, depth, columns)
    for batch, rows, depth, columns in _ATTENTION[:4]:
        yield Shape("float32", rows, depth, columns, batch)
    yield Shape("float32", 1024, 768, 3072, ending="bias GELU")
    yield Shape("float16", 8192, 8192, 8192)
    for gradient in _GRADIENTS:
        yield Shape("bfloat16", *gradient, left_by_depth=False)
    yield Shape("float16", 4096, 768, 3072, left_by_depth=False)
    yield Shape("float16", 4096, 3072, 768, left_by_depth=False, right_by_depth=True)


def swept() -> list[Shape]:
    """Those whose times by tiles of many sizes tell how long a stage, a wave and a result take."""
    found = [Shape("bfloat16", *sizes) for sizes in _SWEPT]
    found += [Shape("bfloat16", *sizes, 1, True, True) for sizes in _SWEPT[6:10:3]]
    found += [Shape("bfloat16", *sizes, left_by_depth=False) for sizes in _GRADIENTS]
    found.append(Shape("bfloat16", 1024, 1000, 1000))
    found.append(Shape("bfloat16", 197, 768, 3072, ending="residual bias"))
    return found


def checked() -> list[Shape]:
    """Small products of every dtype, layout, batch and ending, and of sizes that fit no tile."""
    found = [
        Shape(dtype, 33, 72, 40, batch, left, right, ending)
        for dtype in (*HALVES, *SINGLES)
        for batch in (1, 3)
        for left in (True, False)
        for right in (True, False)
        for ending in ENDINGS
    ]
    sizes = ((1, 7, 31), (7, 1000, 1027), (31, 33, 7), (1027, 65, 1000), (300, 4096, 128))
    found += [Shape(dtype, *size) for dtype in (*HALVES, *SINGLES) for size in sizes]
    return found
