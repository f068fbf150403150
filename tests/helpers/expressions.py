"""Tensor expressions that tests of the choice of schedules are made of."""

from tvm import te, topi


def tensor(*shape, dtype="float32", name="x"):
    return te.placeholder(shape, dtype, name)


def softmax(rows, columns, dtype="float32"):
    """The tensors of a softmax that computes in float32."""
    x = tensor(rows, columns, dtype=dtype)
    wide = topi.cast(x, "float32") if dtype != "float32" else x
    exps = topi.exp(topi.subtract(wide, topi.max(wide, axis=1, keepdims=True)))
    result = topi.divide(exps, topi.sum(exps, axis=1, keepdims=True))
    return x, topi.cast(result, dtype) if dtype != "float32" else result
