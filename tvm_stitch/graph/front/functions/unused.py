"""Functions without what nobody reads, in time that grows with the function.

In: a Relax function. Out: what TVM's remove_all_unused makes of it, which takes a second and a half
for 6,000 bindings.
"""

from __future__ import annotations

from tvm import relax

from tvm_stitch.stages.stage import handle


def without_unused(function: relax.Function) -> relax.Function:
    """The function without pure bindings that nobody reads; checks of shapes stay."""
    body, bindings = function.body, [b for block in function.body.blocks for b in block.bindings]
    if any(isinstance(b.value, relax.If | relax.SeqExpr | relax.Function) for b in bindings):
        return relax.analysis.remove_all_unused(function)
    read = set(map(handle, relax.analysis.free_vars(body.body)))
    blocks: list[relax.BindingBlock] = []
    for block in reversed(body.blocks):
        is_pure, kept = isinstance(block, relax.DataflowBlock), list[relax.Binding]()
        for binding in reversed(block.bindings):
            is_kept = handle(binding.var) in read or isinstance(binding, relax.MatchCast)
            if is_kept or (not is_pure and relax.analysis.contains_impure_call(binding.value)):
                kept.append(binding)
                read.update(map(handle, relax.analysis.free_vars(binding.value)))
        if kept:
            whole = len(kept) == len(block.bindings)
            blocks.append(block if whole else type(block)(kept[::-1]))
    normal = relax.BlockBuilder().normalize(relax.SeqExpr(blocks[::-1], body.body))
    return relax.Function(
        function.params, normal, function.ret_ty, function.is_pure, function.attrs
    )
