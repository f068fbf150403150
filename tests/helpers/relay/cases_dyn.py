"""Cases of the dyn dialect: constants, or what follows from shapes, in the place of attributes."""

import numpy as np

from relay.case import Case, Generator, Random, case
from relay.cases_indexing import distinct


def _vector(*numbers: int) -> str:
    """Graph bindings of a constant int64 vector, named %9."""
    return f"%8 = ({', '.join(f'{n}i64' for n in numbers)},);\n  %9 = stack(%8);\n  "


def _dyn_reshape(r: Random) -> Case:
    x = r.floats((4, 6))
    body = (
        '%0 = shape_of(%x, dtype="int64");\n'
        "  %1 = take(%0, 0i64);\n  %2 = expand_dims(%1, axis=0);\n"
        "  %3 = strided_slice(%0, begin=[1], end=[2], strides=[1]);\n"
        "  %4 = divide(%3, 2i64);\n  %5 = (%2, %4, %7);\n"
    )
    body = body.replace("  %5", "  %6 = (2i64,);\n  %7 = stack(%6);\n  %5")
    body += "  %9 = concatenate(%5);\n  dyn.reshape(%x, %9)"
    return case(body, x.reshape(4, 3, 2), x=x)


def _dyn_tile(r: Random) -> Case:
    x = r.floats((2, 3))
    return case(_vector(2, 1) + "dyn.tile(%x, %9)", np.tile(x, (2, 1)), x=x)


def _dyn_broadcast_to(r: Random) -> Case:
    x = r.floats((1, 3))
    return case(_vector(2, 3) + "dyn.broadcast_to(%x, %9)", np.broadcast_to(x, (2, 3)), x=x)


def _dyn_full(r: Random) -> Case:
    v = r.floats(())
    body = _vector(2, 3) + 'dyn.full(%v, %9, dtype="float32")'
    return case(body, np.full((2, 3), v), v=v)


def _dyn_filled(name: str) -> Generator:
    def generate(r: Random) -> Case:
        body = _vector(2, 3) + f'dyn.{name}(%9, dtype="float32")'
        return case(body, getattr(np, name)((2, 3), "float32"), x=r.floats((1,)))

    return generate


def _dyn_one_hot(r: Random) -> Case:
    i = r.ints((3,), 0, 3)
    body = 'dyn.one_hot(%i, 1f, 0f, 4, axis=-1, dtype="float32")'
    return case(body, np.eye(4, dtype="float32")[i], i=i)


def _dyn_expand_dims(r: Random) -> Case:
    x = r.floats((2, 3))
    return case("dyn.expand_dims(%x, 1i64, num_newaxis=1)", x[:, None], x=x)


def _dyn_squeeze(r: Random) -> Case:
    x = r.floats((2, 1, 3))
    return case(_vector(1) + "dyn.squeeze(%x, %9)", x[:, 0], x=x)


def _dyn_topk(r: Random) -> Case:
    x = distinct(r, (3, 5))
    order = np.argsort(-x, 1)[:, :2]
    want = np.take_along_axis(x, order, 1), order.astype("int32")
    return case('dyn.topk(%x, 2i64, axis=1, dtype="int32")', *want, x=x)


def _dyn_strided_slice(r: Random) -> Case:
    x = r.floats((4, 5))
    body = (
        "%0 = (1i64, 0i64);\n  %1 = stack(%0);\n  %2 = (4i64, 5i64);\n  %3 = stack(%2);\n"
        "  %4 = (2i64, 1i64);\n  %5 = stack(%4);\n  dyn.strided_slice(%x, %1, %3, %5)"
    )
    return case(body, x[1:4:2], x=x)


def _dyn_pad(r: Random) -> Case:
    x = r.floats((2, 3))
    body = (
        "%0 = (1i64, 0i64);\n  %1 = stack(%0);\n  %2 = (0i64, 2i64);\n  %3 = stack(%2);\n"
        "  %4 = (%1, %3);\n  %5 = stack(%4);\n  dyn.nn.pad(%x, %5, 0.5f)"
    )
    return case(body, np.pad(x, [(1, 0), (0, 2)], constant_values=np.float32(0.5)), x=x)


def _dyn_upsampling(r: Random) -> Case:
    x = r.floats((1, 2, 3, 4))
    return case("dyn.nn.upsampling(%x, 2f, 3f)", x.repeat(2, 2).repeat(3, 3), x=x)


def _dyn_upsampling3d(r: Random) -> Case:
    x = r.floats((1, 1, 2, 3, 2))
    want = x.repeat(2, 2).repeat(1, 3).repeat(2, 4)
    mode = 'coordinate_transformation_mode="asymmetric"'
    return case(f"dyn.nn.upsampling3d(%x, 2f, 1f, 2f, {mode})", want, x=x)


def _dyn_resize2d(r: Random) -> Case:
    x = r.floats((1, 2, 3, 4))
    attrs = 'method="nearest_neighbor", coordinate_transformation_mode="asymmetric"'
    body = _vector(6, 8) + f'dyn.image.resize2d(%x, %9, {attrs}, rounding_method="floor")'
    return case(body, x.repeat(2, 2).repeat(2, 3), x=x)


def _dyn_sparse_to_dense(r: Random) -> Case:
    i, v = np.array([1, 3], "int32"), r.floats((2,))
    want = np.zeros((5,), "float32")
    want[i] = v
    return case(_vector(5) + "dyn.sparse_to_dense(%i, %v, 0f, %9)", want, i=i, v=v)


GENERATORS: dict[str, list[Generator]] = {
    "dyn.broadcast_to": [_dyn_broadcast_to],
    "dyn.expand_dims": [_dyn_expand_dims],
    "dyn.full": [_dyn_full],
    "dyn.image.resize2d": [_dyn_resize2d],
    "dyn.nn.pad": [_dyn_pad],
    "dyn.nn.upsampling": [_dyn_upsampling],
    "dyn.nn.upsampling3d": [_dyn_upsampling3d],
    "dyn.one_hot": [_dyn_one_hot],
    "dyn.ones": [_dyn_filled("ones")],
    "dyn.reshape": [_dyn_reshape],
    "dyn.sparse_to_dense": [_dyn_sparse_to_dense],
    "dyn.squeeze": [_dyn_squeeze],
    "dyn.strided_slice": [_dyn_strided_slice],
    "dyn.tile": [_dyn_tile],
    "dyn.topk": [_dyn_topk],
    "dyn.zeros": [_dyn_filled("zeros")],
}
