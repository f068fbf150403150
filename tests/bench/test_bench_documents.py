"""The command line, tables, plots and comparison, from stored results and without a GPU."""

import copy
import json
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

torch = pytest.importorskip("torch")

import bench  # noqa: E402
from bench import compare, dram, environment, table  # noqa: E402
from bench.progress import Progress, duration  # noqa: E402
from bench.results import CaseInfo, Results, ResultsError, Row  # noqa: E402
from bench.systems import why_missing  # noqa: E402


@pytest.fixture
def results():
    found = Results(
        run={"command": "python -m bench", "date": "2026-01-01", "commit": "abc",
             "versions": {"torch": "2"}},
        machine={"gpu": "Test GPU", "driver": "1.2", "copy_gbs": 1000.0, "fp32_tflops": 60.0},
        missing={"quack": "quack is not installed"},
    )  # fmt: skip
    found.cases["norm"] = CaseInfo("layer norm", "peers", "subgraphs", 20_000_000, 8e7, 25.0)
    for columns in (256, 1024):
        found.cases[f"softmax-{columns}"] = CaseInfo(
            f"softmax, 32768×{columns}", "grid", "subgraphs", 65536 * columns, 1e8, 20.0,
            ["softmax", 32768, columns],
        )  # fmt: skip
    found.cases["bert"] = CaseInfo("BERT", "models", "models", 10**9, 1e12, 300.0)
    for name in found.cases:
        found.add(Row(name, "stitch", "ok", us=30.0, us_q1=29.9, us_q3=30.1, kernels=1))
        found.add(Row(name, "xla", "ok", us=40.0, us_q1=39.9, us_q3=40.1, kernels=2, copies=1,
                      wall_us=50.0, graph_us=41.0))  # fmt: skip
        found.add(Row(name, "inductor", "wrong", "error 0.5, allowed 1e-3", error=0.5))
        found.add(Row(name, "tvm", "failed", "InternalError: a | b"))
    found.row("bert", "xla").parts = [["sm90_gemm_f16", 3, 30.0], ["fusion_4", 1, 10.0]]
    return found


@pytest.fixture
def stored(results, tmp_path):
    path = tmp_path / "results.json"
    results.save(path)
    return path


# ---- results ---------------------------------------------------------------------------------


def test_results_come_back_as_they_were_stored(results, stored):
    assert Results.load(stored) == results


def test_a_row_replaces_an_older_one(results):
    results.add(Row("norm", "stitch", "ok", us=10.0))
    assert results.us("norm", "stitch") == 10.0
    assert sum((r.case, r.system) == ("norm", "stitch") for r in results.rows) == 1


def test_neither_wrong_nor_failed_rows_have_times(results):
    results.row("norm", "inductor").us = 1.0
    assert results.us("norm", "inductor") is None
    assert results.best_peer("norm") == ("xla", 40.0)


def test_matrix_products_are_told_from_the_rest(results):
    assert results.row("bert", "xla").matrix_us == 30.0
    others = Row("a", "b", "ok", parts=[
        ["void nvjet_sm90_hsh", 1, 1.0], ["ampere_sgemm_128", 1, 2.0],
        ["fused_NT_matmul_kernel", 1, 4.0], ["cudnn::fprop_implicit", 1, 8.0],
        ["wrapped_convert", 1, 16.0], ["triton_red_fused_add_0", 1, 32.0],
    ])  # fmt: skip
    assert others.matrix_us == 15.0


@pytest.mark.parametrize(
    ("content", "what"),
    [("nonsense", "no JSON"), ("[]", "no results file"), ('{"format": 99}', "no results file")],
)
def test_a_file_that_holds_no_results_is_refused(tmp_path, content, what):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ResultsError, match=what):
        Results.load(path)


# ---- tables ----------------------------------------------------------------------------------


def test_a_line_shows_time_launches_multiple_and_ratio(results):
    cells = table.line(results, "norm", results.systems())
    assert results.systems() == ["xla", "inductor", "tvm", "stitch"]
    assert cells == [
        "layer norm", "20.0", "25.0", "40.0/3 ×1.60", "wrong", "failed", "30.0/1 ×1.20",
        "0.75 XLA",
    ]  # fmt: skip


def test_the_terminal_table_is_aligned(results):
    lines = table.terminal(results).splitlines()
    assert len(lines) == 1 + len(results.cases)
    ends = {table.width(text[: text.index("XLA")]) for text in lines[1:]}
    assert len(ends) == 1


