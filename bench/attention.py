"""Kernels for attention beside PyTorch's: `python -m bench.attention`.

In: sizes. Out: a table of GPU times behind a flush of the L2, of this package's kernel as it is
chosen, with what the cost model expects of it, of cuDNN and FlashAttention as PyTorch calls them,
and of a read at the bandwidth of a copy; results are compared with float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

from tvm_stitch.library.attention import NO_MASK, TOP_LEFT, Attention, Bias, Place
from tvm_stitch.stages.stage import Refused

CASES = (
    # Decoding: one query of heads of which several share keys, or none.
    "1,32,8,1,512,128", "1,32,8,1,4096,128", "1,32,8,1,32768,128", "1,32,32,1,2048,128",
    "8,32,8,1,512,128", "8,32,8,1,2048,128", "64,32,8,1,512,128", "1,64,8,1,8192,128",
    "4,16,2,1,4096,128", "1,12,12,1,512,64", "8,12,12,1,512,64", "128,16,16,1,128,64",
    "1,32,8,4,2048,128",
    # Short sequences and windows; with a bias of each key ("b") or score ("s"), causal ("c").
    "16,12,12,128,128,64", "16,12,12,128,128,64,b", "8,12,12,197,197,64", "64,8,8,64,64,64",
    "8,16,16,77,77,64,c", "512,3,3,49,49,32,s", "128,6,6,49,49,32,s", "8,12,12,512,512,64",
)  # fmt: skip
CLOSE = 2e-2  # of bfloat16


def attention_of(text: str) -> Attention:
    """Batch, heads of queries and of keys, queries, keys and depth, perhaps a letter: all dense."""
    numbers = text.split(",")
    kind = numbers.pop() if text[-1].isalpha() else ""
    batch, heads, key_heads, queries, keys, depth = map(int, numbers)
    rows = Place(0, heads * queries * depth, queries * depth, depth)
    columns = Place(0, key_heads * keys * depth, keys * depth, depth)
    biases = {"b": Bias(0, keys, 0, 0, 1), "s": Bias(0, 0, queries * keys, keys, 1)}
    mask = TOP_LEFT if kind == "c" else NO_MASK
    sizes = batch, heads, key_heads, queries, keys, depth, depth
    places = rows, columns, columns, rows
    return Attention(mask, 1 / sqrt(depth), *sizes, *places, biases.get(kind))


def shapes_of(a: Attention) -> tuple[tuple[int, ...], ...]:
    """Of query, keys and values, and perhaps of a bias."""
    columns = a.batch, a.key_heads, a.keys, a.depth
    found = [(a.batch, a.heads, a.queries, a.depth), columns, columns]
    if a.bias is not None:
        of_scores = 1, a.heads, a.queries, a.keys
        found.append(of_scores if a.bias.query else (a.batch, 1, 1, a.keys))
    return tuple(found)


def kernel_of(attention: Attention, target: Any, dtype: str = "bfloat16") -> Any:
    """The scheduled function, of query, keys, values, perhaps a bias, and the result."""
    from tvm_stitch.device import device_of
    from tvm_stitch.kernel.attention.build import AttentionKernels

    given = shapes_of(attention)
    tensors = [(shape, dtype) for shape in (*given, given[0])]
    return AttentionKernels(device_of(target)).kernel(attention, tensors)


def measure(attention: Attention) -> dict[str, float]:
    """The row of a case."""
    import torch
    import tvm

    from bench.measure import Meter
    from tvm_stitch.device import device_of
    from tvm_stitch.kernel.attention.build import AttentionKernels
    from tvm_stitch.target import full_target

    target = full_target("cuda")
    device = device_of(target)
    torch.manual_seed(0)
    given = [
        torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes_of(attention)
    ]
    result = torch.zeros_like(given[0])
    function = kernel_of(attention, target).with_attr("global_symbol", "attention")
    built = tvm.compile(tvm.IRModule({"attention": function}), target=target)["attention"]
    tensors = [tvm.runtime.from_dlpack(each) for each in (*given, result)]
    calls: dict[str, Callable[[], object]] = {"ours": partial(built, *tensors)}
    calls |= _of_torch(attention, given)
    for call in calls.values():
        call()
    exact = _attend(attention, [each.double() for each in given])
    error = (result.double() - exact).abs().max().item()
    if not error <= CLOSE:
        raise ValueError(f"{attention}: an error of {error}")
    times = Meter().gpu_times(calls)
    expected = AttentionKernels(device).us(attention)
    assert not isinstance(expected, Refused), expected.reason
    read = {"bytes": attention.bytes / device.bandwidth * 1e6, "predicted": expected}
    return {**read, **{name: time.us for name, time in times.items()}}


def _attend(attention: Attention, given: Sequence[Any]) -> Any:
    import torch

    query, key, value, *bias = given
    mask = bias[0] if bias else None
    shares, causal = attention.heads != attention.key_heads, attention.mask != NO_MASK
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, enable_gqa=shares
    )


def _of_torch(attention: Attention, given: Sequence[Any]) -> dict[str, Callable[[], object]]:
    """PyTorch's calls that take the case."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend: Any) -> object:
        with sdpa_kernel(backend):
            return _attend(attention, given)

    ways = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention": SDPBackend.FLASH_ATTENTION}
    found: dict[str, Callable[[], object]] = {}
    for name, backend in ways.items():
        try:
            by(backend)
        except RuntimeError:  # it takes no bias, or no heads so deep
            continue
        found[name] = partial(by, backend)
    return found


def table(rows: dict[str, dict[str, float]]) -> str:
    """The rows as Markdown."""
    columns = ("bytes", "predicted", "ours", "cuDNN", "FlashAttention")
    lines = [f"| case | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for case, row in rows.items():
        cells = [f"{row[name]:.1f}" if name in row else "–" for name in columns]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure the cases that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES, help="as 1,32,8,1,512,128 or …,c")
    rows = {text: measure(attention_of(text)) for text in parser.parse_args().cases}
    print(table(rows))


if __name__ == "__main__":
    main()
