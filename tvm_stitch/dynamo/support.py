"""Which operators of a traced graph are ours, by operator, element type and shape.

In: nodes with FakeTensors. Out: None, or why the node stays PyTorch's. Must not know how parts are
made of nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.settings import CUDA, LLVM, Settings
from tvm_stitch.frontend.torch import operator_name, refusal
from tvm_stitch.frontend.torch.layout import channels_last, is_empty, is_laid
from tvm_stitch.frontend.torch.ops import ATTENTION, PRODUCTS
from tvm_stitch.frontend.torch.ops.images.products import becomes_product
from tvm_stitch.frontend.torch.ops.product import is_outer
from tvm_stitch.graph.front.attention import OLDEST, is_slower, refused_heads
from tvm_stitch.graph.front.convolution import becomes_direct
from tvm_stitch.kernel.attention.build import AttentionKernels
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.kernel.tensor_core.program import FEWEST_ROWS
from tvm_stitch.library.attention import NO_MASK, Attention, Place
from tvm_stitch.library.locate import CUBLASLT, CUDNN, is_off
from tvm_stitch.library.of_counts import BATCH, KEYS, OfCounts
from tvm_stitch.library.shim import begin, unusable
from tvm_stitch.stages.patterns.matmul_pattern import MAX_CONTRACTED, longest_row
from tvm_stitch.stages.stage import Refused

# Kernels compute in float32 and narrower; the rest flows along.
_ELEMENTS = frozenset({
    torch.float32, torch.float16, torch.bfloat16, torch.bool,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
})  # fmt: skip
_HALVES = frozenset({torch.float16, torch.bfloat16})
_MULTIPLIED = _HALVES | {torch.float32}


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a traced value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_of(each)


@dataclass(frozen=True)
class Libraries:
    """What parts may ask NVIDIA's libraries for, as PyTorch itself would have it computed."""

    products: frozenset[torch.dtype] = frozenset()
    convolutions: frozenset[torch.dtype] = frozenset()
    attention: frozenset[torch.dtype] = frozenset()
    trained: bool = False
    """Whether gradients are asked for: how images lie is settled before the graph is parted."""

    @staticmethod
    def of(settings: Settings) -> Libraries:
        """As this machine, the settings and PyTorch's flags allow."""
        if not _are_allowed(settings):
            return Libraries()
        is_said = _multiplies_exactly() or multiplies_by_tf32()
        is_told = convolves_by_tf32() or _says(torch._C._get_cudnn_allow_tf32, False)
        return Libraries(
            frozenset() if unusable(CUBLASLT) else _MULTIPLIED if is_said else _HALVES,
            frozenset() if unusable(CUDNN) else _MULTIPLIED if is_told else _HALVES,
            frozenset() if unusable(CUDNN) else _HALVES,
        )


def convolves_by_tf32() -> bool:
    """Whether PyTorch's flags let cuDNN round what it convolves in float32."""
    return _says(torch._C._get_cudnn_allow_tf32, True)


def multiplies_by_tf32() -> bool:
    """Whether PyTorch's flags let cuBLAS round what it multiplies in float32.

    Convolutions may become products: where only one of both may be rounded, products are PyTorch's.
    """
    precision = torch.get_float32_matmul_precision
    return any(_says(precision, each) for each in ("high", "medium")) and convolves_by_tf32()


def _multiplies_exactly() -> bool:
    return _says(torch.get_float32_matmul_precision, "highest")


def as_pytorch_asks(settings: Settings) -> Settings:
    """The settings with what PyTorch's flags ask of libraries: TF32, engines by the clock."""
    own = settings.stitching
    own = replace(
        own,
        tf32_convolutions=own.tf32_convolutions or convolves_by_tf32(),
        tf32_products=not own.tf32x3_products and (own.tf32_products or multiplies_by_tf32()),
        timed_convolutions=own.timed_convolutions or torch.backends.cudnn.benchmark,
    )
    return replace(settings, stitching=own)


def begin_libraries(settings: Settings) -> None:
    """Start what takes seconds before `Libraries.of` can answer, beside whatever comes first."""
    if _are_allowed(settings):
        begin()


def _are_allowed(settings: Settings) -> bool:
    return settings.device != LLVM and LIBRARY in settings.stitching.schemes and not is_off()


