"""How ``tvm.ir.save_json`` wrote the fields of attribute objects.

A field is written in place ("3", "NCHW") or as the number of a node that holds it. Which of the
two followed from its C++ type, which the file does not tell: this table does.
"""

from __future__ import annotations

from typing import Any

# Numbers that have a node of their own.
_OBJECT_NUMBERS = frozenset(
    {
        "batch_axis", "batch_dims", "channels", "exclusive", "index_rank",
        "inverse", "lhs_end", "newshape", "repeats", "rhs_end", "seq_axis", "units",
    }
)  # fmt: skip
# The type of "axis" depends on the operator.
_OBJECT_AXIS = ("Cum", "Gather", "Repeat", "Reverse", "Scanop", "Scatter", "Stack", "Take")
# What is an object in one operator only, or a list in all but one.
_OBJECT_FIELDS = {("TopKAttrs", "k"), ("TopkAttrs", "k")}
_INLINE_FIELDS = {("LRNAttrs", "size"), ("CorrelationAttrs", "kernel_size")}
# Lists, which always have one.
_NUMBER_LISTS = frozenset(
    {
        "axes", "begin", "block_shape", "crop_size", "crops", "dilation", "dilations", "end",
        "indices_or_sections", "kernel_size", "offsets", "output_padding",
        "output_shape", "output_size", "pad_width", "padding", "paddings", "pool_size",
        "pooled_size", "ratios", "reps", "roi", "shape", "size", "sizes", "steps",
        "strides", "target_shape", "variances", "window_shape",
    }
)  # fmt: skip
# Strings, which later versions made objects.
TEXTS = frozenset(
    {
        "coordinate_transformation_mode", "data_layout", "dst_layout", "equation", "indexing",
        "kernel_layout", "layout", "method", "mode", "out_layout", "pad_mode", "padding_mode",
        "reduction", "ret_type", "rounding", "rounding_method", "slice_mode", "src_layout",
        "weight_layout",
    }
)  # fmt: skip
# Lists in some operators, numbers written in place in others.
_LIST_AXIS = ("Reduce", "Squeeze", "L2Normalize", "ArgReduce", "Variance")


def inline(text: str) -> Any:
    """A field written in place, by what it looks like."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def is_object(kind: str, name: str) -> bool:
    """Whether a field of an attribute class is the number of a node."""
    if (kind, name) in _OBJECT_FIELDS:
        return True
    if (kind, name) in _INLINE_FIELDS:
        return False
    if name == "axis":
        return kind.startswith(_OBJECT_AXIS + _LIST_AXIS)
    return name in _OBJECT_NUMBERS or name in _NUMBER_LISTS