def test_markdown_says_how_and_what_failed(results):
    text = table.markdown(results)
    assert "`python -m bench`" in text
    assert "Skipped: quack: quack is not installed" in text
    assert "| layer norm | inductor | wrong | error 0.5, allowed 1e-3 |" in text
    assert "a \\| b" in text
    assert "50.0 (41.0)" in text
    assert "10.0 of 40.0" in text


def test_a_case_without_figures_is_still_in_the_tables(results):
    results.add(Row("lost", "stitch", "failed", "worker was lost"))
    assert "## not measured" in table.markdown(results)
    assert "lost" in table.terminal(results)


def test_dram_bytes_are_shown_where_they_were_counted(results):
    assert "DRAM bytes" not in table.markdown(results)
    results.row("norm", "stitch").dram_bytes = 21e6
    assert "| layer norm | – | – | – | 1.05 |" in table.markdown(results)


NCU = """==PROF== Connected
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","k","dram__bytes_read.sum","byte","1,000"
"0","1","k","dram__bytes_write.sum","byte","234"
"1","1","k2","dram__bytes_read.sum","byte","6"
"1","1","k2","dram__bytes_write.sum","byte","0"
"""


def test_counters_are_summed_over_kernels():
    assert dram.parse(NCU) == 1240
    assert dram.parse("==ERROR== no permission") is None


def test_rows_get_the_bytes_that_were_counted(results, tmp_path, monkeypatch):
    def ncu(command, **options):
        text = NCU if "stitch" in command else "==ERROR== denied"
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(subprocess, "run", ncu)
    out = Terminal(False)
    dram.measure(results, tmp_path / "r.json", None, 5.0, Progress(1, out, Terminal(False)))
    assert results.row("norm", "stitch").dram_bytes == 1240
    assert results.row("norm", "xla").dram_bytes is None
    assert results.row("norm", "tvm").dram_bytes is None
    assert "norm, xla: ncu counted nothing: ==ERROR== denied" in out.text


# ---- comparison ------------------------------------------------------------------------------


@pytest.fixture
def newer(results):
    return copy.deepcopy(results)


def lost(before, after, allowed=0.05):
    return compare.report(before, after, allowed)[1]


def test_the_same_results_are_no_change(results, newer):
    text, losses = compare.report(results, newer, 0.05)
    assert not losses
    assert "0 moved, 0 lost" in text


def test_slower_beyond_the_share_is_a_loss_and_less_is_only_named(results, newer):
    newer.row("norm", "stitch").us = 31.0
    text, losses = compare.report(results, newer, 0.05)
    assert not losses
    assert "norm, stitch: 30.0 → 31.0 µs (+3.3 %)" in text
    assert lost(results, newer, allowed=0.01)


def test_a_move_within_the_noise_is_none(results, newer):
    row = newer.row("norm", "stitch")
    row.us, row.us_q1, row.us_q3 = 33.0, 28.0, 40.0
    assert compare.changes(results, newer) == []


def test_faster_is_no_loss(results, newer):
    newer.row("norm", "stitch").us = 10.0
    assert not lost(results, newer)


def test_a_result_that_became_wrong_is_a_loss(results, newer):
    newer.add(Row("norm", "stitch", "wrong", "error 1"))
    text, losses = compare.report(results, newer, 0.05)
    assert losses
    assert "wrong: error 1" in text


def test_what_was_not_measured_again_is_no_loss(results, newer):
    newer.rows = [r for r in newer.rows if r.case == "norm"]
    assert not lost(results, newer)


# ---- plots -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_plot_is_drawn_twice(results, tmp_path):
    pytest.importorskip("matplotlib")
    from bench import plots

    written = plots.draw_all(results, tmp_path / "plots")
    names = {path.name for path in written}
    assert names == {
        f"{stem}.{kind}"
        for stem in ("bars-peers", "bars-models", "bandwidth", "roofline")
        for kind in ("png", "svg")
    }
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
    bars = "".join(ElementTree.parse(tmp_path / "plots" / "bars-peers.svg").getroot().itertext())
    for text in ("layer norm", "XLA", "tvm_stitch", "wrong", "failed", "Test GPU"):
        assert text in bars


def test_nothing_to_draw_is_said(tmp_path):
    pytest.importorskip("matplotlib")
    from bench import plots

    with pytest.raises(ResultsError, match="no times"):
        plots.draw_all(Results(), tmp_path)


# ---- command line ----------------------------------------------------------------------------


def test_list_names_cases_and_systems(capsys):
    assert bench.main(["--list"]) == 0
    text = capsys.readouterr().out
    for name in ("adam-step", "softmax-4096x262144", "stitch", "metaschedule"):
        assert name in text


