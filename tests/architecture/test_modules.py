"""The manners that every module keeps, read off the source: size, names, docstrings, where imports stand, and what the kernel may not call."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "icefloe"
FRONT_DOOR = PACKAGE / "__init__.py"
SIDE_DOORS = {"catalog", "inspect", "procedures", "table", "spark"}  # packages that users import from by name, as PyIceberg's users do
MODULES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES_OF_A_FILE = 600
MOST_LINES_OF_A_FUNCTION = 70
LONGER_FILES: dict[str, str] = {}  # path under src/icefloe: why it is longer
LONGER_FUNCTIONS: dict[str, str] = {}  # "path:function": why it is longer

NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "common", "base", "manager", "core", "misc"}

# What the kernel may not call, and what it asks instead. (module or class, attribute); a bare name has no module.
IMPURE_CALLS = {
    ("time", "time"): "Clock",
    ("datetime", "now"): "Clock",
    ("datetime", "utcnow"): "Clock",
    ("datetime", "today"): "Clock",
    ("date", "today"): "Clock",
    ("uuid", "uuid1"): "IdSource",
    ("uuid", "uuid4"): "IdSource",
    ("pa", "OSFile"): "FileIO",
    ("pa", "memory_map"): "FileIO",
    ("", "uuid4"): "IdSource",
    ("", "open"): "FileIO",
    ("", "print"): "a returned value",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(PACKAGE)}" + (f":{line}" if line else "")


def refuse(found: Iterable[str]) -> None:
    """Fails with every place, one a line."""
    places = list(found)
    if places:
        pytest.fail("\n" + "\n".join(places), pytrace=False)


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, Function))


def test_there_are_modules_to_look_at() -> None:
    assert FRONT_DOOR in MODULES
    assert len(MODULES) > 20


def test_every_module_opens_with_a_docstring() -> None:
    refuse([named(path) for path in MODULES if not ast.get_docstring(tree_of(path))])


def test_every_public_function_and_class_of_a_module_has_a_docstring() -> None:
    bare = [
        f"{named(path, node.lineno)}: {node.name}"
        for path in MODULES
        if path.name != "errors.py"  # its classes are drawn and explained as one tree
        for node in tree_of(path).body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        # The forms of an overloaded function are explained by the function itself, which comes last.
        and "overload" not in {getattr(one, "id", "") for one in node.decorator_list}
    ]
    refuse(bare)


def only_names_things(node: ast.stmt) -> bool:
    """`from x import y as y`, the form that says the name is meant for users."""
    return isinstance(node, ast.ImportFrom) and all(alias.asname == alias.name for alias in node.names)


def test_a_package_holds_only_its_docstring_but_for_the_public_doors() -> None:
    rooms = [path for path in MODULES if path.name == "__init__.py" and path != FRONT_DOOR]
    refuse([named(path) for path in rooms if path.parent.name not in SIDE_DOORS and len(tree_of(path).body) > 1])
    refuse([named(path) for path in rooms if not all(only_names_things(node) for node in tree_of(path).body[1:])])


def test_no_import_stands_inside_a_function() -> None:
    inside = [
        named(path, node.lineno)
        for path in MODULES
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    refuse(inside)


def test_imports_are_absolute_and_never_of_the_front_door() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            relative = isinstance(node, ast.ImportFrom) and node.level > 0
            door = (isinstance(node, ast.ImportFrom) and node.module == "icefloe") or (
                isinstance(node, ast.Import) and any(alias.name == "icefloe" for alias in node.names)
            )
            if relative or door:
                wrong.append(named(path, node.lineno))
    refuse(wrong)


def test_all_is_defined_by_the_front_door_alone() -> None:
    refuse([named(path) for path in MODULES if path != FRONT_DOOR and "__all__" in path.read_text()])


def test_files_stay_short() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in MODULES}
    refuse(f"{name}: {lines}" for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE and name not in LONGER_FILES)
    assert [name for name in LONGER_FILES if lengths.get(name, 0) <= MOST_LINES_OF_A_FILE] == [], "an exception that is no longer needed"


def test_functions_stay_short() -> None:
    lengths = {
        f"{named(path)}:{node.name}": node.end_lineno - node.lineno + 1 for path in MODULES for node in functions(path) if node.end_lineno
    }
    refuse(f"{name}: {lines}" for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION and name not in LONGER_FUNCTIONS)
    assert [name for name in LONGER_FUNCTIONS if lengths.get(name, 0) <= MOST_LINES_OF_A_FUNCTION] == [], (
        "an exception that is no longer needed"
    )


def test_no_module_has_a_name_that_says_nothing() -> None:
    refuse([named(path) for path in MODULES if NAMES_THAT_SAY_NOTHING & {*path.relative_to(PACKAGE).parts[:-1], path.stem}])


def test_nothing_is_left_unwritten() -> None:
    unwritten = [
        named(path, node.lineno)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)
    ]
    refuse(unwritten)


def impure_calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, what to ask instead) of every call that the kernel may not make."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name):
            key = ("", called.id)
        elif isinstance(called, ast.Attribute):
            key = (ast.unparse(called.value).rpartition(".")[2], called.attr)
        else:
            continue
        if key in IMPURE_CALLS:
            yield node.lineno, IMPURE_CALLS[key]


def test_the_kernel_asks_its_ports_for_time_ids_and_bytes() -> None:
    impure = [
        f"{named(path, line)}: use {instead}" for path in MODULES if "kernel" in path.parts for line, instead in impure_calls(tree_of(path))
    ]
    refuse(impure)


def test_an_impure_call_is_seen_however_it_is_spelled() -> None:
    spelled = "import datetime, uuid\ndatetime.datetime.now()\nuuid.uuid4()\nopen('x')\ndatetime.date.today()\nuuid.UUID(int=1)\n"
    assert [line for line, _ in impure_calls(ast.parse(spelled))] == [2, 3, 4, 5]


def test_importing_everything_but_the_spark_room_leaves_pyspark_unloaded() -> None:
    names = [".".join(["icefloe", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__") for path in MODULES]
    wanted = [name for name in names if name.split(".")[1:2] != ["spark"]]
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script, *wanted], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
