"""Cases of operators that index, scatter and sort."""

import itertools

import numpy as np

from relay.case import Case, Generator, Random, case

# Indexing


def _take(r: Random) -> Case:
    x = r.floats(r.shape(1, 3))
    axis = r.axis(x.ndim)
    mode = r.pick("clip", "wrap", "fast")
    n = x.shape[axis]
    indices = r.ints(r.shape(0, 2), 0, n - 1) if mode == "fast" else r.ints(r.shape(0, 2), -5, 9)
    numpy_mode = "clip" if mode == "fast" else mode
    want = np.take(x, indices, axis, mode=numpy_mode)
    return case(f'take(%x, %i, axis={axis}, mode="{mode}")', want, x=x, i=indices)


def _take_flat(r: Random) -> Case:
    x, indices = r.floats((3, 4)), r.ints((2, 2), 0, 11, "int64")
    return case("take(%x, %i)", x.reshape(-1)[indices], x=x, i=indices)


def _take_batched(r: Random) -> Case:
    x, indices = r.floats((2, 5, 3)), r.ints((2, 4), 0, 4)
    want = np.stack([x[b][indices[b]] for b in range(2)])
    return case("take(%x, %i, batch_dims=1, axis=1)", want, x=x, i=indices)


def _gather(r: Random) -> Case:
    x = r.floats((3, 4, 5))
    axis = r.axis(3)
    shape = list(x.shape)
    shape[axis] = r.int(1, 6)
    indices = r.ints(tuple(shape), 0, x.shape[axis] - 1)
    want = np.take_along_axis(x, indices.astype("int64"), axis)
    return case(f"gather(%x, %i, axis={axis})", want, x=x, i=indices)


def _gather_nd(r: Random) -> Case:
    x, indices = r.floats((3, 4, 5)), np.stack([r.ints((6,), 0, 2), r.ints((6,), 0, 3)])
    return case("gather_nd(%x, %i)", x[indices[0], indices[1]], x=x, i=indices)


def _gather_nd_batched(r: Random) -> Case:
    x, indices = r.floats((2, 4, 5)), r.ints((1, 2), 0, 3)
    want = np.stack([x[b, indices[0, b]] for b in range(2)])
    return case("gather_nd(%x, %i, batch_dims=1)", want, x=x, i=indices)


def _adv_index(r: Random) -> Case:
    x, i, j = r.floats((3, 4, 5)), r.ints((2, 1), 0, 2), r.ints((6,), 0, 3)
    return case("%0 = (%x, %i, %j);\n  adv_index(%0)", x[i, j], x=x, i=i, j=j)


def _embedding(r: Random) -> Case:
    table, i = r.floats((6, 3)), r.ints((2, 4), 0, 5)
    return case("nn.embedding(%t, %i)", table[i], t=table, i=i)


def _one_hot(r: Random) -> Case:
    i, depth, axis = r.ints((2, 3), -1, 5), r.int(2, 5), r.pick(-1, 0, 1, 2)
    want = np.where(np.arange(depth) == i[..., None], 2.0, -1.0).astype("float32")
    want = np.moveaxis(want, -1, axis)
    body = f'one_hot(%i, 2f, -1f, depth={depth}, axis={axis}, dtype="float32")'
    return case(body, want, i=i)


def _sequence_mask(r: Random) -> Case:
    axis = r.int(0, 1)
    x, n = r.floats((4, 5, 2)), r.ints((5 if axis == 0 else 4,), 0, 4)
    steps = np.arange(x.shape[axis])
    keep = steps[:, None] < n if axis == 0 else steps < n[:, None]
    want = np.where(keep[..., None], x, np.float32(-1))
    return case(f"sequence_mask(%x, %n, mask_value=-1f, axis={axis})", want, x=x, n=n)


def _unravel_index(r: Random) -> Case:
    i = r.ints((5,), 0, 23)
    body = "%0 = (2, 3, 4);\n  %1 = stack(%0);\n  unravel_index(%i, %1)"
    return case(body, np.stack(np.unravel_index(i, (2, 3, 4))).astype("int32"), i=i)


def _searchsorted(r: Random) -> Case:
    x, v, right = np.sort(r.floats((7,))), r.floats((2, 3)), r.flag()
    want = np.searchsorted(x, v, "right" if right else "left").astype("int64")
    return case(f'searchsorted(%x, %v, right={right}, dtype="int64")', want, x=x, v=v)


