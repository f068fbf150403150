"""Modules that a real TVM 0.19 saved: JSON and text give one Relax module, with 0.19's outputs.

More such modules can be put to the test by naming their folder in RELAY_SAVED_MODULES.
"""

import json
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
from relay.case import run

from tvm_stitch import relay
from tvm_stitch.verify import verify

_FOLDERS = [Path(__file__).parent / "saved"]
_FOLDERS += [Path(p) for p in os.environ.get("RELAY_SAVED_MODULES", "").split(os.pathsep) if p]
_SAVED = [
    pytest.param(path.with_name(path.name.removesuffix(".spec.json")), id=path.name.split(".")[0])
    for folder in _FOLDERS
    for path in sorted(folder.glob("*.spec.json"))
]


def _input(name: str, shape: list[int], dtype: str) -> np.ndarray:
    """The array of that name, as it was made when the outputs were computed."""
    random = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    if dtype.startswith("int"):
        values = random.randint(0, 8, shape)
    elif name.endswith("var"):
        values = random.rand(*shape) * 0.5 + 0.75
    else:
        fan_in = np.prod(shape[1:]) if len(shape) > 1 else 16
        values = random.standard_normal(shape) / np.sqrt(max(fan_in, 1)) * 1.4
    return np.asarray(values).astype(dtype)


def _inputs(path: Path) -> dict[str, np.ndarray]:
    spec = json.loads(path.with_name(path.name + ".spec.json").read_text())
    return {p["name"]: _input(p["name"], p["shape"], p["dtype"]) for p in spec["params"]}


@pytest.mark.parametrize("path", _SAVED)
def test_json_and_text_are_one_module(path):
    from_json = relay.load(path.with_name(path.name + ".json"))
    from_text = relay.load(path.with_name(path.name + ".relay").read_text())
    assert tvm_ffi.structural_equal(from_json, from_text), tvm_ffi.get_first_structural_mismatch(
        from_json, from_text
    )


@pytest.mark.parametrize("path", _SAVED)
@pytest.mark.slow
def test_outputs_are_those_of_tvm_0_19(path):
    outputs = run(relay.load(path.with_name(path.name + ".json")), _inputs(path).values())
    expected = np.load(path.with_name(path.name + ".npz"))
    assert len(outputs) == len(expected.files)
    for have, name in zip(outputs, expected.files, strict=True):
        want = expected[name]
        assert have.shape == want.shape and have.dtype == want.dtype
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(have, want)
        else:
            assert np.abs(have - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("path", _SAVED)
@pytest.mark.slow
def test_parameters_can_be_bound(path):
    """All but the first parameter become constants; the outputs stay."""
    inputs = _inputs(path)
    first, *rest = inputs
    model = relay.build(
        path.with_name(path.name + ".json"), "llvm", params={name: inputs[name] for name in rest}
    )
    assert model.input_names == [first]
    model.run(**{first: inputs[first]})
    expected = np.load(path.with_name(path.name + ".npz"))
    for i, name in enumerate(expected.files):
        want = expected[name].astype("float64")
        have = model.get_output(i).numpy()
        assert np.abs(have - want).max() <= 2e-5 * max(np.abs(want).max(), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("path", _SAVED)
def test_stitched_kernels_are_right(path):
    mod = relay.load(path.with_name(path.name + ".json"))
    found = verify(mod, "cuda", inputs=list(_inputs(path).values()))
    assert found.ok, str(found)
    assert found.kernels