def test_list_can_be_narrowed(capsys):
    assert bench.main(["--list", "--cases", "peers"]) == 0
    text = capsys.readouterr().out
    assert "adam-step" in text
    assert "sgd-momentum" not in text


def test_without_a_gpu_one_line_says_so(capsys, monkeypatch):
    monkeypatch.setattr(environment, "missing_for_measuring", lambda: "no GPU: none found")
    assert bench.main([]) == 2
    told = capsys.readouterr()
    assert told.err == "bench: no GPU: none found\n"
    assert told.out == ""


def test_what_is_missing_here_is_named():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    reason = environment.missing_for_measuring()
    assert "\n" not in reason
    assert "CUDA" in reason or "GPU" in reason


class Broken:
    def missing(self):
        raise RuntimeError("driver too old\nand more")


def test_a_system_that_does_not_load_is_missing():
    told = "it is installed but does not load: RuntimeError: driver too old"
    assert why_missing(Broken()) == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--cases", "nothing*"], "no case matches nothing*"),
        (["--systems", "eager,foo"], "unknown system foo"),
        (["--systems", ","], "none given"),
        (["--jobs", "0"], "not positive"),
        (["--suite", "all-of-it"], "invalid choice"),
        (["--compare", "one.json"], "expected 2 arguments"),
        (["--compare", "none.json", "none.json"], "none.json: No such file"),
        (["--tables", "none.json"], "none.json: No such file"),
    ],
)
def test_wrong_use_is_exit_code_2_with_a_line(capsys, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    assert bench.main(arguments) == 2
    assert told in capsys.readouterr().err


def test_help_is_no_error(capsys):
    assert bench.main(["--help"]) == 0
    assert "--resume" in capsys.readouterr().out


def test_tables_and_markdown_from_stored_results(stored, tmp_path, capsys):
    document = tmp_path / "docs" / "table.md"
    assert bench.main(["--tables", str(stored), "--markdown", str(document)]) == 0
    assert "layer norm" in capsys.readouterr().out
    assert document.read_text().startswith("# Benchmark results")


def test_compare_exits_1_on_a_loss(stored, newer, tmp_path, capsys):
    newer.row("norm", "stitch").us = 60.0
    slower = tmp_path / "slower.json"
    newer.save(slower)
    assert bench.main(["--compare", str(stored), str(stored)]) == 0
    assert bench.main(["--compare", str(stored), str(slower)]) == 1
    assert "slower by more than 5%" in capsys.readouterr().out
    assert bench.main(["--compare", str(stored), str(slower), "--allow", "150"]) == 0


def test_whatever_is_a_table_is_json_as_well(stored, newer, tmp_path, capsys):
    newer.row("norm", "stitch").us = 60.0
    slower = tmp_path / "slower.json"
    newer.save(slower)
    assert bench.main(["--tables", str(stored), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(stored.read_text())
    assert bench.main(["--compare", str(stored), str(slower), "--json"]) == 1
    worst = json.loads(capsys.readouterr().out)["changes"][0]
    assert (worst["case"], worst["system"], worst["loss"]) == ("norm", "stitch", True)
    assert worst["factor"] == worst["after_us"] / worst["before_us"]
    assert bench.main(["--list", "--json", "--cases", "peers"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "adam-step" in {case["name"] for case in listed["cases"]}
    assert "stitch" in {system["name"] for system in listed["systems"]}


# ---- progress --------------------------------------------------------------------------------


class Terminal:
    def __init__(self, live):
        self.live, self.text = live, ""

    def isatty(self):
        return self.live

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_the_bar_shows_what_is_done_and_how_long_it_takes():
    out, bar = Terminal(False), Terminal(True)
    progress = Progress(4, out, bar)
    assert progress.left() is None
    progress.phase("softmax: xla, compiling")
    progress.case_done()
    progress.line("a line")
    assert out.text == "a line\n"
    assert "1/4" in bar.text
    assert "left" in bar.text
    assert progress.left() == pytest.approx(progress.elapsed() * 3, rel=0.5)


def test_without_a_terminal_there_is_no_bar():
    out, bar = Terminal(False), Terminal(False)
    progress = Progress(4, out, bar)
    progress.phase("x")
    progress.line("a line")
    assert (out.text, bar.text) == ("a line\n", "")


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (61.2, "1:01"), (3600, "60:00")])
def test_durations(seconds, text):
    assert duration(seconds) == text
