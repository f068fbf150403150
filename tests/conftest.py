"""What all tests share: the options that renew golden files and take a sample of the tests."""

import inspect
import os
import zlib
from collections import defaultdict

import pytest

FAST_CASES = 1


def pytest_configure(config: pytest.Config) -> None:
    # Nobody's cache is read or written, nor by processes that tests start; the executor's objects
    # are kept for other runs in the folder for temporary files.
    os.environ["TVM_STITCH_CACHE"] = "off"
    # Plans are the same on machines that have NVIDIA's libraries, tests of these aside.
    os.environ["TVM_STITCH_LIBRARIES"] = "off"
    if not config.getoption("numprocesses", None):  # the process that has workers reads no tests
        _quick_scripts()


def _quick_scripts() -> None:
    """TVMScript asks for the stack at every function it reads: half a second each in pytest."""
    from tvm_stitch.workarounds.light_stacks import frames

    inspect.stack = frames


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew", action="store_true", help="write tests/kernel/golden anew; review the difference"
    )
    parser.addoption(
        "--sample", type=int, metavar="N", help="one test in N, the same ones every time"
    )


@pytest.fixture(autouse=True, scope="session")
def alone() -> None:
    """Tests patch what other processes would do as it is; those of these start their own."""
    from tvm_stitch.processes.forks import FORKS

    FORKS.begin = lambda: None  # type: ignore[method-assign]


@pytest.fixture
def grid_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids have barriers although the tensors are small enough for panels."""
    from tvm_stitch.kernel import partition
    from tvm_stitch.kernel.panels.kind import PANEL

    kinds = tuple(kind for kind in partition.KINDS if kind is not PANEL)
    monkeypatch.setattr(partition, "KINDS", kinds)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m "not slow"` does
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _spread(items)
    every = config.getoption("--sample")
    if every:
        # By name, so that neither a new test nor the order changes what the others do.
        kept = [item for item in items if zlib.crc32(item.nodeid.encode()) % every == 0]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def _spread(items: list[pytest.Item]) -> None:
    """Mark as slow what is more than a test may have of fast cases: by spread(N), or FAST_CASES.

    By name as well, which mixes whatever the cases differ in: every second one would always be of
    the same dtype.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for group in cases.values():
        marker = group[0].get_closest_marker("spread")
        (most,) = marker.args if marker else (FAST_CASES,)
        for item in sorted(group, key=lambda item: zlib.crc32(item.nodeid.encode()))[most:]:
            item.add_marker(pytest.mark.slow)
