"""PTX instructions of tensor cores in, C++ out: matrices of halves, by a warp or by four."""

from __future__ import annotations

import re

from tvm_stitch.simt.instruction import Instruction

_LOAD = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?(?:\.shared(?:_cta)?)?\.b16")
_MULTIPLY = re.compile(r"mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.f32\.(f16|bf16)\.\2\.f32")
_MULTIPLY_WARPGROUP = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(f16|bf16)\.\2"
)


def of_a_warp(i: Instruction) -> str | None:
    """What all lanes of a warp do with matrices of halves that lie in their registers."""
    if load := _LOAD.fullmatch(i.opcode):
        count, transposed = load.groups()
        to, row = i.operands
        return (
            f"{{ uint32_t simt_w[{count}]; simt_load_matrices(simt_w, {i.address(row)}, {count}, "
            f"{int(bool(transposed))}); simt_spread(simt_w, {to.strip('{}')}); }}"
        )
    if product := _MULTIPLY.fullmatch(i.opcode):
        depth, kind = product.groups()
        to, a, b, sums = i.operands
        return (
            f"{{ const uint32_t simt_a[] = {a}, simt_b[] = {b}; float simt_d[] = {sums}; "
            f"simt_mma<{depth}>(simt_d, simt_a, simt_b, {int(kind == 'bf16')}); "
            f"simt_spread(simt_d, {to.strip('{}')}); }}"
        )
    return None


def of_a_warpgroup(i: Instruction) -> str | None:
    """What the warps of a warpgroup do with matrices of halves that lie in shared memory."""
    if i.name != "wgmma":
        return None
    if i.opcode == "wgmma.fence.sync.aligned":
        return ";"
    if i.opcode == "wgmma.commit_group.sync.aligned":
        return "simt_warpgroup_commit();"
    if i.opcode == "wgmma.wait_group.sync.aligned":
        return f"simt_warpgroup_wait({i.operands[0]});"
    product = _MULTIPLY_WARPGROUP.fullmatch(i.opcode)
    if product is None or i.operands[0].count(",") + 1 != int(product[1]) // 2:
        return None
    sums, a, b, keep, *signs, turn_a, turn_b = i.operands
    if signs != ["1", "1"]:
        return None
    places = ", ".join(f"&{place}" for place in sums.strip("{}").split(","))
    how = (
        f"({keep} ? SIMT_KEEP_SUMS : 0) | {turn_a} * SIMT_TURN_A | {turn_b} * SIMT_TURN_B"
        f" | {int(product[2] == 'bf16')} * SIMT_BFLOAT"
    )
    return (
        f"{{ float* const simt_d[] = {{{places}}}; "
        f"simt_warpgroup_multiply(simt_d, {product[1]}, {a}, {b}, {how}); }}"
    )
