"""diff: what changed between two reports or profiles, for people, programs and their CI."""

import json

import pytest
from pages import kernel, report

from tvm_stitch.commands.cli import main
from tvm_stitch.errors import InputError
from tvm_stitch.report.diff import compare, load

OLD = report([0, 1], [kernel(0), kernel(1, ops=["add", "exp"])])


def profile(data, **measured):
    kernels = [{"name": each["name"], "measured_us": None} for each in data["kernels"]]
    for each in kernels:
        each["measured_us"] = measured.get(each["name"], 1.0)
    return {"version": 1, "report": data, "measured": True, "kernels": kernels}


def test_nothing():
    found = compare(OLD, OLD)
    assert found.is_nothing and found.launches == (2, 2)
    assert str(found) == "launches 2 -> 2; predicted 5.0 -> 5.0 us\nno kernel differs"


def test_names_do_not_count():
    renamed = report([0, 1], [kernel(0), kernel(1, ops=["add", "exp"], name="another")])
    assert compare(OLD, renamed).is_nothing


def test_kernels_that_appeared_and_went():
    new = report([0, 1], [kernel(0), kernel(1, ops=["add", "exp", "tanh"])])
    found = compare(OLD, new)
    assert [each["ops"] for each in found.appeared] == [["add", "exp", "tanh"]]
    assert [each["ops"] for each in found.went] == [["add", "exp"]]
    assert "+ kernel_1 (add, exp, tanh): warp, 3.00 us" in str(found)
    assert "- kernel_1 (add, exp): warp, 3.00 us" in str(found)


def test_the_same_operators_on_other_bytes_are_another_kernel():
    new = report([0, 1], [kernel(0, bytes_min=1), kernel(1, ops=["add", "exp"])])
    found = compare(OLD, new)
    assert len(found.appeared) == len(found.went) == 1


def test_what_changed_is_said_field_by_field():
    new = report([0, 1], [kernel(0, mapping="64 threads per row"), kernel(1, ops=["add", "exp"])])
    (change,) = compare(OLD, new).changed
    assert change.fields == {"mapping": ("32 threads per row", "64 threads per row")}


def test_slower_and_faster_beyond_the_tolerance():
    new = report([0, 1], [kernel(0, predicted_us=2.05), kernel(1, ops=["add", "exp"])])
    assert compare(OLD, new).is_nothing
    (slower,) = compare(OLD, new, tolerance=0.01).slower
    assert slower.ratio == pytest.approx(1.025)
    (faster,) = compare(new, OLD, tolerance=0.01).faster
    assert faster.name == "kernel_0"


def test_measured_times_are_compared_where_both_have_them():
    found = compare(profile(OLD), profile(OLD, kernel_0=2.0))
    assert found.times == "measured" and found.us == (2.0, 3.0)
    assert [change.name for change in found.slower] == ["kernel_0"]
    assert compare(OLD, profile(OLD, kernel_0=2.0)).is_nothing  # both are predicted


def test_equal_kernels_are_paired_one_by_one():
    twins = [kernel(0, name="a", scheme="warp"), kernel(0, name="b", scheme="local")]
    assert compare(report([0, 1], twins), report([0, 1], twins[::-1])).is_nothing


def written(folder, name, data):
    (folder / name).write_text(json.dumps(data))
    return str(folder / name)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 0), (("--fail-on", "slower"), 1), (("--fail-on", "any"), 1),
     (("--fail-on", "slower", "--tolerance", "60"), 0)],
)  # fmt: skip
def test_exit_codes(tmp_path, capsys, arguments, code):
    new = report([0, 1], [kernel(0, predicted_us=3.0), kernel(1, ops=["add", "exp"])])
    files = written(tmp_path, "old.json", OLD), written(tmp_path, "new.json", new)
    assert main(["diff", *files, *arguments]) == code
    is_said = "slower: kernel_0" in capsys.readouterr().out
    assert is_said == ("--tolerance" not in arguments)


def test_as_json(tmp_path, capsys):
    files = written(tmp_path, "old.json", OLD), written(tmp_path, "new.json", profile(OLD))
    assert main(["diff", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["launches"] == [2, 2] and found["appeared"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[]", "no report or profile"), ('{"kernels": [{}]}', "has no name"),
     ('{"kernels": [3]}', "has no name"), ('{"report": 3}', "no report or profile")],
)  # fmt: skip
def test_files_that_are_no_report(tmp_path, text, message):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load(path)
    with pytest.raises(InputError, match=r"cannot read \S+missing.json: No such file[\w ]+$"):
        load(tmp_path / "missing.json")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="no report or profile: write one"):
        load(path)
