"""Cases of reductions."""

import numpy as np

from relay.case import Case, Generator, Random, case


def _axes(r: Random, ndim: int) -> tuple[str, tuple[int, ...], bool]:
    """Attributes, the axes they mean, and whether these are kept."""
    count = r.int(0, ndim)
    listed = [int(a) for a in r.rng.permutation(ndim)[:count]]
    exclude, keep = bool(listed) and count < ndim and r.flag(), r.flag()
    meant = [a for a in range(ndim) if a not in listed] if exclude else listed
    written = [a - ndim if r.flag() else a for a in listed]
    attrs = f"axis={written if listed else None}, keepdims={keep}, exclude={exclude}"
    return attrs, tuple(meant or range(ndim)), keep


def _reduction(name: str, reference, low: float = -2, high: float = 2) -> Generator:
    def generate(r: Random) -> Case:
        x = r.floats(r.shape(1, 4), low, high)
        attrs, axes, keep = _axes(r, x.ndim)
        want = reference(x.astype("float64"), axis=axes, keepdims=keep).astype("float32")
        return case(f"{name}(%x, {attrs})", want, x=x)

    return generate


def _integer_reduction(name: str, reference) -> Generator:
    def generate(r: Random) -> Case:
        x = r.ints(r.shape(1, 4))
        attrs, axes, keep = _axes(r, x.ndim)
        want = reference(x, axis=axes, keepdims=keep).astype("int32")
        return case(f"{name}(%x, {attrs})", want, x=x)

    return generate


def _boolean_reduction(name: str, reference) -> Generator:
    def generate(r: Random) -> Case:
        x = r.bools(r.shape(1, 4))
        attrs, axes, keep = _axes(r, x.ndim)
        return case(f"{name}(%x, {attrs})", reference(x, axis=axes, keepdims=keep), x=x)

    return generate


def _position(name: str, reference) -> Generator:
    def generate(r: Random) -> Case:
        x = r.ints(r.shape(1, 4), 0, 4).astype("float32")
        axis, keep, last = r.axis(x.ndim), r.flag(), r.flag()
        if last:
            flipped = reference(np.flip(x, axis), axis=axis, keepdims=keep)
            want = x.shape[axis] - 1 - flipped
        else:
            want = reference(x, axis=axis, keepdims=keep)
        attrs = f"axis=[{axis}], keepdims={keep}, select_last_index={last}"
        return case(f"{name}(%x, {attrs})", np.asarray(want, "int32"), x=x)

    return generate


def _mean_of_integers(r: Random) -> Case:
    x = r.ints((3, 4), 0, 20)
    return case("mean(%x, axis=[1])", (x.sum(1) // 4).astype("int32"), x=x)


def _logsumexp(r: Random) -> Case:
    x = r.floats(r.shape(1, 4), -30, 30)
    attrs, axes, keep = _axes(r, x.ndim)
    wide = x.astype("float64")
    want = np.log(np.sum(np.exp(wide), axis=axes, keepdims=keep)).astype("float32")
    return case(f"logsumexp(%x, {attrs})", want, x=x)


def _variance(r: Random) -> Case:
    x = r.floats(r.shape(2, 4, 5))
    axis, keep, unbiased = r.axis(x.ndim), r.flag(), r.flag()
    if x.shape[axis] == 1:
        unbiased = False
    want = np.var(x.astype("float64"), axis=axis, keepdims=keep, ddof=int(unbiased))
    body = (
        f"%0 = mean(%x, axis=[{axis}], keepdims=True);\n"
        f"  variance(%x, %0, axis=[{axis}], keepdims={keep}, unbiased={unbiased})"
    )
    return case(body, want.astype("float32"), x=x)


def _collapse(shape, x):
    extra = x.ndim - len(shape)
    total = x.sum(axis=tuple(range(extra))) if extra else x
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and total.shape[i] != 1)
    return total.sum(axis=axes, keepdims=True) if axes else total


def _collapse_sum_like(r: Random) -> Case:
    x = r.floats(r.shape(2, 4))
    shape = tuple(r.pick(1, n) for n in x.shape)[r.int(0, 1) :]
    return case("collapse_sum_like(%x, %y)", _collapse(shape, x), x=x, y=r.floats(shape))


def _collapse_sum_to(r: Random) -> Case:
    x = r.floats(r.shape(2, 4))
    shape = tuple(r.pick(1, n) for n in x.shape)[r.int(0, 1) :]
    return case(f"collapse_sum_to(%x, shape={list(shape)})", _collapse(shape, x), x=x)


GENERATORS: dict[str, list[Generator]] = {
    "all": [_boolean_reduction("all", np.all)],
    "any": [_boolean_reduction("any", np.any)],
    "argmax": [_position("argmax", np.argmax)],
    "argmin": [_position("argmin", np.argmin)],
    "collapse_sum_like": [_collapse_sum_like],
    "collapse_sum_to": [_collapse_sum_to],
    "logsumexp": [_logsumexp],
    "max": [_reduction("max", np.max), _integer_reduction("max", np.max)],
    "mean": [_reduction("mean", np.mean), _mean_of_integers],
    "min": [_reduction("min", np.min), _integer_reduction("min", np.min)],
    "prod": [_reduction("prod", np.prod, 0.5, 1.5)],
    "sum": [_reduction("sum", np.sum), _integer_reduction("sum", np.sum)],
    "variance": [_variance],
}
