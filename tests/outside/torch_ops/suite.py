"""One sample of PyTorch's operator database: compiled, and compared with eager and float64.

In: an OpInfo, an element type, a sample. Out: a Verdict. Parts are compiled by TVM's LLVM target:
what is tested is what operators become, not what stitching makes of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from tvm_stitch.dynamo.backend import GraphCompiler
from tvm_stitch.dynamo.settings import LLVM, Settings
from tvm_stitch.dynamo.support import Libraries
from tvm_stitch.frontend.torch.decompositions import WRITTEN_OUT, decompositions
from tvm_stitch.frontend.torch.layout import is_dense
from tvm_stitch.frontend.torch.ops import LEFT, OPERATORS

DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip
# Of the largest element: what a different order of the same operations may change.
TOLERANCE = {torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
EAGER_FACTOR = 2.0  # times eager's own distance from float64
# What would be a library's to compute on a GPU is converted as it would be there. Not in halves:
# TVM's own convolutions sum them up in halves.
LIBRARIES = Libraries(frozenset({torch.float32}), frozenset({torch.float32}))
# What the database's own wrappers of random operators set, though not in a graph.
SEED = 42
# Samples beyond take minutes on the CPU and show nothing that smaller ones do not.
MOST_ELEMENTS = 1 << 14

# What is in graphs under another name than in the database, or in nothing but compositions:
# a matmul is a bmm, a conversion a _to_copy, an indexing an index.Tensor. Beside these, all of
# nn.functional is: its conv2d is a convolution, its layer_norm a native_layer_norm.
COMPOSED = frozenset({
    "__getitem__", "__rmatmul__", "__rsub__", "addmv", "addr", "alias_copy", "all", "aminmax",
    "bfloat16", "bool", "cdist", "chunk", "contiguous", "diff", "dot", "einsum", "fft.irfft",
    "flatten", "floor_divide", "half", "index_add", "index_copy", "index_fill", "index_reduce",
    "isfinite", "linalg.vector_norm", "logaddexp", "logcumsumexp", "logsumexp", "long",
    "masked_fill", "matmul", "meshgrid", "movedim", "multinomial", "mv", "nan_to_num", "narrow",
    "norm", "normal", "ones_like", "outer", "rand_like", "randn_like", "repeat_interleave", "roll",
    "rsub", "square", "std", "std_mean", "take", "take_along_dim", "tensordot", "tile", "to",
    "tril", "triu", "true_divide", "unbind", "unfold", "xlogy", "zeros_like",
})  # fmt: skip

OURS, PARTLY, LEFT_WHOLE, WRONG, FAILED, SKIPPED = (
    "ours", "partly", "left", "wrong", "failed", "skipped",
)  # fmt: skip
BAD = (WRONG, FAILED)
TABLE = frozenset({*OPERATORS, *LEFT})
"""The operators that graphs are made of, as they are named there."""


@dataclass(frozen=True)
class Verdict:
    """What became of a sample."""

    operator: str
    dtype: str
    sample: int
    direction: str  # "forward" or "backward"
    kind: str
    why: str = ""  # of what is wrong or failed; the operators left to PyTorch, with the reason
    graph: frozenset[str] = frozenset()  # the operators it was compiled of


def operators() -> list[Any]:
    """The OpInfos of the operators in our table, and of what PyTorch writes out in them.

    Left out is what has arbitrary results.
    """
    written_out = {packet._qualified_op_name.split("::")[-1] for packet in WRITTEN_OUT}
    known = {name.split(".")[0].strip("_") for name in TABLE} | written_out | COMPOSED

    def is_known(op: Any) -> bool:
        names = {op.name, op.name.split(".")[-1], op.aten_name}
        return bool(names & known) or op.name.startswith("nn.functional.")

    return [op for op in op_db if is_known(op) and "empty" not in op.name]


def name_of(op: Any) -> str:
    """An OpInfo's name, with its variant's."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def verdicts(op: Any, dtype: torch.dtype, samples: int) -> Iterator[Verdict]:
    """The verdicts on the first samples of an operator."""
    if dtype not in op.supported_dtypes("cpu"):
        return
    torch.manual_seed(0)
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    directions = ["forward", *(["backward"] if differentiable else [])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # All at once: judging one draws random numbers, that the next would be made of.
        for number, sample in enumerate(list(islice(op.sample_inputs("cpu", dtype), samples))):
            case = _Case(op, (sample.input, *sample.args), sample.kwargs)
            for direction in directions:
                kind, why, graph = case.judged(direction == "backward")
                yield Verdict(name_of(op), str(dtype)[6:], number, direction, kind, why, graph)


class _Case:
    """A call of an operator as a function of its tensors alone."""

    def __init__(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, spec = tree_flatten((args, kwargs))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[n].detach() for n in places]

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            args, kwargs = tree_unflatten(filled, spec)
            return [t for t in tree_flatten(op(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]

        self.function = function

    def judged(self, backward: bool) -> tuple[str, str, frozenset[str]]:
        """The kind of the verdict, its reason, and the operators that it was compiled of."""
        compiler = GraphCompiler(Settings(device=LLVM, smallest_part=1))
        kind, why = self._judged(_gradients if backward else _results, compiler)
        report = compiler.log.report()
        ours = {name for part in report.parts for name in part.operators}
        return kind, why, frozenset(ours | {each.operator for each in report.left})

    def _judged(self, run: Callable[..., Any], compiler: GraphCompiler) -> tuple[str, str]:
        if sum(t.numel() for t in self.tensors) > MOST_ELEMENTS:
            return SKIPPED, "large"
        try:
            torch.manual_seed(SEED)
            expected = run(self.function, self.tensors)
            if [t for t in (*self.tensors, *expected) if t is not None and not _comparable(t)]:
                return SKIPPED, "complex, quantised or sparse tensors"
        except Exception as error:
            return SKIPPED, f"eager: {type(error).__name__}"
        try:
            torch.manual_seed(SEED)
            exact = run(self.function, tree_map(_doubled, self.tensors))
        except Exception:
            exact = expected  # some operators take no float64
        try:
            with warnings.catch_warnings(), patch.object(Libraries, "of", return_value=LIBRARIES):
                warnings.simplefilter("ignore")
                found = _again(run, _compiled(compiler, self.function), self.tensors)
        except Exception as error:
            if self._traced(run, core_aten_decompositions()) is None:
                return SKIPPED, f"AOTAutograd: {type(error).__name__}"
            return FAILED, f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
        wrong = _first_wrong(found, expected, exact)
        if wrong:
            # Graphs promise other strides than eager mode has, where gradients were laid out anew.
            traced = self._traced(run, decompositions())
            if traced is None or _first_wrong(found, traced, exact):
                return WRONG, wrong
        return _share(compiler)

    def _traced(
        self, run: Callable[..., Any], table: dict[Any, Callable[..., Any]]
    ) -> list[Any] | None:
        """The results of PyTorch's own graphs of the function; None if it makes none."""
        try:
            traced = aot_function(self.function, fw_compiler=_promised, decompositions=table)
            return _again(run, traced, self.tensors)
        except Exception:
            return None


def _promised(graph: fx.GraphModule, _inputs: Any) -> Callable[..., list[Any]]:
    """A graph run by PyTorch's operators, its results laid as its FakeTensors are."""
    (output,) = graph.graph.find_nodes(op="output")

    def run(*given: Any) -> list[Any]:
        results = zip(graph(*given), output.args[0], strict=True)
        return [_laid_as(result, node.meta["val"]) if node else None for result, node in results]

    return run


def _laid_as(result: Any, promise: Any) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    return torch.empty_strided(promise.shape, promise.stride(), dtype=result.dtype).copy_(result)


def _again(run: Callable[..., Any], function: Callable[..., Any], tensors: Any) -> list[Any]:
    """The results of a second call: the first one's tracing may draw random numbers."""
    run(function, tensors)
    torch.manual_seed(SEED)
    return run(function, tensors)


def _compiled(compiler: GraphCompiler, function: Callable[..., Any]) -> Callable[..., Any]:
    compile_ = partial(compiler.compile_graph, torch.device("cpu"), None)
    return aot_function(
        function,
        fw_compiler=partial(compile_, "forward"),
        bw_compiler=partial(compile_, "backward"),
        inference_compiler=partial(compile_, "inference"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions(),
    )


def _results(function: Callable[..., Any], tensors: list[torch.Tensor]) -> list[Any]:
    with torch.no_grad():
        return list(function(*(t.clone() for t in tensors)))


def _gradients(function: Callable[..., Any], tensors: list[torch.Tensor]) -> list[Any]:
    inputs = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
    results = [t for t in function(*inputs) if t.requires_grad]
    sources = [t for t in inputs if t.requires_grad]
    torch.manual_seed(2)
    weights = [torch.randn(t.shape, dtype=torch.float64).to(t.dtype) for t in results]
    return list(torch.autograd.grad(results, sources, weights, allow_unused=True))


def _strides(tensor: torch.Tensor) -> list[int]:
    """The strides that say something: those of dimensions with more than one element."""
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _comparable(tensor: torch.Tensor) -> bool:
    return not (tensor.is_complex() or tensor.is_quantized or tensor.layout is not torch.strided)


def _first_wrong(found: list[Any], expected: list[Any], exact: list[Any]) -> str:
    """What is wrong with the first result that is, or an empty string."""
    each = (_wrong(*results) for results in zip(found, expected, exact, strict=True))
    return next(filter(None, each), "")


def _wrong(got: Any, want: Any, truth: Any) -> str:
    """What is wrong with a result, or an empty string."""
    if got is None or want is None:
        return "" if got is want else f"{got} instead of {want}"
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {list(got.shape)} instead of {want.dtype} {list(want.shape)}"
    if want.numel() > 1 and is_dense(want) and _strides(got) != _strides(want):
        return f"strides {got.stride()} instead of {want.stride()}"
    if not want.is_floating_point():
        return "" if torch.equal(got, want) else f"{got.flatten()[:4]}, not {want.flatten()[:4]}"
    tolerance = TOLERANCE.get(got.dtype, TOLERANCE[torch.float32])
    got, want, truth = got.double(), want.double(), truth.double()
    same = (got == want) | (got.isnan() & want.isnan())
    distance, eager = (got - truth).abs(), (want - truth).abs()
    finite = truth[truth.isfinite()].abs()
    scale = max(1.0, float(finite.max()) if len(finite) else 1.0)
    worst = float(eager[eager.isfinite()].max()) if eager.isfinite().any() else 0.0
    limit = max(tolerance * scale, EAGER_FACTOR * worst)
    close = same | (distance <= limit)
    if bool(close.all()):
        return ""
    at = int((~close).flatten().nonzero()[0])
    return f"{float(got.flatten()[at])} instead of {float(want.flatten()[at])} at {at}"


def _share(compiler: GraphCompiler) -> tuple[str, str]:
    report = compiler.log.report()
    failures = [part.failure for part in report.parts if part.failure]
    if failures:
        return FAILED, failures[0]
    reasons = "; ".join(sorted({f"{each.operator}: {each.reason}" for each in report.left}))
    if not report.left:
        return OURS, ""
    return (PARTLY if report.parts else LEFT_WHOLE), reasons
