"""The tutorial runs as it is printed."""

import runpy
from pathlib import Path

_TUTORIAL = Path(__file__).parents[3] / "tutorials" / "relay_build.py"


def test_tutorial_runs(capsys):
    output = runpy.run_path(str(_TUTORIAL))["output"]
    assert output.shape == (2, 4)
    assert "the output is NumPy's" in capsys.readouterr().out


def test_every_old_line_has_its_new_form():
    text = _TUTORIAL.read_text()
    for old in ("relay.build", "set_input", "get_output", "benchmark", "export_library"):
        assert old in text
    assert text.count("# was") >= 8
