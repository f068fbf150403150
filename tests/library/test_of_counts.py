"""Sizes by what is counted come to what numbers come to, whatever is counted."""

import json
from dataclasses import replace
from itertools import product

import pytest

from tvm_stitch.library.attention import NO_MASK, Attention, Bias, Place, decoded, size_at
from tvm_stitch.library.of_counts import BATCH, KEYS, OfCounts, quotient

LESS = KEYS + -1
SIZES = (
    *(0, 1, 6, 64, KEYS, KEYS + 1, 64 * KEYS, KEYS * (KEYS + 3), 6 * KEYS + 12, LESS),
    *(BATCH, 8 * BATCH, 3 * BATCH * KEYS, (BATCH + 2) * (KEYS + 1) + 5),
)


@pytest.mark.parametrize("batch", (1, 5))
@pytest.mark.parametrize("keys", (1, 7, 1000))
def test_sums_and_products(keys, batch):
    def at(size):
        return size_at(size, keys, batch)

    for one, other in product(SIZES, repeat=2):
        assert at(one + other) == at(one) + at(other)
        assert at(one * other) == at(one) * at(other)


def test_equal_sizes_are_equal_data():
    assert 2 * KEYS + 2 == (KEYS + 1) * 2 == OfCounts(((0, 0, 2), (1, 0, 2)))
    assert len({KEYS, 1 * KEYS, KEYS + 0, LESS + 1}) == 1
    assert BATCH * KEYS == KEYS * BATCH != KEYS * KEYS


@pytest.mark.parametrize(
    ("size", "of", "times"),
    [
        (128, 64, 2),
        (100, 64, None),
        (64 * KEYS, 8, 8 * KEYS),
        (64 * KEYS + 4, 8, None),
        (6 * KEYS + 12, KEYS + 2, 6),
        (6 * KEYS + 12, KEYS + 1, None),
        (KEYS, KEYS, 1),
        (KEYS, 2 * KEYS, None),
        (128, KEYS, None),
        (1, KEYS, None),
        (8 * BATCH, BATCH, 8),
        (8 * BATCH, 8, BATCH),
        (BATCH, KEYS, None),
        (6 * BATCH * KEYS + 2 * BATCH, 2, 3 * BATCH * KEYS + BATCH),
    ],
)
def test_quotients_hold_whatever_is_counted(size, of, times):
    assert quotient(size, of) == times
    for at in ((1, 1), (5, 3), (999, 2)) if times is not None else ():
        assert size_at(times, *at) * size_at(of, *at) == size_at(size, *at)


def test_attention_of_counted_keys_is_kept_as_text():
    rows, cache = Place(0, 256, 64, 64), Place(64 * KEYS, 128 * KEYS, 64 * KEYS, 64)
    bias = Bias(0, KEYS, 0, KEYS, 1)
    found = Attention(NO_MASK, 0.125, 1, 4, 2, 1, KEYS, 64, 64, rows, cache, cache, rows, bias)
    assert decoded(json.loads(json.dumps(found.encoded()))) == found
    fixed = found.at(33)
    assert fixed.is_fixed and not found.is_fixed
    assert fixed.key == Place(64 * 33, 128 * 33, 64 * 33, 64) and fixed.bias.query == 33
    assert decoded(fixed.encoded()) == fixed == fixed.at(7) == fixed.expected
    assert found.expected.keys > 100 and replace(found, keys=5).is_fixed


def test_attention_of_batches_of_any_size_is_kept_as_text():
    rows = Place(0, 256, 64, 64)
    found = Attention(NO_MASK, 0.125, BATCH, 4, 4, 1, 33, 64, 64, rows, rows, rows, rows)
    assert decoded(json.loads(json.dumps(found.encoded()))) == found
    assert not found.is_fixed and found.expected.batch > 1 and "any batch x 4 heads" in str(found)
    assert found.at(7, 3) == replace(found, batch=3)
