"""Data classes are read from JSON strictly, wherever they come from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

import pytest
from check import program_of
from zoo import softmax

from tvm_stitch import InputError
from tvm_stitch.json_data import checked, parsed
from tvm_stitch.kernel.analysis.profile import Profile, rows_profile
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.tensor_core.tiles import Tiles

TILES = Tiles(64, 128, 64, 32, 64, 3)


@dataclass(frozen=True)
class Thing:
    name: str
    sizes: tuple[int, ...]
    weight: float = 1.0
    ready: bool = False


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (3, "thing must be a JSON object with the fields"),
        ({"name": "a", "sizes": [], "more": 1}, "thing must be a JSON object with the fields"),
        ({"name": "a"}, "thing is incomplete: sizes"),
        ({"name": 1, "sizes": []}, "thing field name must be str, not 1"),
        ({"name": "a", "sizes": [1, "2"]}, r"thing field sizes must be tuple\[int, ...\]"),
        ({"name": "a", "sizes": [True]}, "thing field sizes"),
        ({"name": "a", "sizes": 3}, "thing field sizes"),
        ({"name": "a", "sizes": [], "weight": "1"}, "thing field weight must be float"),
        ({"name": "a", "sizes": [], "weight": float("nan")}, "thing field weight must be float"),
        ({"name": "a", "sizes": [], "ready": 1}, "thing field ready must be bool"),
    ],
)
def test_what_is_no_thing(data, why):
    with pytest.raises(InputError, match=why):
        checked(Thing, data, "thing")


def test_a_thing():
    assert checked(Thing, {"sizes": [1, 2], "name": "a"}, "thing") == Thing("a", (1, 2))
    older = {"called": "a", "sizes": [], "weight": 2}
    assert checked(Thing, older, "thing", renamed={"called": "name"}) == Thing("a", (), 2.0)


def test_fields_with_readers_of_their_own():
    def even(value):
        if value % 2:
            raise ValueError("an odd number")
        return value

    readers = {"sizes": lambda found: tuple(map(even, found))}
    assert checked(Thing, {"name": "a", "sizes": [2]}, "thing", readers) == Thing("a", (2,))
    with pytest.raises(InputError, match="thing field sizes: an odd number"):
        checked(Thing, {"name": "a", "sizes": [3]}, "thing", readers)


@pytest.mark.parametrize("text", ["", "{", "[" * 200_000, "\udcff"])
def test_what_is_no_json(text):
    with pytest.raises(InputError, match="thing is not JSON"):
        parsed(text, "thing")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rows": "64"}, "tiles field rows"),
        ({"rows": 0}, "tiles field rows"),
        ({"warp_rows": -32}, "tiles field warp_rows"),
        ({"min_blocks_per_sm": -1}, "tiles field min_blocks_per_sm"),
        ({"warpgroups": 1}, "tiles field warpgroups must be bool"),
        ({"threads": 128}, "tiles must be a JSON object with the fields"),
    ],
)
def test_tiles_are_checked(change, why):
    with pytest.raises(InputError, match=why):
        Tiles.from_json(json.dumps({**json.loads(TILES.to_json()), **change}))


def test_tiles_are_complete():
    with pytest.raises(InputError, match="tiles is incomplete: depth"):
        data = json.loads(TILES.to_json())
        del data["depth"]
        Tiles.from_json(json.dumps(data))
    with pytest.raises(InputError, match="tiles is not JSON"):
        Tiles.from_json("{")
    other = replace(TILES, min_blocks_per_sm=0, group=1)
    assert Tiles.from_json(other.to_json()) == other


def test_profiles_are_checked():
    data = asdict(rows_profile(program_of(softmax("float32").module), Rows(256, 1, 4, 1)))
    with pytest.raises(InputError, match="profile field rows must be int"):
        Profile.from_dict({**data, "rows": 1.5})
    with pytest.raises(InputError, match="phase field reads"):
        Profile.from_dict({**data, "phases": [{"reads": ["four"]}]})
