"""Updates that are rows of a tensor by numbers of their own, as what edges of a graph bring."""

import numpy as np
import pytest
from check import check, cuda_of, schedule_of, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import graph_of


def aggregated(nodes, edges, columns, dtype="float32"):
    """Rows of nodes where edges begin, with a bias, added up where they end."""
    ends, starts = np.random.default_rng(edges).integers(0, nodes, (2, edges))
    half = relax.const(0.5, dtype)

    def build(emit, at, source, rows, bias):
        brought = emit(op.add(emit(op.take(rows, source, axis=0)), bias))
        zeros = emit(op.zeros(relax.ShapeExpr((nodes, columns)), dtype))
        return emit(op.multiply(emit(op.scatter_nd(zeros, at, brought, "add")), half))

    def expected(at, source, rows, bias):
        sums = np.zeros((nodes, columns))
        np.add.at(sums, at[:, 0].astype(int), rows[source.astype(int)] + bias)
        return sums * 0.5

    indices = [((edges, 1), "int64", ends.reshape(-1, 1)), ((edges,), "int64", starts)]
    rows = [((nodes, columns), dtype, None), ((columns,), dtype, None)]
    return graph_of([*indices, *rows], build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("columns", [1, 7, 12, 64, 130])
@pytest.mark.parametrize(("nodes", "edges"), [(40, 50), (21, 200), (9, 900)])
def test_rows_that_memory_names_are_added(nodes, edges, columns, dtype):
    """Of some nodes there are edges to compare, of others too few, or too many for their row."""
    check(aggregated(nodes, edges, columns, dtype), kernels=1)


@pytest.mark.slow
def test_a_graph_of_many_edges():
    """As the model chooses: all blocks of a device sort out the edges."""
    case = aggregated(3000, 40000, 64)
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    assert (mapping.partitioned, mapping.blocks) == (True, 132)
    check(case, kernels=1, orders=2)


@pytest.mark.parametrize(("columns", "width"), [(64, 4), (66, 2)])
def test_rows_come_as_vectors_as_far_as_they_are_aligned(columns, width):
    """A lane at a time they were as many instructions as elements, in four times the lines."""
    source = cuda_of(the_kernel(aggregated(21, 200, columns).module))
    assert f"*(float{width}*)(p2_fetched" in source


def test_more_rows_are_on_their_way_where_there_are_more_of_them():
    few, many = (
        cuda_of(the_kernel(aggregated(2000, edges, 128).module)) for edges in (2000, 16000)
    )
    assert ("scattered_taken_ptr[2];" in few, "scattered_taken_ptr[4];" in many) == (True, True)


def put_together(nodes, sizes, columns):
    """Updates that are several tensors one behind the other, as what experts give."""
    count = sum(sizes)
    ends = np.random.default_rng(count).integers(0, nodes, (count, 1))

    def build(emit, at, *parts):
        zeros = emit(op.zeros(relax.ShapeExpr((nodes, columns)), "float32"))
        return emit(op.scatter_nd(zeros, at, emit(op.concat(list(parts), axis=0)), "add"))

    def expected(at, *parts):
        sums = np.zeros((nodes, columns))
        np.add.at(sums, at[:, 0].astype(int), np.concatenate(parts))
        return sums

    inputs = [((count, 1), "int64", ends), *(((n, columns), "float32", None) for n in sizes)]
    return graph_of(inputs, build, expected)


@pytest.mark.parametrize("columns", [7, 32])
@pytest.mark.parametrize("sizes", [(15, 17, 16, 20), (1, 67), (64, 33)])
def test_of_each_tensor_its_own_rows_are_read(sizes, columns):
    """Nothing is fetched ahead behind the end of the first."""
    check(put_together(34, sizes, columns), kernels=None)
