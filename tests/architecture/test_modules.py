"""Rules for every module, checked on its source: size, names, docstrings, places of imports, and calls that pure packages must not make."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.architecture.sources import MODULES, PACKAGE, nodes_of, tree_of

ENTRY_POINT = PACKAGE / "__init__.py"
PUBLIC_PACKAGES = {
    "catalog",
    "expressions",
    "inspect",
    "repair",
    "explorer",
    "loading",
    "procedures",
    "table",
    "spark",
    "view",
}  # users import from them by name, as PyIceberg's users do
MAX_LINES_OF_A_FILE = 600
MAX_LINES_OF_A_FUNCTION = 70
LONGER_FILES: dict[str, str] = {}  # path under src/icefloe: why it is longer
LONGER_FUNCTIONS: dict[str, str] = {}  # "path:function": why it is longer

MEANINGLESS_NAMES = {"util", "utils", "helper", "helpers", "common", "base", "manager", "core", "misc"}

# Calls that `spec`, `scan` and `commit` must not make, as (module or class, attribute), and what it uses instead; a bare name has no module.
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
IMPURE_ATTRIBUTES = {attribute for _, attribute in IMPURE_CALLS}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def place_of(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(PACKAGE)}" + (f":{line}" if line else "")


def fail_at(places: Iterable[str]) -> None:
    """Fail if there are any places, and list them, one on each line."""
    lines = list(places)
    if lines:
        pytest.fail("\n" + "\n".join(lines), pytrace=False)


def functions(path: Path) -> Iterator[Function]:
    return nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef)


def test_the_modules_of_the_package_are_found() -> None:
    assert ENTRY_POINT in MODULES
    assert len(MODULES) > 20


def test_every_module_opens_with_a_docstring() -> None:
    fail_at([place_of(path) for path in MODULES if not ast.get_docstring(tree_of(path))])


def test_every_public_function_and_class_of_a_module_has_a_docstring() -> None:
    undocumented = [
        f"{place_of(path, node.lineno)}: {node.name}"
        for path in MODULES
        if path.name != "errors.py"  # its classes are described as one tree in the module's docstring
        for node in tree_of(path).body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        # The overloads of a function have no docstring; its implementation, which is last, has one.
        and "overload" not in {getattr(decorator, "id", "") for decorator in node.decorator_list}
    ]
    fail_at(undocumented)


def name_of_base(base: ast.expr) -> str:
    """Return the last part of the name of a base class, without its type arguments."""
    unsubscripted = base.value if isinstance(base, ast.Subscript) else base
    return unsubscripted.attr if isinstance(unsubscripted, ast.Attribute) else getattr(unsubscripted, "id", "")


def methods_of(node: ast.ClassDef) -> list[Function]:
    return [method for method in node.body if isinstance(method, Function)]


def parameters_of(method: Function) -> tuple[str, ...]:
    arguments = method.args
    return tuple(argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])


def is_documented_elsewhere(method: Function, node: ast.ClassDef, classes: Mapping[str, Sequence[ast.ClassDef]]) -> bool:
    """Return True if a base class documents a method of this name, or a protocol one of this name with the same parameters."""
    for base in node.bases:
        for base_class in classes.get(name_of_base(base), ()):
            if any(inherited.name == method.name and ast.get_docstring(inherited) for inherited in methods_of(base_class)):
                return True
            if is_documented_elsewhere(method, base_class, classes):
                return True
    protocols = (candidate for named in classes.values() for candidate in named if "Protocol" in map(name_of_base, candidate.bases))
    return any(
        declared.name == method.name and parameters_of(declared) == parameters_of(method) and ast.get_docstring(declared)
        for protocol in protocols
        for declared in methods_of(protocol)
    )


def test_every_public_method_has_a_docstring_or_implements_one_that_has() -> None:
    classes: dict[str, list[ast.ClassDef]] = {}
    for path in MODULES:
        for node in nodes_of(path, ast.ClassDef):
            classes.setdefault(node.name, []).append(node)
    undocumented = [
        f"{place_of(path, method.lineno)}: {node.name}.{method.name}"
        for path in MODULES
        if not path.name.endswith("_suite.py")  # a test is described by its name
        for node in nodes_of(path, ast.ClassDef)
        if not node.name.startswith("_")
        for method in methods_of(node)
        if not method.name.startswith("_")
        and not ast.get_docstring(method)
        and not any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in method.decorator_list)
        and not is_documented_elsewhere(method, node, classes)
    ]
    fail_at(undocumented)


def is_re_export(node: ast.stmt) -> bool:
    """Return True for `from x import y as y`, the form that makes a name public."""
    return isinstance(node, ast.ImportFrom) and all(alias.asname == alias.name for alias in node.names)


def is_lazy_export(node: ast.stmt) -> bool:
    """Return True for the imports at first use: their mechanism, and the branch with the re-exports for type checkers and the same as text."""
    if isinstance(node, ast.ImportFrom):
        return ast.unparse(node) in ("from typing import TYPE_CHECKING", "from icefloe.lazy_imports import lazy_exports")
    return (
        isinstance(node, ast.If)
        and ast.unparse(node.test) == "TYPE_CHECKING"
        and all(is_re_export(imported) for imported in node.body)
        and [ast.unparse(statement).partition(" = lazy_exports(__name__, ")[0].strip("()") for statement in node.orelse]
        == ["__getattr__, __dir__"]
    )


def test_only_public_packages_have_more_than_a_docstring_in_init() -> None:
    packages = [path for path in MODULES if path.name == "__init__.py" and path != ENTRY_POINT]
    fail_at([place_of(path) for path in packages if path.parent.name not in PUBLIC_PACKAGES and len(tree_of(path).body) > 1])
    fail_at([place_of(path) for path in packages if not all(is_re_export(node) or is_lazy_export(node) for node in tree_of(path).body[1:])])


def test_no_function_imports() -> None:
    for path in MODULES:
        bodies = [range(function.lineno, (function.end_lineno or 0) + 1) for function in functions(path)]
        fail_at(
            place_of(path, node.lineno)
            for node in nodes_of(path, ast.Import, ast.ImportFrom)
            if any(node.lineno in body for body in bodies)
        )


def test_imports_are_absolute_and_never_of_the_package_icefloe_itself() -> None:
    wrong = []
    for path in MODULES:
        for node in nodes_of(path, ast.Import, ast.ImportFrom):
            relative = isinstance(node, ast.ImportFrom) and node.level > 0
            of_entry_point = (isinstance(node, ast.ImportFrom) and node.module == "icefloe") or (
                isinstance(node, ast.Import) and any(alias.name == "icefloe" for alias in node.names)
            )
            if relative or (of_entry_point and path != ENTRY_POINT):  # the package imports its parts, for type checkers
                wrong.append(place_of(path, node.lineno))
    fail_at(wrong)


def test_only_modules_under_names_of_pyiceberg_define_all() -> None:
    # lazy_imports.py defines none of its own: it returns that of the packages whose names it imports at first use.
    texts = {path: path.read_text() for path in MODULES if path.name != "lazy_imports.py"}
    fail_at([place_of(path) for path, text in texts.items() if "__all__" in text and "under the module name of PyIceberg" not in text])


def test_no_file_is_longer_than_allowed() -> None:
    lengths = {place_of(path): len(path.read_text().splitlines()) for path in MODULES}
    fail_at(f"{name}: {lines}" for name, lines in lengths.items() if lines > MAX_LINES_OF_A_FILE and name not in LONGER_FILES)
    assert [name for name in LONGER_FILES if lengths.get(name, 0) <= MAX_LINES_OF_A_FILE] == [], "an exception that is no longer needed"


def test_no_function_is_longer_than_allowed() -> None:
    lengths = {
        f"{place_of(path)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in MODULES
        for node in functions(path)
        if node.end_lineno
    }
    fail_at(f"{name}: {lines}" for name, lines in lengths.items() if lines > MAX_LINES_OF_A_FUNCTION and name not in LONGER_FUNCTIONS)
    assert [name for name in LONGER_FUNCTIONS if lengths.get(name, 0) <= MAX_LINES_OF_A_FUNCTION] == [], (
        "an exception that is no longer needed"
    )


def test_no_module_has_a_meaningless_name() -> None:
    fail_at([place_of(path) for path in MODULES if MEANINGLESS_NAMES & {*path.relative_to(PACKAGE).parts[:-1], path.stem}])


def test_nothing_raises_not_implemented_error() -> None:
    unimplemented = [
        place_of(path, node.lineno)
        for path in MODULES
        for node in nodes_of(path, ast.Raise)
        if node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)
    ]
    fail_at(unimplemented)


def impure_calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line of every call that the specification, scans and commits must not make, and what to use instead."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name):
            key = ("", function.id)
        elif isinstance(function, ast.Attribute) and function.attr in IMPURE_ATTRIBUTES:
            key = (ast.unparse(function.value).rpartition(".")[2], function.attr)
        else:
            continue
        if key in IMPURE_CALLS:
            yield node.lineno, IMPURE_CALLS[key]


def test_the_format_takes_time_ids_and_bytes_from_its_ports() -> None:
    impure = [
        f"{place_of(path, line)}: use {instead}"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] in {"spec", "scan", "commit"}
        for line, instead in impure_calls(tree_of(path))
    ]
    fail_at(impure)


def test_impure_calls_are_found_in_every_spelling() -> None:
    source = "import datetime, uuid\ndatetime.datetime.now()\nuuid.uuid4()\nopen('x')\ndatetime.date.today()\nuuid.UUID(int=1)\n"
    assert [line for line, _ in impure_calls(ast.parse(source))] == [2, 3, 4, 5]


def test_importing_every_package_except_spark_does_not_load_pyspark() -> None:
    names = [".".join(["icefloe", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__") for path in MODULES]
    without_spark = [name for name in names if name.split(".")[1:2] != ["spark"]]
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script, *without_spark], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
