"""Whether two commits generate the same CUDA is seen token by token, names apart."""

import pytest

pytest.importorskip("torch", reason="the cases are PyTorch's modules")

from bench.generated import main, same_but_for_names

OLD = "float turn = x[threadIdx.x] + 1.5f; y[threadIdx.x] = turn;"


@pytest.mark.parametrize(
    "new, same",
    [
        (OLD, True),
        ("float iteration =  x[threadIdx.x] + 1.5f;\n  y[threadIdx.x] = iteration;", True),
        ("float turn = x[threadIdx.x] + 1.25f; y[threadIdx.x] = turn;", False),
        ("float turn = x[threadIdx.x] + 1.5f; y[threadIdx.x] = x;", False),
        ("float x = x[threadIdx.x] + 1.5f; y[threadIdx.x] = x;", False),
        ("float turn = x[threadIdx.x] - 1.5f; y[threadIdx.x] = turn;", False),
        (OLD + " __syncthreads();", False),
    ],
)
def test_same_but_for_names(new, same):
    assert same_but_for_names(OLD, new) == same_but_for_names(new, OLD) == same


def test_cases_are_written_and_compared(tmp_path, capsys):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        assert main(["write", str(folder), "lstm-cell"]) == 0
    assert "__global__" in (old / "lstm-cell.cu").read_text()
    assert main(["compare", str(old), str(new)]) == 0
    text = (new / "lstm-cell.cu").read_text()
    (new / "lstm-cell.cu").write_text(text.replace("threadIdx.x", "threadIdx.y", 1))
    (new / "another.cu").write_text("")
    capsys.readouterr()
    assert main(["compare", str(old), str(new)]) == 1
    assert capsys.readouterr().out.split() == ["another", "lstm-cell"]