def _says(setting: Callable[[], Any], value: Any) -> bool:
    """Whether a setting of PyTorch's has a value, as far as it says so.

    It refuses to, where somebody has used the newer settings by backend.
    """
    try:
        return bool(setting() == value)
    except RuntimeError:
        return False


@dataclass(frozen=True)
class Support:
    """Tells which nodes of a graph are ours, on this device and others of its kind."""

    device: torch.device
    libraries: Libraries = Libraries()
    attention: AttentionKernels | None = None
    """Who makes this package's kernels for attention."""

    def accepts(self, node: fx.Node) -> bool:
        """Whether a node is ours."""
        return self.refused(node) is None

    def refused(self, node: fx.Node) -> Refused | None:
        """Why a node stays PyTorch's; None if it is ours."""
        if node.op != "call_function":
            return Refused("it is no operator")
        if node.target is operator.getitem:
            whole = node.args[0]
            assert isinstance(whole, fx.Node)
            return self.refused(whole)
        results = list(tensors_of(node.meta.get("val")))
        if not results:
            return Refused("its result is no tensor")
        operands = [t for each in node.all_input_nodes for t in tensors_of(each.meta.get("val"))]
        where = results[0].device if results[0].device.type == self.device.type else self.device
        for tensor in (*results, *operands):
            reason = _tensor_refused(tensor, where)
            if reason is not None:
                return reason
        if operator_name(node.target) == "searchsorted.Tensor":
            return Refused("PyTorch halves the range that it searches")
        return (
            _librarys_product(node, results[0], self.libraries)
            or _librarys_convolution(node, results[0], self.libraries)
            or _librarys_attention(node, results[0], self.libraries, self.attention)
            or refusal(node)
        )


def _tensor_refused(tensor: torch.Tensor, device: torch.device) -> Refused | None:
    if tensor.device != device:
        return Refused(f"a tensor lies on {tensor.device}, others on {device}")
    if tensor.layout is not torch.strided:
        return Refused("sparse tensors")
    if tensor.is_neg():
        return Refused("a negative view, whose memory has the other sign")
    if tensor.dtype not in _ELEMENTS:
        return Refused(f"{str(tensor.dtype).removeprefix('torch.')} tensors")
    holds_nothing = any(isinstance(extent, int) and extent == 0 for extent in tensor.shape)
    if holds_nothing and not is_empty(tensor):
        return Refused("tensors without elements, of sizes that change")
    return None


def _librarys_product(node: fx.Node, result: torch.Tensor, libraries: Libraries) -> Refused | None:
    """Products that a library's kernel is faster for than ours, or than TVM's where we have none.

    Where parts may call that library, the plan decides; of sizes that change, about rows by a
    matrix of fixed sizes, as weights are. On an H200, microseconds beside cuBLAS:
    float32 4096 x 768 x 3072 1017 and 437; halves by tensor cores 0.8 to 1.4 times cuBLAS's,
    epilogues included; without, which they are for few rows and for sizes that change,
    8 x 4096 x 11008 349 and 31, 1 x 4096 x 11008 39 and 31.
    """
    if operator_name(node.target) not in PRODUCTS or not result.dtype.is_floating_point:
        return None
    left, right = (each.meta["val"].shape for each in node.args[-2:])  # type: ignore[union-attr]
    rows, summed, columns = left[-2], left[-1], right[-1]
    if is_outer(summed):
        return None
    if _at_most(summed, MAX_CONTRACTED) and _at_most(columns, longest_row(int(summed))):
        return None
    is_fixed = all(isinstance(extent, int) for extent in (*left, *right))
    is_by_weights = len(right) == 2 and all(isinstance(extent, int) for extent in right)
    if (is_fixed or is_by_weights) and result.dtype in libraries.products:
        return None
    if result.dtype is torch.float32:
        return Refused("a product of float32 of this size is a library's")
    if not is_fixed:
        return Refused("a product of halves of sizes that change is a library's")
    if rows < FEWEST_ROWS:
        return Refused(f"a product of halves of fewer than {FEWEST_ROWS} rows is a library's")
    return None


def _librarys_convolution(
    node: fx.Node, result: torch.Tensor, libraries: Libraries
) -> Refused | None:
    """Convolutions, and their gradients, are a library's: ours where parts may call it.

    Those of images in groups, and in training those that do not lie with channels last, cuDNN
    takes from PyTorch as well as from a part.
    """
    name = operator_name(node.target)
    if name not in ("convolution", "convolution_backward"):
        return None
    if name == "convolution" and (_is_direct(node) or _is_product(node, result, libraries)):
        return None
    if result.dtype not in libraries.convolutions:
        return Refused("a library's kernel is faster")
    if libraries.trained and not _lies_channels_last(node.args[name == "convolution_backward"]):
        return Refused("a convolution in training whose images lie with channels first")
    return None


