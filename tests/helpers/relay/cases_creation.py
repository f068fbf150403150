"""Cases of operators that create, and of Fourier transforms."""

import numpy as np

from relay.case import Case, Generator, Random, case

# Fourier transforms


def _dft(r: Random) -> Case:
    a, b, inverse = r.floats((2, 3, 6)), r.floats((2, 3, 6)), r.flag()
    value = a.astype("float64") + 1j * b
    want = np.fft.ifft(value) if inverse else np.fft.fft(value)
    body = f"dft(%a, %b, inverse={inverse})"
    return case(body, want.real.astype("float32"), want.imag.astype("float32"), a=a, b=b)


def _stft(r: Random) -> Case:
    x, w = r.floats((2, 20)), r.floats((8,), 0.5, 1)
    normalized, onesided = r.flag(), r.flag()
    frames = np.stack([x[:, i * 3 : i * 3 + 8] for i in range(5)], 1) * w
    spectrum = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    spectrum = spectrum.transpose(0, 2, 1) / (8**0.5 if normalized else 1)
    want = np.stack([spectrum.real, spectrum.imag], -1).astype("float32")
    attrs = f"n_fft=8, hop_length=3, win_length=8, normalized={normalized}, onesided={onesided}"
    return case(f"stft(%x, %w, {attrs})", want, x=x, w=w)


# Creation


def _full(r: Random) -> Case:
    shape = r.shape(1, 3)
    v = r.floats(())
    body = f'full(%v, shape={list(shape)}, dtype="float32")'
    return case(body, np.full(shape, v), v=v)


def _full_like(r: Random) -> Case:
    x, v = r.floats(), r.floats(())
    return case("full_like(%x, %v)", np.full_like(x, v), x=x, v=v)


def _filled(name: str) -> Generator:
    def generate(r: Random) -> Case:
        shape, dtype = r.shape(1, 3), r.pick("float32", "int32", "int64", "bool")
        want = getattr(np, name)(shape, dtype)
        x = r.floats((1,))
        return case(f'{name}(shape={list(shape)}, dtype="{dtype}")', want, x=x)

    return generate


def _filled_like(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x = r.pick(r.floats(), r.ints())
        return case(f"{name}(%x)", getattr(np, name)(x), x=x)

    return generate


def _arange(r: Random) -> Case:
    start, step, count = r.int(-5, 5), r.pick(-2, -1, 1, 2, 3), r.int(1, 6)
    stop, x = start + step * count, r.floats((1,))
    if r.flag():
        body = f'arange({start}, {stop}, {step}, start=0, stop=0, step=0, dtype="int32")'
        return case(body, np.arange(start, stop, step, "int32"), x=x)
    body = f'arange({start}f, {stop}f, {step}f, dtype="float32")'
    return case(body, np.arange(start, stop, step, "float32"), x=x)


def _meshgrid(r: Random) -> Case:
    a, b, indexing = r.floats((3,)), r.floats((4,)), r.pick("ij", "xy")
    body = f'%0 = (%a, %b);\n  meshgrid(%0, indexing="{indexing}")'
    return case(body, *np.meshgrid(a, b, indexing=indexing), a=a, b=b)


GENERATORS: dict[str, list[Generator]] = {
    "arange": [_arange],
    "dft": [_dft],
    "full": [_full],
    "full_like": [_full_like],
    "meshgrid": [_meshgrid],
    "ones": [_filled("ones")],
    "ones_like": [_filled_like("ones_like")],
    "stft": [_stft],
    "zeros": [_filled("zeros")],
    "zeros_like": [_filled_like("zeros_like")],
}
