"""Fourier transforms, as matrix products with constant cosines and sines."""

from __future__ import annotations

import numpy as np
from tvm import relax, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.call import Expr, OpCall, OperatorFunction, dims, dtype, rank

_op = relax.op


def _waves(call: OpCall, rows: int, columns: int, period: int, name: str) -> tuple[Expr, Expr]:
    """Cosines and sines of ``2 pi row column / period``."""
    # The product of two indices is reduced first: a large angle would cost digits.
    turns = np.outer(np.arange(rows), np.arange(columns)) % period / period
    angles = 2 * np.pi * turns
    return call.constant(np.cos(angles), name), call.constant(np.sin(angles), name)


def _dft(call: OpCall) -> Expr:
    """Along the last axis, of a real and an imaginary part."""
    call.expect(2)
    real, imaginary, name = call[0], call[1], dtype(call[0])
    size, inverse = dims(real)[-1], call.attrs.flag("inverse")
    if not isinstance(size, int):
        raise RelayError("the transform of a symbolic axis is not read")
    cosines, sines = _waves(call, size, size, size, name)

    def product(value: Expr, wave: Expr) -> Expr:
        return call.emit(_op.matmul(value, wave))

    first, second = (_op.subtract, _op.add) if inverse else (_op.add, _op.subtract)
    new_real = call.emit(first(product(real, cosines), product(imaginary, sines)))
    new_imaginary = call.emit(second(product(imaginary, cosines), product(real, sines)))
    if inverse:
        share = call.constant(1 / size, name)
        new_real = call.emit(_op.multiply(new_real, share))
        new_imaginary = call.emit(_op.multiply(new_imaginary, share))
    return relax.Tuple([new_real, new_imaginary])


def _stft(call: OpCall) -> Expr:
    """Of overlapping windows: (batch, frequency, window, real and imaginary)."""
    call.expect(2)
    attrs, data, name = call.attrs, call[0], dtype(call[0])
    if rank(data) != 2 or not isinstance(dims(data)[1], int):
        raise RelayError(f"the data must be a batch of signals of known length, not {dims(data)}")
    size = attrs.integer("n_fft", -1)
    hop, width = attrs.integer("hop_length", -1), attrs.integer("win_length", -1)
    hop, width = (hop if hop > 0 else size // 4), (width if width > 0 else size)
    batch, length = dims(data)
    if not 0 < size <= length or width > size or hop < 1:
        raise RelayError(f"n_fft={size}, win_length={width} do not fit signals of {length}")
    windows = call.te(lambda a: topi.sliding_window(a, 1, [width], [hop]), data)
    count = (length - size) // hop + 1
    windows = call.emit(_op.strided_slice(windows, [1], [0], [count]))
    windows = call.emit(_op.multiply(windows, call[1]))
    rows = size // 2 + 1 if attrs.flag("onesided", True) else size
    parts = []
    for wave, sign in zip(_waves(call, width, rows, width, name), (1.0, -1.0), strict=True):
        scale = sign / size**0.5 if attrs.flag("normalized") else sign
        part = call.emit(_op.matmul(windows, wave))
        part = call.emit(_op.multiply(part, call.constant(scale, name)))
        turned = call.emit(_op.permute_dims(part, [0, 2, 1]))
        parts.append(call.emit(_op.reshape(turned, [batch, rows, count, 1])))
    return _op.concat(parts, 3)


OPERATORS: dict[str, OperatorFunction] = {"dft": _dft, "stft": _stft}
