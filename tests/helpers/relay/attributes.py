"""How TVM 0.19 declared the fields of each attribute class, by operator.

Written in place (``i``: int, double, bool, std::string; ``d``: a dtype), or as an object of its own
(``o``: a number, ``s``: a string, ``l``: a list).
"""

from relay import attributes_nn

_SCATTER = {"axis": ("o", 0), "reduction": ("s", "update")}
_RESHAPE = {"newshape": ("l", None), "allowzero": ("i", False)}
_SORT = {"axis": ("i", -1), "is_ascend": ("i", True), "dtype": ("d", "")}
_LIKE = {
    "lhs_begin": ("i", 0), "lhs_end": ("o", None), "rhs_begin": ("i", 0), "rhs_end": ("o", None),
}  # fmt: skip
_SLICE = {
    "begin": ("l", None), "end": ("l", None), "strides": ("l", None), "slice_mode": ("s", "end"),
    "axes": ("l", None),
}  # fmt: skip
_ONE_HOT = {"depth": ("i", 1), "axis": ("i", -1), "dtype": ("d", "")}
_TOPK = {
    "k": ("o", 1), "axis": ("i", -1), "is_ascend": ("i", False), "ret_type": ("i", "both"),
    "dtype": ("d", "int32"),
}  # fmt: skip
CLASSES: dict[str, tuple[str, dict]] = {
    **attributes_nn.CLASSES,
    "cast": ("CastAttrs", {"dtype": ("d", "")}),
    "reinterpret": ("CastAttrs", {"dtype": ("d", "")}),
    "clip": ("ClipAttrs", {"a_min": ("i", 0.0), "a_max": ("i", 0.0)}),
    "fixed_point_multiply": (
        "FixedPointMultiplyAttrs",
        {"multiplier": ("i", 0), "shift": ("i", 0)},
    ),
    "fixed_point_multiply_per_axis": (
        "FixedPointMultiplyPerAxisAttrs",
        {
            "is_lshift_required": ("i", False),
            "is_rshift_required": ("i", False),
            "axes": ("l", None),
        },
    ),
    "expand_dims": ("ExpandDimsAttrs", {"axis": ("i", 0), "num_newaxis": ("i", 1)}),
    "dyn.expand_dims": ("DynExpandDimsAttrs", {"num_newaxis": ("i", 1)}),
    "concatenate": ("ConcatenateAttrs", {"axis": ("i", 0)}),
    "qnn.concatenate": ("ConcatenateAttrs", {"axis": ("i", 0)}),
    "transpose": ("TransposeAttrs", {"axes": ("l", None)}),
    "reshape": ("ReshapeAttrs", _RESHAPE),
    "dyn.reshape": ("ReshapeAttrs", _RESHAPE),
    "contrib_reverse_reshape": ("ReshapeAttrs", _RESHAPE),
    "reshape_like": ("ReshapeLikeAttrs", _LIKE),
    "scatter": ("ScatterAttrs", {"axis": ("o", 0)}),
    "scatter_add": ("ScatterAddAttrs", {"axis": ("o", 0)}),
    "scatter_elements": ("ScatterElementsAttrs", _SCATTER),
    "scatter_nd": ("ScatterNDAttrs", {"mode": ("s", "update")}),
    "gather": ("GatherAttrs", {"axis": ("o", None)}),
    "gather_nd": ("GatherNDAttrs", {"batch_dims": ("o", 0), "index_rank": ("o", None)}),
    "take": ("TakeAttrs", {"batch_dims": ("o", 0), "axis": ("o", None), "mode": ("s", "clip")}),
    "meshgrid": ("MeshgridAttrs", {"indexing": ("i", "ij")}),
    "stack": ("StackAttrs", {"axis": ("o", 0)}),
    "repeat": ("RepeatAttrs", {"repeats": ("o", None), "axis": ("o", None)}),
    "tile": ("TileAttrs", {"reps": ("l", None)}),
    "dyn.tile": ("TileAttrs", {"reps": ("l", None)}),
    "reverse": ("ReverseAttrs", {"axis": ("o", None)}),
    "reverse_sequence": ("ReverseSequenceAttrs", {"seq_axis": ("o", 1), "batch_axis": ("o", 0)}),
    "squeeze": ("SqueezeAttrs", {"axis": ("l", None)}),
    "dyn.squeeze": ("SqueezeAttrs", {"axis": ("l", None)}),
    "split": ("SplitAttrs", {"indices_or_sections": ("o", None), "axis": ("i", 0)}),
    "strided_slice": ("StridedSliceAttrs", _SLICE),
    "dyn.strided_slice": ("StridedSliceAttrs", _SLICE),
    "slice_like": ("SliceLikeAttrs", {"axes": ("l", None)}),
    "layout_transform": (
        "LayoutTransformAttrs",
        {"src_layout": ("i", ""), "dst_layout": ("i", "")},
    ),
    "shape_of": ("ShapeOfAttrs", {"dtype": ("d", "")}),
    "ndarray_size": ("NdarraySizeAttrs", {"dtype": ("d", "")}),
    "sequence_mask": ("SequenceMaskAttrs", {"mask_value": ("i", 0.0), "axis": ("i", 0)}),
    "sparse_to_dense": ("SparseToDenseAttrs", {"output_shape": ("l", None)}),
    "dyn.sparse_to_dense": ("SparseToDenseAttrs", {"output_shape": ("l", None)}),
    "one_hot": ("OneHotAttrs", _ONE_HOT),
    "dyn.one_hot": ("OneHotAttrs", _ONE_HOT),
    "matrix_set_diag": (
        "MatrixSetDiagAttrs",
        {
            "k1": ("i", 0),
            "k2": ("i", 0),
            "super_diag_right_align": ("i", True),
            "sub_diag_right_align": ("i", False),
        },
    ),
    **{
        name: (
            "ScanopAttrs",
            {"axis": ("o", None), "dtype": ("d", ""), "exclusive": ("o", False)},
        )
        for name in ("cumsum", "cumprod")
    },
    "einsum": ("EinsumAttrs", {"equation": ("s", "")}),
    "dft": ("DFTAttrs", {"inverse": ("o", False)}),
    "stft": (
        "StftAttrs",
        {
            "n_fft": ("i", -1),
            "hop_length": ("i", -1),
            "win_length": ("i", -1),
            "normalized": ("i", False),
            "onesided": ("i", True),
        },
    ),
    "trilu": ("TriluAttrs", {"upper": ("i", True)}),
    "sliding_window": (
        "SlidingWindowAttrs",
        {"axis": ("i", 0), "window_shape": ("l", None), "strides": ("l", None)},
    ),
    "arange": ("ArangeAttrs", {"dtype": ("d", "")}),
    "sort": ("ArgsortAttrs", {**_SORT, "dtype": ("d", "float32")}),
    "argsort": ("ArgsortAttrs", _SORT),
    "topk": ("TopkAttrs", _TOPK),
    "dyn.topk": ("TopkAttrs", _TOPK),
    "searchsorted": ("SearchSortedAttrs", {"right": ("i", False), "dtype": ("d", "int32")}),
}
