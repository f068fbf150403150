"""Every command and code block of README and the documentation runs, and prints what it shows."""

import re
import shlex
import shutil
from collections import Counter
from importlib import metadata

import pytest
import tvm
from documents import FOR_GPUS, MADE, PAGES, ROOT, RUN, Reader, blocks, masked_softmax

from bench import cli as bench
from tvm_stitch import simt
from tvm_stitch.commands import cli

DOCS = ROOT / "docs"
BUILT = [
    path
    for path in DOCS.rglob("*")
    if path.suffix in (".md", ".svg", ".png", ".cc") and not set(MADE) & set(path.parents)
]
# Nothing is left out of the tests by the way. Those for a GPU run where there is one.
NOT_RUN = {
    FOR_GPUS: 4, "needs a network": 4, "needs other machines": 1, "takes minutes on a GPU": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the same model in the formats that the pages name."""
    onnx = pytest.importorskip("onnx")
    torch = pytest.importorskip("torch")
    helper = onnx.helper
    folder = tmp_path_factory.mktemp("models")
    (folder / "model.json").write_text(tvm.ir.save_json(masked_softmax(4, 96)))
    types = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["batch", 96]), ("mask", [96]), ("y", ["batch", 96]))
    ]
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(nodes, "softmax", types[:2], types[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    onnx.save(model, folder / "model.onnx")
    program = torch.export.export(torch.nn.Softmax(-1), (torch.randn(4, 96),))
    torch.export.save(program, folder / "model.pt2")
    shutil.copy(ROOT / "docs/examples/run_model.cc", folder)
    return folder


@pytest.mark.skipif(simt.available() is not None, reason="needs g++")
@pytest.mark.filterwarnings("ignore:the model's tensors lie on cpu")
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=() if p.name == "README.md" else pytest.mark.slow) for p in PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_a_page_runs_from_top_to_bottom(page, models, tmp_path, monkeypatch):
    if not any(block.runs() for block in blocks(page)):
        pytest.skip("nothing on it runs")
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    torch = pytest.importorskip("torch")
    given = {"model": torch.nn.LayerNorm(8), "module": masked_softmax(4, 96)}
    Reader(page, names=given if page.name == "README.md" else {}).read()


@pytest.mark.skipif(not tvm.cuda(0).exist, reason="needs a GPU")
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if FOR_GPUS in p.read_text(encoding="utf-8")],
    ids=lambda page: page.stem,
)
def test_a_page_runs_on_a_gpu(page, models, tmp_path, monkeypatch):
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    Reader(page, on_gpu=True).read()


def test_what_does_not_run_says_why():
    every = [(page, block) for page in PAGES for block in blocks(page)]
    assert Counter(block.reason for _, block in every if block.reason) == NOT_RUN
    for page, block in every:
        known = (*RUN, "text", "c++")
        assert block.language in known or block.language.startswith("{"), (page, block.line)


def test_what_does_not_run_is_well_formed():
    """Python compiles, commands have these arguments, the extras of installations exist."""
    extras = set(metadata.metadata("tvm_stitch").get_all("Provides-Extra"))
    commands = 0
    for block in (block for page in PAGES for block in blocks(page) if block.reason):
        if block.language == "python":
            compile(block.text, f"line {block.line}", "exec")
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            assert set(re.findall(r"\w+", " ".join(re.findall(r"\[(.*?)\]", line)))) <= extras
            if words[:1] == ["tvm-stitch"]:
                is_bench = words[1] == "bench"
                parser, arguments = (bench, words[2:]) if is_bench else (cli, words[1:])
                parser.parser().parse_args(arguments)
                commands += 1
    assert commands >= 5


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(((?!https?:)[^)#\s]+)", text):
            assert (page.parent / link).exists(), (page, link)
        for path in re.findall(r"`((?:bench|tutorials|tvm_stitch)/[\w/.]+)`", text):
            assert (ROOT / path).exists(), (page, path)


def test_every_page_and_picture_is_shown_somewhere():
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for path in BUILT:
        if path.name == "index.md":
            continue
        name = path.stem if path.suffix == ".md" else path.name
        assert any(name in text for page, text in texts.items() if page != path), path


def test_links_to_tutorials_lead_to_pages_that_are_made_of_one():
    links = {
        link
        for page in PAGES
        for link in re.findall(r"</tutorials/(\w+)>", page.read_text(encoding="utf-8"))
    }
    assert len(links) > 5
    assert links <= {script.stem for script in (ROOT / "tutorials").glob("*.py")}


def test_tasks_have_an_answer_and_one_page_that_says_more():
    text = (DOCS / "how_do_i.md").read_text(encoding="utf-8")
    tasks = text.split("\n## ")[1:]
    assert len(tasks) >= 10
    for task in tasks:  # an answer, and one page with more
        assert len(re.findall(r"\]\([\w/.#-]+\.md", task)) == 1, task


def test_every_variable_of_the_environment_is_in_the_list():
    text = (DOCS / "reference/environment.md").read_text(encoding="utf-8")
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tvm_stitch").rglob("*.py"))
    used = {name for source in sources for name in re.findall(r"\bTVM_STITCH_[A-Z_]+\b", source)}
    assert used == set(re.findall(r"`(TVM_STITCH_[A-Z_]+)`", text))


def test_the_troubleshooters_messages_are_the_packages():
    """Words of a message are the code's, but for what stands in for a part of it."""
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tvm_stitch").rglob("*.py"))
    plain = re.sub(r'"\s*\n\s*f?"', "", sources)  # strings that go on in the next line
    plain = re.sub(r"\{[^{}]*\}", "…", plain)
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| (`.*?) \|", text, re.M):
        for message in re.findall(r"`([^`]+)`", row):
            for part in filter(None, (each.strip(" :") for each in message.split("…"))):
                assert part in plain, message
