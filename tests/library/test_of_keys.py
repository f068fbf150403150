"""Sizes by a number of keys come to what numbers come to, whatever that number is."""

import json
from dataclasses import replace
from itertools import product

import pytest

from tvm_stitch.library.attention import NO_MASK, Attention, Bias, Place, decoded, size_at
from tvm_stitch.library.of_keys import KEYS, OfKeys, quotient

SIZES = (0, 1, 6, 64, KEYS, KEYS + 1, 64 * KEYS, KEYS * (KEYS + 3), 6 * KEYS + 12, OfKeys((-1, 1)))


@pytest.mark.parametrize("keys", (1, 7, 1000))
def test_sums_and_products(keys):
    for one, other in product(SIZES, repeat=2):
        assert size_at(one + other, keys) == size_at(one, keys) + size_at(other, keys)
        assert size_at(one * other, keys) == size_at(one, keys) * size_at(other, keys)


def test_equal_sizes_are_equal_data():
    assert 2 * KEYS + 2 == (KEYS + 1) * 2 == OfKeys((2, 2))
    assert len({KEYS, 1 * KEYS, KEYS + 0}) == 1


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
    ],
)
def test_quotients_hold_for_any_number_of_keys(size, of, times):
    assert quotient(size, of) == times
    if times is not None:
        assert all(size_at(times, n) * size_at(of, n) == size_at(size, n) for n in (1, 5, 999))


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
