"""Writes a module as TVM 0.19's ``tvm.ir.save_json`` did, with every field of every attribute.

For tests only: it shows that JSON and text mean the same for each operator. The table says how
each attribute class declared its fields: written in place (``i``: int, double, bool, std::string;
``d``: a dtype), or as an object of its own (``o``: a number, ``s``: a string, ``l``: a list).
"""

import base64
import json

import numpy as np

from relay.node_graph import packed
from tvm_stitch.frontend.relay import ast
from tvm_stitch.frontend.relay.formats.text import read_text

_CONV = {
    "strides": ("l", [1, 1]), "padding": ("l", [0, 0]), "dilation": ("l", [1, 1]),
    "groups": ("i", 1), "channels": ("o", None), "kernel_size": ("l", None),
    "data_layout": ("s", "NCHW"), "kernel_layout": ("s", "OIHW"), "out_layout": ("s", ""),
    "out_dtype": ("d", ""),
}  # fmt: skip
_POOL = {
    "pool_size": ("l", None), "strides": ("l", [1, 1]), "dilation": ("l", [1, 1]),
    "padding": ("l", [0, 0]), "layout": ("s", "NCHW"), "out_layout": ("s", ""),
    "ceil_mode": ("i", False),
}  # fmt: skip
_RESIZE = {
    "size": ("l", None), "roi": ("l", None), "layout": ("i", "NCHW"), "method": ("i", "linear"),
    "coordinate_transformation_mode": ("i", "half_pixel"), "rounding_method": ("i", "round"),
    "cubic_alpha": ("i", -0.5), "cubic_exclude": ("i", 0), "extrapolation_value": ("i", 0.0),
    "out_dtype": ("d", ""),
}  # fmt: skip
_REDUCE = {"axis": ("l", None), "keepdims": ("i", False), "exclude": ("i", False)}
_INIT = {"shape": ("l", None), "dtype": ("d", "")}
_NORM = {
    "axis": ("i", 1), "epsilon": ("i", 1e-5), "center": ("i", True), "scale": ("i", True),
}  # fmt: skip
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
_DIMENSIONS = {1: ("W", "NCW", "OIW"), 2: ("HW", "NCHW", "OIHW"), 3: ("DHW", "NCDHW", "OIDHW")}


def _sized(fields: dict, count: int, **more) -> dict:
    """The fields of a class for one, two or three dimensions."""
    _, data, kernel = _DIMENSIONS[count]
    sized = {}
    for name, (kind, default) in {**fields, **more}.items():
        if isinstance(default, list):
            default = [default[0]] * count
        default = {"NCHW": data, "OIHW": kernel, "IOHW": "IO" + kernel[2:]}.get(
            default if isinstance(default, str) else "", default
        )
        sized[name] = (kind, default)
    return sized


