"""Every stage of a compilation as a file, whoever compiles; nothing else changes."""

import json
import threading

import pytest
import tvm
from check import H200, cuda_of, the_kernel
from library_stand_in import folder
from tensor_products import linear, linear_of_torch
from tvm import relax
from tvm.relax import op
from zoo import Case, Graph, norm_gelu_softmax, softmax

import tvm_stitch
from tvm_stitch import InputError, Options
from tvm_stitch.commands import cli, demo
from tvm_stitch.dump.folder import VARIABLE, Folder
from tvm_stitch.graph.back.dependent_launch import with_dependent_launch
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.library_product.build import LIBRARY_ATTRIBUTE
from tvm_stitch.library import locate
from tvm_stitch.simt.lowering import cuda_source

STAGES = [
    "01_relax.py",
    "02_decomposed.py",
    "03_graph.txt",
    "04_plan.txt",
    "05_programs.txt",
    "06_schedules.json",
    "07_phases.txt",
    "08_tir.py",
    "09_cuda.cu",
]
SOFTMAX = softmax("float32", 6, 1000)


def sorts_and_norms() -> Case:
    """One operator that no kernel takes beside some that do."""
    g = Graph()
    x = g.input("x", (6, 64), "float32")

    def build(emit, x):
        return emit(op.nn.softmax(emit(op.sort(x, axis=-1)), -1))

    return g.case(build, x)


def compilations(root) -> list[dict[str, str]]:
    """The stages of each compilation, by name."""
    return [
        {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.iterdir())}
        for folder in sorted(root.iterdir())
    ]


def test_a_file_for_every_stage(tmp_path):
    tvm_stitch.compile(SOFTMAX.module, H200, Options(dump=tmp_path))
    (stages,) = compilations(tmp_path)
    assert list(stages) == STAGES
    assert "R.nn.softmax" in stages["01_relax.py"]
    assert (
        "R.nn.softmax" not in stages["02_decomposed.py"] and "R.exp" in stages["02_decomposed.py"]
    )
    assert "row_reduction" in stages["03_graph.txt"] and "exp(" in stages["03_graph.txt"]
    assert "launches and" in stages["04_plan.txt"]
    assert "program over 6 rows x 1000 columns" in stages["05_programs.txt"]
    (schedule,) = json.loads(stages["06_schedules.json"]).values()
    assert Schedule.from_json(json.dumps(schedule["tvm_stitch.schedule"])).scheme == "regional"
    assert "phase 2\n    finds compute\n    stores T_divide" in stages["07_phases.txt"]
    assert "threadIdx.x" in stages["08_tir.py"]
    assert "__global__" in stages["09_cuda.cu"]


def test_the_cuda_is_what_is_compiled(tmp_path):
    executable = tvm_stitch.compile(SOFTMAX.module, H200, Options(dump=tmp_path))
    (stages,) = compilations(tmp_path)
    assert stages["09_cuda.cu"].strip() == cuda_source(executable).strip()


@pytest.mark.parametrize("case", [norm_gelu_softmax("float16"), linear("float16", 40, 128, 264)])
def test_nothing_changes(case, tmp_path):
    plain = tvm_stitch.compile(case.module, H200)
    dumped = tvm_stitch.compile(case.module, H200, Options(dump=tmp_path))
    assert cuda_source(plain) == cuda_source(dumped)
    assert len(compilations(tmp_path)) == 1


def test_products_on_tensor_cores_and_what_is_left_to_tvm(tmp_path):
    tvm_stitch.compile(linear("float16", 40, 128, 264).module, H200, Options(dump=tmp_path))
    tvm_stitch.compile(sorts_and_norms().module, H200, Options(dump=tmp_path))
    product, sort = compilations(tmp_path)
    assert "product of 40 x 128 x 264" in product["05_programs.txt"]
    assert "tvm_stitch.tiles" in product["06_schedules.json"]
    assert "sort is left to TVM" in sort["04_plan.txt"]


def test_products_of_few_rows(tmp_path):
    case = linear_of_torch("float16", 4, 512, 1000)
    tvm_stitch.compile(case.module, H200, Options(dump=tmp_path))
    (product,) = compilations(tmp_path)
    assert "product of 4 x 512 x 1000" in product["05_programs.txt"]
    assert "tvm_stitch.skinny_tiles" in product["06_schedules.json"]


def test_in_somebody_elses_compile(tmp_path):
    pipeline = tvm_stitch.pipeline(H200, Options(dump=tmp_path))
    executable = tvm.compile(SOFTMAX.module, H200, relax_pipeline=pipeline)
    (stages,) = compilations(tmp_path)
    assert list(stages) == STAGES
    assert stages["09_cuda.cu"].strip() == cuda_source(executable).strip()


