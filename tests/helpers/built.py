"""A Relax module of one function, from what makes its results."""

from tvm import relax


def module(body, *shapes, dtype="float32"):
    """The module whose function takes tensors of these shapes and returns what `body` emits."""
    params = [relax.Var(f"p{n}", relax.TensorType(s, dtype)) for n, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            outputs = [builder.emit_output(each) for each in body(builder.emit, *params)]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.get()
