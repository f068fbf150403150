"""The figures that README and the documentation tell are what was measured, and is in the code."""

import json
import os
import re
from importlib import metadata

import pytest
from documents import ROOT, blocks

from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.stages.patterns.matmul_pattern import (
    FEW_ROWS,
    MAX_COLUMNS,
    MAX_CONTRACTED,
    MAX_CONTRACTED_OF_FEW,
    MAX_OUTPUTS,
    SHALLOW,
)

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXACT = "concepts/exactness"


def page(name: str) -> str:
    """A page of the documentation."""
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def test_the_scripts_are_there_and_may_be_run():
    scripts = re.findall(r"^(\./\S+)", README, re.M)
    assert scripts == ["./demo.sh", "./test.sh"]
    for script in (*scripts, ".ci/run"):
        assert os.access(ROOT / script, os.X_OK), script


@pytest.mark.filterwarnings("ignore:the model's tensors lie on cpu")
def test_the_first_lines_for_pytorch_find_the_backend():
    torch = pytest.importorskip("torch")
    if not metadata.entry_points(group="torch_dynamo_backends", name="tvm_stitch"):
        pytest.skip("the package is not installed")
    torch._dynamo.reset()
    model = torch.nn.LayerNorm(8)
    names = {"model": model}
    exec(compile(blocks(ROOT / "README.md")[0].text, "README in PyTorch", "exec"), names)
    x = torch.randn(3, 8)
    torch.testing.assert_close(names["model"](x), model(x))


def test_readme_is_short():
    assert len(README.splitlines()) < 130


def test_the_schemes_are_all_there_are():
    assert tuple(re.findall(r"^\| `(\w+)` \|", page("concepts/stitching"), re.M)) == SCHEMES


def test_small_products_are_as_small_as_it_says():
    text = page("concepts/stitching")
    limits = re.search(r"sums over up to (\d+) elements, rows of up to (\d+) results", text)
    assert limits
    assert tuple(map(int, limits.groups())) == (MAX_CONTRACTED, MAX_COLUMNS)
    shallow = re.search(
        r"\(sums over up to (\d+) elements, rows of up to (\d+) results, as where", text
    )
    assert shallow
    assert tuple(map(int, shallow.groups())) == (SHALLOW, MAX_OUTPUTS)
    of_few = re.search(r"up to (\d+) rows\s+with sums over up to (\d+) elements", text)
    assert of_few
    assert tuple(map(int, of_few.groups())) == (FEW_ROWS, MAX_CONTRACTED_OF_FEW)


def test_the_headline_table_is_what_was_measured():
    stored = json.loads((ROOT / "bench/results/h200/subgraphs.json").read_text(encoding="utf-8"))
    names = {case["title"]: name for name, case in stored["cases"].items()}
    measured = {(row["case"], row["system"]): row for row in stored["rows"]}
    table = re.findall(r"^\| (.+) \|$", page("concepts/performance"), re.M)
    lines = [line.split(" | ") for line in table if line.split(" | ")[0] in names]
    assert len(lines) == 15
    for title, copy, *cells in lines:
        case = names[title]
        assert float(copy) == pytest.approx(stored["cases"][case]["copy_us"], rel=0.02)
        for system, cell in zip(("stitch", "inductor", "xla", "tvm"), cells[:4], strict=True):
            row = measured[case, system]
            if row["us"] is None:
                assert cell == row["status"]
                continue
            time, kernels = cell.split(" / ")
            assert float(time) == pytest.approx(row["us"], rel=0.01)
            assert int(kernels) == row["kernels"]


def test_what_tuning_gained_is_what_was_measured():
    pattern = (
        r"gained (\S+) % in the geometric\s+mean of (\d+)\s+benchmark kernels and\s+(\d+) % at most"
    )
    told = re.search(pattern, page("guides/tuning"))
    text = (ROOT / "bench/results/h200/tuning/tuning.md").read_text(encoding="utf-8")
    measured = re.search(r"^(\d+) kernels; geometric mean gain (\S+);", text)
    rows = re.findall(r"^\|[^|]+\|[^|]+\| [\d.]+ \| [\d.]+ \| (\S+) \|", text, re.M)
    gains = [float(gain) for gain in rows]
    assert told and measured
    assert int(told[2]) == int(measured[1])
    assert float(told[1]) / 100 == pytest.approx(float(measured[2]) - 1, abs=5e-4)
    assert int(told[3]) == round(100 * (max(gains) - 1))


def test_what_watched_the_kernels_found_nothing():
    (count,) = re.findall(r"in any kernel of the (\d+) benchmark\s+cases", page(EXACT))
    (repeats,) = re.findall(r"in each of the (\d+)\s+benchmark cases", page(EXACT))
    stored = json.loads((ROOT / "bench/results/h200/watched/sanitize.json").read_text("utf-8"))
    assert stored["tools"] == ["memcheck", "racecheck", "synccheck"]
    assert len(stored["cases"]) == int(count)
    assert len(stored["findings"]) == int(count) * len(stored["tools"])
    assert {finding["errors"] for finding in stored["findings"]} == {0}
    repeated = json.loads((ROOT / "bench/results/h200/watched/determinism.json").read_text("utf-8"))
    assert len(repeated["rows"]) == int(repeats)
    assert {(row["differing"], row["error"]) for row in repeated["rows"]} == {(0, "")}


def test_the_errors_of_fast_math_are_what_was_measured():
    options = re.search(r"errors up to (\S+) instead of (\S+)", page(EXACT))
    assert options
    fast, default = map(float, options.groups())
    stored = json.loads((ROOT / "bench/results/h200/watched/functions.json").read_text("utf-8"))
    errors = {(row["function"], row["way"]): row["error"] for row in stored["rows"]}
    for name in ("sigmoid", "SiLU", "erf"):
        assert fast / 2 < errors[name, "fast_math"] < fast
        assert errors[name, "default"] < 1.5 * default
