"""Relay's operators that are not read, each with the reason that its error gives."""

from __future__ import annotations

_DATA_SHAPE = "its result's shape depends on the data, which Relax's compiled models do not have"
_RANDOM = "Relay's counter-based random generator has no counterpart in today's TVM"
_PASS = "it is made by Relay's own passes for one target; save the module before optimising it"
_MEMORY = "it manages memory in modules that Relay had already lowered; save the module before"
_GRADIENT = "it belongs to training graphs, which Relax derives anew from the forward graph"
_SPARSE = "today's TVM computes no sparse products"
_BITS = "today's TVM has no Relax operator on packed bits"
_VENDOR = "it belongs to an accelerator's own flow, which needs that vendor's compiler"
_SSD = "its post-processing exists in today's TVM with other inputs and outputs only"
_TRAINING_QUANTISATION = "it simulates quantisation during calibration; save the finished model"

REFUSED: dict[str, str] = {
    "annotation.bitpack_end": _VENDOR,
    "annotation.bitpack_start": _VENDOR,
    "argwhere": _DATA_SHAPE,
    "call_lowered": _MEMORY,
    "contrib.ethosu.binary_elementwise": _VENDOR,
    "contrib.ethosu.conv2d": _VENDOR,
    "contrib.ethosu.depthwise_conv2d": _VENDOR,
    "contrib.ethosu.identity": _VENDOR,
    "contrib.ethosu.pooling": _VENDOR,
    "contrib.ethosu.unary_elementwise": _VENDOR,
    "contrib.gemmini.add": _VENDOR,
    "contrib.gemmini.conv2d": _VENDOR,
    "contrib.gemmini.depthwiseconv2d": _VENDOR,
    "contrib.gemmini.gemm": _VENDOR,
    "debug": "it called a Python function of the saving process",
    "image.col2im": "no importer emits it, and today's TVM has no operator for it",
    "memory.alloc_storage": _MEMORY,
    "memory.alloc_tensor": _MEMORY,
    "memory.flatten_tuple_type": _MEMORY,
    "memory.from_tuple_type": _MEMORY,
    "memory.kill": _MEMORY,
    "nn.avg_pool2d_grad": _GRADIENT,
    "nn.batch_flatten_grad": _GRADIENT,
    "nn.bitpack": _BITS,
    "nn.bitserial_conv2d": _BITS,
    "nn.bitserial_dense": _BITS,
    "nn.contrib_conv2d_gemm_weight_transform": _PASS,
    "nn.contrib_conv2d_gemm_without_weight_transform": _PASS,
    "nn.contrib_conv2d_winograd_nnpack_weight_transform": _PASS,
    "nn.contrib_conv2d_winograd_weight_transform": _PASS,
    "nn.contrib_conv2d_winograd_without_weight_transform": _PASS,
    "nn.contrib_conv3d_winograd_weight_transform": _PASS,
    "nn.contrib_conv3d_winograd_without_weight_transform": _PASS,
    "nn.conv2d_backward_weight": _GRADIENT,
    "nn.cross_entropy_grad": _GRADIENT,
    "nn.max_pool2d_grad": _GRADIENT,
    "nn.sparse_add": _SPARSE,
    "nn.sparse_conv2d": _SPARSE,
    "nn.sparse_dense": _SPARSE,
    "nn.sparse_transpose": _SPARSE,
    "nn.internal.sparse_dense_padded": _SPARSE,
    "qnn.avg_pool2d": "importers emit it for CMSIS-NN only; use dequantize and nn.avg_pool2d",
    "qnn.csi.conv2d": _VENDOR,
    "qnn.hardswish": "its table form was never made by an importer",
    "qnn.simulated_dequantize": _TRAINING_QUANTISATION,
    "qnn.simulated_quantize": _TRAINING_QUANTISATION,
    "qnn.softmax": "its integer approximation is not reproduced; use dequantize and nn.softmax",
    "random.multinomial": _RANDOM,
    "random.normal": _RANDOM,
    "random.threefry_generate": _RANDOM,
    "random.threefry_split": _RANDOM,
    "random.uniform": _RANDOM,
    "relay.op.annotation.simulated_quantize": _TRAINING_QUANTISATION,
    "segment_sum": "no importer emits it as an operator; it is scatter_add",
    "sparse_fill_empty_rows": _DATA_SHAPE,
    "sparse_reshape": _SPARSE,
    "unique": _DATA_SHAPE,
    "vision.all_class_non_max_suppression": _DATA_SHAPE,
    "vision.multibox_transform_loc": _SSD,
    "vision.proposal": "no current importer emits it, and today's TVM has no operator for it",
    "vision.yolo_reorg": "it was for darknet's importer only, and today's TVM has no such operator",
    "vm.invoke_tvm_op": _MEMORY,
    "vm.reshape_tensor": _MEMORY,
    "vm.shape_func": _MEMORY,
    "vm.shape_of": _MEMORY,
}