def test_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "stages"))
    tvm_stitch.compile(SOFTMAX.module, H200)
    tvm_stitch.compile(SOFTMAX.module, H200, Options(dump=tmp_path / "others"))
    assert len(compilations(tmp_path / "stages")) == len(compilations(tmp_path / "others")) == 1
    monkeypatch.setenv(VARIABLE, "")
    tvm_stitch.compile(SOFTMAX.module, H200)
    assert len(compilations(tmp_path / "stages")) == 1


def test_explain_and_verify_write_them_too(tmp_path):
    tvm_stitch.explain(SOFTMAX.module, H200, Options(dump=tmp_path))
    tvm_stitch.verify(SOFTMAX.module, H200, orders=1, options=Options(dump=tmp_path))
    for stages in compilations(tmp_path):
        assert list(stages) == STAGES and "__global__" in stages["09_cuda.cu"]


def test_each_compilation_has_a_folder(tmp_path):
    pipeline = tvm_stitch.pipeline(H200, Options(dump=tmp_path))
    for columns in (100, 200):
        tvm.compile(softmax("float32", 6, columns).module, H200, relax_pipeline=pipeline)
    first, second = compilations(tmp_path)
    assert "6 rows x 100 columns" in first["05_programs.txt"]
    assert "6 rows x 200 columns" in second["05_programs.txt"]


def test_threads_do_not_share_a_folder(tmp_path):
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(Folder.within(tmp_path) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({folder.path for folder in found}) == 80


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="cannot write the stages of the compilation to"):
        tvm_stitch.compile(SOFTMAX.module, H200, Options(dump=file))
    with pytest.raises(InputError, match=VARIABLE):
        pipeline = tvm_stitch.pipeline(H200, Options(dump=file / "below"))
        tvm.compile(SOFTMAX.module, H200, relax_pipeline=pipeline)
    with pytest.raises(InputError, match="dump must name a folder"):
        Options(dump=3)


def test_a_module_without_operators(tmp_path):
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    tvm_stitch.compile(builder.get(), H200, Options(dump=tmp_path))
    (stages,) = compilations(tmp_path)
    assert stages["09_cuda.cu"] == "// no kernels\n"


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys):
    model = tmp_path / "block.json"
    model.write_text(tvm.ir.save_json(demo.block(1, 2, 16, 32)))
    dump = tmp_path / "stages"
    output = str(tmp_path / "block.so")
    assert cli.main(["compile", str(model), "-o", output, "--dump", str(dump)]) == 0
    assert cli.main(["explain", str(model), "--dump", str(dump)]) == 0
    assert [list(stages) for stages in compilations(dump)] == [STAGES, STAGES]
    capsys.readouterr()
    for command in (["compile", "-o", output], ["explain"]):
        assert cli.main([*command, str(model), "--dump", str(model)]) == 2
        assert "--dump, TVM_STITCH_DUMP" in capsys.readouterr().err


def test_through_pytorch(tmp_path):
    torch = pytest.importorskip("torch")

    def run(dump, x):
        compiled = tvm_stitch.torch.compile(
            lambda x: torch.softmax(x * 2, -1),
            device="cpu-executor", target="sm_90", stitching=Options(dump=dump),
        )  # fmt: skip
        torch._dynamo.reset()
        return compiled(x)

    x = torch.randn(3, 16)
    torch.testing.assert_close(run(tmp_path / "stages", x), torch.softmax(x * 2, -1))
    (stages,) = compilations(tmp_path / "stages")
    assert list(stages) == STAGES and "__global__" in stages["09_cuda.cu"]
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="cannot write the stages"):
        run(tmp_path / "file", x)


def test_the_kernel_of_a_stage_is_the_golden_one(tmp_path):
    """Kernel by kernel: the text is that of the kernel alone, names apart."""
    tvm_stitch.compile(SOFTMAX.module, H200, Options(dump=tmp_path))
    (stages,) = compilations(tmp_path)
    kernel = cuda_of(with_dependent_launch(the_kernel(SOFTMAX.module)), name="main")
    body = kernel[kernel.rindex("main_kernel(") :].partition("(")[2]
    assert body.strip() in stages["09_cuda.cu"]


@pytest.mark.slow
def test_calls_of_a_library_are_among_the_schedules(tmp_path, monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    tvm_stitch.explain(linear("float16", 2048, 4096, 1024).module, H200, Options(dump=tmp_path))
    (stages,) = compilations(tmp_path)
    (found,) = json.loads(stages["06_schedules.json"]).values()
    assert found[LIBRARY_ATTRIBUTE]["function"] == "matmul"
