"""Divisions by symbols that TVM's analyzer leaves as they are."""

import random

import pytest
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.stage import substitute
from tvm_stitch.stages.symbolic_analyzer import SymbolicAnalyzer

B, S, N, M = (tirx.Var(name, "int64") for name in "bsnm")
A, J, K, F = (tirx.Var(name, "int64") for name in "ijkf")
div, mod = tirx.floordiv, tirx.floormod


def number(value: int):
    return tirx.IntImm("int64", value)


AXES = {A: B, J: S, K: number(64)}
TOKENS = (A * S + J) * 64 + K
EQUAL = {
    "quotient of a rest": (AXES, div(div(TOKENS, 64), S), A),
    "rest of a quotient": (AXES, mod(div(TOKENS, 64), S), J),
    "by a product": (AXES, div(TOKENS, 64 * S), A),
    "rest of a product": (AXES, mod(TOKENS, S * 64), J * 64 + K),
    "by a sum": ({A: B, J: N + M}, div(A * (N + M) + J, N + M), A),
    "by a symbol and one": ({A: B, J: N + 1}, mod(A * (N + 1) + J, N + 1), J),
    "runs of images": (
        {A: number(8), J: 4 * N * M},
        div(A * 4 * N * M + J, M * N),
        4 * A + div(J, N * M),
    ),
    "one division after another": ({F: B * S * 64}, div(div(F, 64), S), div(F, 64 * S)),
    "heads of a row": ({F: N * 64}, mod(div(F, 64), N), div(F, 64)),
    "in vain modulo": ({F: B * S}, mod(div(F, S), B) * S + mod(F, S), F),
    "channels of a group": (
        {A: number(8), J: number(320), F: 64 * S},
        div((A * 320 + J) * (64 * S) + F, 640 * S),
        32 * A + div(J, 10),
    ),
    "rest of channels of a group": (
        {J: number(320), F: N * M},
        mod(J * (N * M) + F, 10 * N * M),
        mod(J, 10) * (N * M) + F,
    ),
    "lanes of a vector": ({A: N, K: number(8)}, div(A * 8 + K, S * 64), div(A, S * 8)),
    "rest of lanes of a vector": (
        {A: N, K: number(8)},
        mod(A * 8 + K, S * 64),
        mod(A, S * 8) * 8 + K,
    ),
    "constants within": (
        {A: number(16), J: 4 * N},
        mod(div(A * 4 * N + J, N), 64),
        4 * A + div(J, N),
    ),
}
# Of symbols that may be 0, and of rests that may be as large as the divisor.
DIFFERENT = {
    "a rest of any size": ({A: B, J: S}, div(A * N + J, N), A),
    "a symbol that may be 0": ({K: number(2)}, div(K, N + 1), number(0)),
    "a rest that is negative": ({A: B, J: S}, div(A * S - J, S), A),
    "channels of other groups": ({J: number(320), F: N}, div(J * N + F, 10 * N), div(J, 5)),
    "a rest that may reach the next group": (
        {J: number(320), F: N + 1},
        div(J * N + F, 10 * N),
        div(J, 10),
    ),
    "lanes of the next vector": ({A: N, K: number(16)}, div(A * 8 + K, S * 64), div(A, S * 8)),
    "as large as the divisor": ({A: B, J: S + 1}, div(A * S + J, S), A),
}


@pytest.mark.parametrize("name", EQUAL)
def test_divisions_are_resolved(name):
    axes, left, right = EQUAL[name]
    assert SymbolicAnalyzer(axes).can_prove_equal(left, right)


@pytest.mark.parametrize("name", DIFFERENT)
def test_nothing_is_proven_that_may_not_hold(name):
    axes, left, right = DIFFERENT[name]
    assert not SymbolicAnalyzer(axes).can_prove_equal(left, right)


def evaluated(expr, values):
    found = SymbolicAnalyzer({}).simplify(
        substitute(expr, {v: number(n) for v, n in values.items()})
    )
    return int(found)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_simplified_has_the_same_values(seed):
    """Divisions of sums and products by chance, at every place of axes of small extents."""
    chance = random.Random(seed)
    axes = {A: B, J: chance.choice([S, S + N, 2 * S]), K: number(chance.choice([1, 3, 4]))}
    divisors = [S, B * S, 2 * S, S + N, 4 * B, 8 * S, number(4)]
    expr = chance.choice([(A * S + J) * 4 + K, (A * axes[J] + J) * axes[K] + K, A * B * S + J])
    for _ in range(chance.randint(1, 3)):
        expr = chance.choice([div, mod])(expr, chance.choice(divisors))
    simple = SymbolicAnalyzer(axes).simplify(expr)
    for sizes in ({B: 1, S: 1, N: 0}, {B: 2, S: 3, N: 1}, {B: 3, S: 1, N: 4}):
        ends = [evaluated(extent, sizes) for extent in axes.values()]
        for i in range(ends[0]):
            for j in range(ends[1]):
                for k in range(ends[2]):
                    here = {**sizes, A: i, J: j, K: k}
                    assert evaluated(expr, here) == evaluated(simple, here), (expr, simple, here)


def test_what_was_divided_is_put_together():
    analyzer = SymbolicAnalyzer({F: B * S, K: number(64)})
    parted = (div(F, S) * S + mod(F, S)) * 64 + K
    assert str(analyzer.simplify(parted)) == str(analyzer.simplify(F * 64 + K))
    assert int(analyzer.simplify(parted - F * 64 - K)) == 0


def test_divisions_of_what_is_not_negative_are_cudas_own():
    analyzer = SymbolicAnalyzer({A: B, J: S})
    token = A * S + J
    plain = analyzer.truncated(mod(token, N) + div(div(token, N) + 1, 4))
    expected = tirx.truncmod(token, N) + div(tirx.truncdiv(token, N) + 1, 4)
    assert tvm_ffi.structural_equal(plain, expected, map_free_vars=True)
    in_memory = div(tirx.decl_buffer((B,), "int64")[A] * S + J, N)
    assert tvm_ffi.structural_equal(analyzer.truncated(in_memory), in_memory)
    negative = div(A * S - 1, N)
    assert tvm_ffi.structural_equal(analyzer.truncated(div(negative, M)), div(negative, M))
    assert tvm_ffi.structural_equal(analyzer.truncated(negative), negative)