def _librarys_attention(
    node: fx.Node, result: torch.Tensor, libraries: Libraries, own: AttentionKernels | None
) -> Refused | None:
    """Attention is a library's: ours where parts may call it, and it takes such heads.

    Of few queries by keys that are counted at run time only, and of batches of any size, it is a
    kernel's of this package.
    """
    if operator_name(node.target) not in ATTENTION:
        return None
    shapes = [each.meta["val"].shape for each in node.args[:3]]  # type: ignore[union-attr]
    if not all(isinstance(extent, int) for shape in shapes for extent in shape):
        counted = None if libraries.trained else _of_counts(*shapes)
        if counted is None or own is None or result.dtype not in _HALVES:
            return Refused("attention of sizes that change is a library's")
        us = own.us(counted)
        if isinstance(us, Refused):
            return us
        # Of many queries PyTorch's kernels take as long as cuDNN's, or longer.
        is_long = isinstance(counted.keys, int)
        is_slow = is_slower(us, counted.expected, own.device, library=is_long)
        return Refused("PyTorch's kernel is faster") if is_slow else None
    if result.dtype not in libraries.attention or libraries.trained or _is_old(result.device):
        return Refused("a library's kernel is faster")
    return refused_heads(*(shape[-1] for shape in shapes[1:]))


def _of_counts(query: torch.Size, key: torch.Size, value: torch.Size) -> Attention | None:
    """Attention of which the number of keys, or of entries, alone is known at run time only; None:
    it is other."""
    if any(len(shape) != 4 for shape in (query, key, value)):
        return None
    known = *query[1:], key[1], key[-1], value[1], value[-1]
    if not all(isinstance(extent, int) for extent in known):
        return None
    if str(key[-2]) != str(value[-2]) or len({str(shape[0]) for shape in (query, key, value)}) > 1:
        return None
    (batch, heads, queries, depth), (_, shared, keys, _), value_depth = query, key, value[-1]
    batch, keys = (
        each if isinstance(each, int) else count for each, count in ((batch, BATCH), (keys, KEYS))
    )
    return Attention(
        NO_MASK, 1.0, batch, heads, shared, queries, keys, depth, value_depth,
        _dense(heads, queries, depth), _dense(shared, keys, depth),
        _dense(shared, keys, value_depth), _dense(heads, queries, value_depth),
    )  # fmt: skip


def _dense(heads: int, rows: int | OfCounts, depth: int) -> Place:
    return Place(0, heads * rows * depth, rows * depth, depth)


def _is_old(device: torch.device) -> bool:
    """Whether a GPU is older than those that cuDNN has kernels for attention for."""
    return device.type == CUDA and torch.cuda.get_device_capability(device) < divmod(OLDEST, 10)


def is_product(node: fx.Node) -> bool:
    """Whether a node is a convolution that is written as a product of matrices."""
    if operator_name(node.target) != "convolution":
        return False
    images, weight = (node.args[place].meta["val"] for place in (0, 1))
    stride, padding, dilation, transposed, _, groups = node.args[3:]
    return becomes_product(images, weight, stride, padding, dilation, transposed, groups)


def _is_product(node: fx.Node, result: torch.Tensor, libraries: Libraries) -> bool:
    """Whether a convolution is one, and that product ours."""
    return (result.dtype in _HALVES or result.dtype in libraries.products) and is_product(node)


def _is_direct(node: fx.Node) -> bool:
    """Whether a convolution becomes stages, which need no library."""
    images, weight = (node.args[place].meta["val"] for place in (0, 1))
    transposed, groups = node.args[6], node.args[8]
    filters, depth, *window = weight.shape
    is_written_out = becomes_direct(groups, images.shape[1], filters, depth, window)
    return is_written_out and not transposed


def _lies_channels_last(images: Any) -> bool:
    tensor = images.meta["val"]
    return tensor.dim() > 3 and is_laid(tensor, channels_last(tensor.dim()))


def _at_most(extent: int | torch.SymInt, limit: int) -> bool:
    return isinstance(extent, int) and extent <= limit