def _scatter(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x, axis = r.floats((3, 4)), r.int(-2, 1)
        shape = [3, 4]
        shape[axis] = r.int(1, 3)
        indices = np.stack(
            [r.rng.permutation(x.shape[axis])[: shape[axis]] for _ in range(shape[1 - axis % 2])]
        ).astype("int32")
        indices = indices if axis % 2 else indices.T
        updates = r.floats(indices.shape)
        how = {"scatter": "update", "scatter_add": "add"}.get(name) or r.pick(
            "update", "add", "mul", "min", "max"
        )
        function = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
        want = x.copy()
        for place in itertools.product(*map(range, indices.shape)):
            at = list(place)
            at[axis] = indices[place]
            new = updates[place]
            want[tuple(at)] = new if how == "update" else function[how](want[tuple(at)], new)
        more = f', reduction="{how}"' if name == "scatter_elements" else ""
        indices = np.ascontiguousarray(indices)
        body = f"{name}(%x, %i, %u, axis={axis}{more})"
        return case(body, want, x=x, i=indices, u=updates)

    return generate


def _scatter_nd(r: Random) -> Case:
    x, u = r.floats((4, 5)), r.floats((3, 5))
    i = r.rng.permutation(4)[:3].astype("int32")[None]
    mode, want = r.pick("update", "add"), x.copy()
    want[i[0]] = u if mode == "update" else want[i[0]] + u
    return case(f'scatter_nd(%x, %i, %u, mode="{mode}")', want, x=x, i=i, u=u)


def _matrix_set_diag(r: Random) -> Case:
    x, d = r.floats((2, 3, 4)), r.floats((2, 3))
    want = x.copy()
    want[:, range(3), range(3)] = d
    return case("matrix_set_diag(%x, %d)", want, x=x, d=d)


def _sparse_to_dense(r: Random) -> Case:
    i, v = np.array([[0, 1], [2, 3]], "int32"), r.floats((2,))
    want = np.full((3, 4), 0.5, "float32")
    want[i[:, 0], i[:, 1]] = v
    return case("sparse_to_dense(%i, %v, 0.5f, output_shape=[3, 4])", want, i=i, v=v)


# Order


def distinct(r: Random, shape) -> np.ndarray:
    return r.rng.permutation(int(np.prod(shape))).reshape(shape).astype("float32")


def _sort(r: Random) -> Case:
    x, up = distinct(r, r.shape(1, 3)), r.flag()
    axis = r.axis(x.ndim)
    want = np.sort(x, axis) if up else -np.sort(-x, axis)
    return case(f"sort(%x, axis={axis}, is_ascend={up})", want, x=x)


def _argsort(r: Random) -> Case:
    x, up = distinct(r, r.shape(1, 3)), r.flag()
    axis, dtype = r.axis(x.ndim), r.pick("int32", "int64", "float32")
    want = np.argsort(x if up else -x, axis).astype(dtype)
    return case(f'argsort(%x, axis={axis}, is_ascend={up}, dtype="{dtype}")', want, x=x)


def _topk(r: Random) -> Case:
    x, up = distinct(r, (3, 6)), r.flag()
    axis, ret = r.axis(2), r.pick("both", "values", "indices")
    k = r.int(0, x.shape[axis])
    count = k or x.shape[axis]
    order = np.argsort(x if up else -x, axis).take(range(count), axis)
    values, indices = np.take_along_axis(x, order, axis), order.astype("int64")
    want = {"both": [values, indices], "values": [values], "indices": [indices]}[ret]
    attrs = f'k={k}, axis={axis}, ret_type="{ret}", is_ascend={up}, dtype="int64"'
    return case(f"topk(%x, {attrs})", *want, x=x)


def _scan(name: str) -> Generator:
    def generate(r: Random) -> Case:
        x, exclusive = r.floats(r.shape(1, 3), 0.5, 1.5), r.flag()
        axis = r.pick(None, r.axis(x.ndim))
        flat = x.reshape(-1) if axis is None else x
        at = 0 if axis is None else axis
        want = getattr(np, name)(flat, axis=at)
        if exclusive:
            first = np.full_like(want.take([0], at), 0 if name == "cumsum" else 1)
            want = np.concatenate([first, want.take(range(want.shape[at] - 1), at)], at)
        body = f'{name}(%x, axis={axis}, dtype="float32", exclusive={exclusive})'
        return case(body, want, x=x)

    return generate


def _trilu(r: Random) -> Case:
    x, k, upper = r.floats((2, 4, 5)), r.int(-2, 2), r.flag()
    want = np.triu(x, k) if upper else np.tril(x, k)
    return case(f"trilu(%x, {k}, upper={upper})", want, x=x)


def _invert_permutation(r: Random) -> Case:
    x = r.rng.permutation(6).astype("int32")
    return case("invert_permutation(%x)", np.argsort(x).astype("int32"), x=x)


def _einsum(r: Random) -> Case:
    a, b = r.floats((2, 3, 4)), r.floats((2, 4, 5))
    body = '%0 = (%a, %b);\n  einsum(%0, equation="bij,bjk->bik")'
    return case(body, a @ b, a=a, b=b)


GENERATORS: dict[str, list[Generator]] = {
    "adv_index": [_adv_index],
    "argsort": [_argsort],
    "cumprod": [_scan("cumprod")],
    "cumsum": [_scan("cumsum")],
    "einsum": [_einsum],
    "gather": [_gather],
    "gather_nd": [_gather_nd, _gather_nd_batched],
    "invert_permutation": [_invert_permutation],
    "matrix_set_diag": [_matrix_set_diag],
    "nn.embedding": [_embedding],
    "one_hot": [_one_hot],
    "scatter": [_scatter("scatter")],
    "scatter_add": [_scatter("scatter_add")],
    "scatter_elements": [_scatter("scatter_elements")],
    "scatter_nd": [_scatter_nd],
    "searchsorted": [_searchsorted],
    "sequence_mask": [_sequence_mask],
    "sort": [_sort],
    "sparse_to_dense": [_sparse_to_dense],
    "take": [_take, _take_flat, _take_batched],
    "topk": [_topk],
    "trilu": [_trilu],
    "unravel_index": [_unravel_index],
}
