"""Attribute classes of networks, reductions, images and quantised operators (attributes.py)."""

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