_TRANSPOSED = {"output_padding": ("l", [0, 0]), "kernel_layout": ("i", "IOHW")}
CLASSES: dict[str, tuple[str, dict]] = {
    **{f"nn.conv{n}d": (f"Conv{n}DAttrs", _sized(_CONV, n)) for n in (1, 2, 3)},
    **{
        f"nn.conv{n}d_transpose": (f"Conv{n}DTransposeAttrs", _sized(_CONV, n, **_TRANSPOSED))
        for n in (1, 2, 3)
    },
    "nn.contrib_conv2d_NCHWc": ("Conv2DAttrs", _CONV),
    "nn.contrib_depthwise_conv2d_NCHWc": ("Conv2DAttrs", _CONV),
    "nn.deformable_conv2d": (
        "DeformableConv2DAttrs",
        {**_CONV, "deformable_groups": ("i", 1), "data_layout": ("i", "NCHW")},
    ),
    "qnn.conv2d": ("Conv2DAttrs", _CONV),
    "qnn.conv2d_transpose": ("Conv2DTransposeAttrs", _sized(_CONV, 2, **_TRANSPOSED)),
    **{f"nn.max_pool{n}d": (f"MaxPool{n}DAttrs", _sized(_POOL, n)) for n in (1, 2, 3)},
    **{
        f"nn.avg_pool{n}d": (
            f"AvgPool{n}DAttrs",
            _sized(_POOL, n, count_include_pad=("i", False)),
        )
        for n in (1, 2, 3)
    },
    **{
        f"nn.adaptive_{kind}_pool{n}d": (
            f"AdaptivePool{n}DAttrs",
            {
                "output_size": ("l", []),
                "layout": ("i", _DIMENSIONS[n][1]),
                "out_layout": ("s", ""),
            },
        )
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
    **{
        f"contrib.adaptive_{kind}_pool2d": (
            "AdaptivePool2DAttrs",
            {"output_size": ("l", []), "layout": ("i", "NCHW"), "out_layout": ("s", "")},
        )
        for kind in ("max", "avg")
    },
    **{
        f"nn.global_{kind}_pool{n}d": (
            "GlobalPool2DAttrs",
            {"layout": ("s", _DIMENSIONS[n][1]), "out_layout": ("s", "")},
        )
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
    **{
        f"image.resize{n}d": (f"Resize{n}DAttrs", _sized(_RESIZE, n, size=("l", None)))
        for n in (1, 2, 3)
    },
    "dyn.image.resize2d": ("Resize2DAttrs", _RESIZE),
    "image.resize": (
        "ResizeAttrs",
        {**_RESIZE, "bicubic_alpha": ("i", -0.5), "bicubic_exclude": ("i", 0)},
    ),
    **{
        name: ("ReduceAttrs", _REDUCE)
        for name in ("sum", "max", "min", "mean", "prod", "all", "any", "logsumexp")
    },
    "argmax": ("ArgReduceAttrs", {**_REDUCE, "select_last_index": ("i", False)}),
    "argmin": ("ArgReduceAttrs", {**_REDUCE, "select_last_index": ("i", False)}),
    "variance": ("VarianceAttrs", {**_REDUCE, "unbiased": ("i", False)}),
    **{
        name: ("InitOpAttrs", _INIT)
        for name in (
            "full",
            "ones",
            "zeros",
            "broadcast_to",
            "collapse_sum_to",
            "dyn.full",
            "dyn.ones",
            "dyn.zeros",
            "dyn.broadcast_to",
        )
    },
    "nn.batch_norm": ("BatchNormAttrs", _NORM),
    "nn.layer_norm": ("LayerNormAttrs", {**_NORM, "axis": ("i", -1)}),
    "nn.instance_norm": ("InstanceNormAttrs", _NORM),
    "nn.group_norm": ("GroupNormAttrs", {**_NORM, "num_groups": ("i", 0)}),
    "nn.l2_normalize": ("L2NormalizeAttrs", {"eps": ("i", 0.0), "axis": ("l", None)}),
    "nn.lrn": (
        "LRNAttrs",
        {
            "size": ("i", 5),
            "axis": ("i", 1),
            "bias": ("i", 2.0),
            "alpha": ("i", 1e-4),
            "beta": ("i", 0.75),
        },
    ),
    "nn.bias_add": ("BiasAddAttrs", {"axis": ("i", 1)}),
    "nn.prelu": ("PReluAttrs", {"axis": ("i", 1)}),
    "nn.leaky_relu": ("LeakyReluAttrs", {"alpha": ("i", 0.25)}),
    "qnn.leaky_relu": ("LeakyReluAttrs", {"alpha": ("i", 0.25)}),
    "nn.dropout": ("DropoutAttrs", {"rate": ("i", 0.5)}),
    **{
        name: ("SoftmaxAttrs", {"axis": ("i", -1)})
        for name in ("nn.softmax", "nn.log_softmax", "nn.fast_softmax")
    },
    "nn.dense": ("DenseAttrs", {"units": ("o", None), "out_dtype": ("d", "")}),
    "qnn.dense": ("DenseAttrs", {"units": ("o", None), "out_dtype": ("d", "")}),
    "nn.contrib_dense_pack": (
        "DensePackAttrs",
        {"units": ("o", None), "out_dtype": ("d", ""), "weight_layout": ("s", "NC")},
    ),
    "nn.matmul": (
        "MatmulAttrs",
        {
            "units": ("o", None),
            "out_dtype": ("d", ""),
            "transpose_a": ("i", False),
            "transpose_b": ("i", False),
            "auto_scheduler_rewritten_layout": ("s", ""),
        },
    ),
    **{
        name: (
            "BatchMatmulAttrs",
            {"out_dtype": ("d", ""), "transpose_a": ("i", False), "transpose_b": ("i", True)},
        )
        for name in ("nn.batch_matmul", "qnn.batch_matmul")
    },
    "nn.nll_loss": ("NLLLossAttrs", {"reduction": ("i", "mean"), "ignore_index": ("i", -100)}),
    "nn.pad": ("PadAttrs", {"pad_width": ("l", None), "pad_mode": ("s", "constant")}),
    "dyn.nn.pad": ("PadAttrs", {"pad_width": ("l", None), "pad_mode": ("s", "constant")}),
    "nn.mirror_pad": ("MirrorPadAttrs", {"mode": ("i", "SYMMETRIC"), "pad_width": ("l", None)}),
    **{
        f"nn.{name}": (
            "SubPixelAttrs",
            {"block_size": ("i", 1), "layout": ("i", "NCHW"), "mode": ("i", "DCR")},
        )
        for name in ("depth_to_space", "space_to_depth")
    },
    "nn.space_to_batch_nd": (
        "SpaceToBatchNDAttrs",
        {"block_shape": ("l", [1, 1]), "paddings": ("l", None), "pad_value": ("i", 0.0)},
    ),
    "nn.batch_to_space_nd": (
        "BatchToSpaceNDAttrs",
        {"block_shape": ("l", [1, 1]), "crops": ("l", None)},
    ),
    "nn.dilate": ("DilateAttrs", {"strides": ("l", [1, 1]), "dilation_value": ("i", 0.0)}),
    "nn.fifo_buffer": ("FIFOBufferAttrs", {"axis": ("i", 0)}),
    "nn.correlation": (
        "CorrelationAttrs",
        {
            "kernel_size": ("i", 1),
            "max_displacement": ("i", 1),
            "stride1": ("i", 1),
            "stride2": ("i", 1),
            "padding": ("l", [0, 0]),
            "is_multiply": ("i", True),
            "layout": ("s", "NCHW"),
        },
    ),
    **{
        f"{dyn}nn.upsampling": (
            "UpSamplingAttrs",
            {
                "scale_h": ("i", 1.0),
                "scale_w": ("i", 1.0),
                "layout": ("i", "NCHW"),
                "method": ("i", "nearest_neighbor"),
                "align_corners": ("i", False),
            },
        )
        for dyn in ("", "dyn.")
    },
    **{
        f"{dyn}nn.upsampling3d": (
            "UpSampling3DAttrs",
            {
                "scale_d": ("i", 1.0),
                "scale_h": ("i", 1.0),
                "scale_w": ("i", 1.0),
                "layout": ("i", "NCDHW"),
                "method": ("i", "nearest_neighbor"),
                "coordinate_transformation_mode": ("i", "half_pixel"),
            },
        )
        for dyn in ("", "dyn.")
    },
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
    "image.crop_and_resize": (
        "CropAndResizeAttrs",
        {
            "crop_size": ("l", None),
            "layout": ("i", "NCHW"),
            "method": ("i", "bilinear"),
            "extrapolation_value": ("i", 0.0),
            "out_dtype": ("d", ""),
        },
    ),
    "image.dilation2d": (
        "Dilation2DAttrs",
        {
            "strides": ("l", [1, 1]),
            "padding": ("l", [0, 0]),
            "dilations": ("l", [1, 1]),
            "data_layout": ("i", "NCHW"),
            "kernel_layout": ("i", "IHW"),
            "out_dtype": ("d", ""),
        },
    ),
    "image.affine_grid": ("AffineGridAttrs", {"target_shape": ("l", None)}),
    "image.grid_sample": (
        "GridSampleAttrs",
        {
            "method": ("s", "bilinear"),
            "layout": ("s", "NCHW"),
            "padding_mode": ("s", "zeros"),
            "align_corners": ("i", True),
        },
    ),
    "vision.multibox_prior": (
        "MultiBoxPriorAttrs",
        {
            "sizes": ("l", [1.0]),
            "ratios": ("l", [1.0]),
            "steps": ("l", [-1.0, -1.0]),
            "offsets": ("l", [0.5, 0.5]),
            "clip": ("i", False),
        },
    ),
    "vision.get_valid_counts": (
        "GetValidCountsAttrs",
        {"score_threshold": ("o", None), "id_index": ("i", 0), "score_index": ("i", 1)},
    ),
    "vision.non_max_suppression": (
        "NonMaximumSuppressionAttrs",
        {
            "force_suppress": ("i", False),
            "top_k": ("i", -1),
            "coord_start": ("i", 2),
            "score_index": ("i", 1),
            "id_index": ("i", 0),
            "return_indices": ("i", True),
            "invalid_to_bottom": ("i", False),
        },
    ),
    "vision.roi_align": (
        "ROIAlignAttrs",
        {
            "pooled_size": ("l", None),
            "spatial_scale": ("i", 1.0),
            "sample_ratio": ("i", -1),
            "layout": ("i", "NCHW"),
            "mode": ("i", "avg"),
        },
    ),
    "vision.roi_pool": (
        "ROIPoolAttrs",
        {"pooled_size": ("l", None), "spatial_scale": ("i", 1.0), "layout": ("i", "NCHW")},
    ),
    "qnn.requantize": (
        "RequantizeAttrs",
        {
            "axis": ("i", -1),
            "rounding": ("i", "None"),
            "compute_dtype": ("i", "None"),
            "out_dtype": ("d", ""),
        },
    ),
    "qnn.quantize": ("QuantizeAttrs", {"out_dtype": ("d", ""), "axis": ("i", -1)}),
    "qnn.dequantize": ("DequantizeAttrs", {"out_dtype": ("d", "float32"), "axis": ("i", -1)}),
    **{
        f"qnn.{name}": ("BroadcastAttrs", {"lhs_axis": ("i", -1), "rhs_axis": ("i", -1)})
        for name in ("add", "subtract", "mul")
    },
}


class Writer:
    """Builds the list of nodes."""

    def __init__(self) -> None:
        self.nodes: list[dict] = [{"type_key": ""}]
        self.tensors: list[str] = []
        self.memo: dict[ast.Expr, int] = {}

    def node(self, kind: str, attrs: dict | None = None, **more) -> int:
        node: dict = {"type_key": kind, **more}
        if attrs is not None:
            node["attrs"] = {key: _written(value) for key, value in attrs.items()}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def string(self, value: str) -> int:
        return self.node("runtime.String", repr_str=value)

    def array(self, items: list[int]) -> int:
        return self.node("Array", data=items)

    def value(self, value) -> int:
        """An object of its own."""
        if value is None:
            return 0
        if isinstance(value, list):
            return self.array([self.value(item) for item in value])
        if isinstance(value, str):
            return self.string(value)
        kind = "FloatImm" if isinstance(value, float) else "IntImm"
        dtype = "bool" if isinstance(value, bool) else "float32" if kind == "FloatImm" else "int32"
        return self.node(kind, {"dtype": dtype, "span": "0", "value": value})

    def type(self, kind: ast.Type | None) -> int:
        if isinstance(kind, ast.TensorType):
            shape = [self.node("relay.Any") if n is None else self.value(n) for n in kind.shape]
            attrs = {"dtype": kind.dtype, "shape": self.array(shape), "span": 0}
            return self.node("relay.TensorType", attrs)
        if isinstance(kind, ast.TupleType):
            fields = self.array([self.type(field) for field in kind.fields])
            return self.node("TupleType", {"fields": fields, "span": 0})
        return 0

    def attributes(self, call: ast.Call, name: str) -> int:
        found = CLASSES.get(name)
        if found is None:
            return 0
        kind, fields = found
        attrs = {}
        for field, (how, default) in fields.items():
            value = call.attrs.get(field, default)
            value = default if value is None and how in "id" else value
            attrs[field] = value if how in "id" else self.value(value)
        return self.node(f"relay.attrs.{kind}", attrs)

    def expression(self, node: ast.Expr) -> int:
        if node not in self.memo:
            self.memo[node] = self.written(node)
        return self.memo[node]

    def written(self, node: ast.Expr) -> int:
        if isinstance(node, ast.Var):
            identity = self.node("relay.Id", {"name_hint": self.string(node.name)})
            return self.node(
                "relay.Var", {"vid": identity, "type_annotation": self.type(node.type)}
            )
        if isinstance(node, ast.Constant):
            array = np.asarray(node.value)
            self.tensors.append(base64.b64encode(packed(array)).decode())
            return self.node("relay.Constant", {"data": len(self.tensors) - 1})
        if isinstance(node, ast.Operator):
            return self.node("Op", repr_str=node.name)
        if isinstance(node, ast.Tuple):
            fields = self.array([self.expression(field) for field in node.fields])
            return self.node("relay.Tuple", {"fields": fields})
        if isinstance(node, ast.Field):
            attrs = {"tuple_value": self.expression(node.value), "index": node.index}
            return self.node("relay.TupleGetItem", attrs)
        assert isinstance(node, ast.Call) and isinstance(node.callee, ast.Operator), node
        args = self.array([self.expression(arg) for arg in node.args])
        attrs = self.attributes(node, node.callee.name)
        return self.node(
            "relay.Call", {"op": self.expression(node.callee), "args": args, "attrs": attrs}
        )


def _written(value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def saved_json(text: str) -> str:
    """The module of a text, as ``tvm.ir.save_json`` wrote it."""
    writer = Writer()
    main = read_text(text).functions["main"]
    assert isinstance(main, ast.Function)
    params = writer.array([writer.expression(param) for param in main.params])
    body = writer.expression(main.body)
    attrs = {"params": params, "body": body, "ret_type": writer.type(main.result_type), "attrs": 0}
    function = writer.node("relay.Function", attrs)
    name = writer.node("GlobalVar", {"name_hint": writer.string("main")})
    functions = writer.node("Map", data=[name, function])
    root = writer.node("IRModule", {"functions": functions})
    return json.dumps({"root": root, "nodes": writer.nodes, "b64ndarrays": writer.tensors})
