"""Which room may import which (ARCHITECTURE.md), and that nothing imports in a circle."""

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from rooms import KERNEL, MODULES, ROOT, is_in

PACKAGE = ROOT / "tvm_stitch"
BELOW = ("errors", "device", "json_data", "library", "stages")  # what every room may import
# What the others must not know.
FORBIDDEN = {
    "stages": ("kernel", "graph", "plan", "tuning", "report", "simt", "transform", "device"),
    "kernel": ("graph", "plan", "tuning", "report", "simt", "transform", "build", "options"),
    "graph.front": ("graph.back", "kernel", "plan", "tuning", "report", "transform"),
    "graph.back": ("plan", "tuning", "report", "transform"),
    "plan": ("tuning", "report", "transform", "build", "graph.back"),
    "plan.regions": ("plan.search", "plan.planner", "plan.region_plan", "plan.solve", "plan.pack"),
    "plan.search": ("plan.planner", "plan.region_plan", "plan.solve", "plan.pack"),
    "tuning": ("report",),
    "simt": ("kernel", "graph", "plan", "tuning", "report"),
    "library": ("kernel", "graph", "plan", "tuning", "report", "simt", "transform", "options"),
    "reference": ("kernel", "graph", "plan", "tuning", "report", "simt"),
}


def imports(module: str) -> set[str]:
    """The modules that one imports, anywhere in it and be it for types alone."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else str(node.module) for name in named}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{module}: a relative import"
    return found & set(MODULES) - {module}


@cache
def all_imports() -> dict[str, set[str]]:
    return {module: imports(module) for module in MODULES}


def parts() -> dict[str, set[str]]:
    """A package's __init__ says what is public; whoever needs a part of it imports that."""
    return {module: found - {"tvm_stitch"} for module, found in all_imports().items()}


def test_no_module_imports_itself_by_way_of_others():
    try:
        TopologicalSorter(parts()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_rooms_of_the_kernel_import_what_is_below():
    level = {room: number for number, rooms in enumerate(KERNEL) for room in rooms}
    for module, found in all_imports().items():
        own = [room for room in level if is_in(module, room)]
        for imported in found if own else ():
            other = [room for room in level if is_in(imported, room)]
            allowed = own == other or any(level[room] < level[own[0]] for room in other)
            assert allowed or any(is_in(imported, room) for room in BELOW), (module, imported)


def test_every_module_of_the_kernel_is_in_a_room():
    rooms = [room for line in KERNEL for room in line]
    inside = [m for m in MODULES if is_in(m, "kernel") and m != "tvm_stitch.kernel"]
    assert [m for m in inside if not any(is_in(m, room) for room in rooms)] == []


@pytest.mark.parametrize("room", FORBIDDEN)
def test_what_a_room_must_not_know(room):
    found = [
        (module, imported)
        for module, wanted in all_imports().items()
        for imported in wanted
        if is_in(module, room) and any(is_in(imported, other) for other in FORBIDDEN[room])
    ]
    assert found == []


def test_no_folder_holds_more_than_one_can_take_in():
    """What counts are modules of the package, the folder's own `__init__` and sub-folders aside."""
    modules = (path for path in MODULES.values() if path.name != "__init__.py")
    folder, count = Counter(path.parent for path in modules).most_common(1)[0]
    assert count <= 14, (folder, count)


def test_no_file_is_longer_than_one_can_take_in():
    native = [path for end in ("cc", "h", "c", "cu") for path in PACKAGE.rglob(f"*.{end}")]
    assert len(native) > 20
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for path in (*MODULES.values(), *native)
    }
    longest = max(lines, key=lambda path: lines[path])
    assert lines[longest] <= 400, (longest, lines[longest])


def test_every_function_fits_a_screen():
    """Its docstring is part of it, what decorates it is not."""
    found = [
        (node.end_lineno - node.lineno + 1, module, node.name)
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(found) > 1000
    assert [function for function in found if function[0] > 60] == []
