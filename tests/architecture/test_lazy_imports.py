"""What a process loads by `import icefloe` and by `icefloe --help`, and that imports by name are those that import-linter and mypy see."""

import ast
import fractions
import json
import math
import pickle
import py_compile
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from tests.architecture.sources import MODULES, PACKAGE, text_of, tree_of

import icefloe
from icefloe.cli.command_group import lazy_commands
from icefloe.lazy_imports import lazy_module

HEAVY = {"numpy", "pyarrow", "pandas", "pyspark", "py4j", "sqlalchemy", "sqlglot", "rich", "fsspec", "fastavro", "yaml", "msgspec"}
# Modules that import by a name which is not written out in an import statement, and why.
OTHER_IMPORTS_BY_NAME = {
    "lazy_imports.py": "the mechanism itself",
    "optional_packages.py": "packages of extras",
    "stores/rest/auth_sessions.py": "a class that the user's own properties name for authentication",
    "cli/command_group.py": "modules of its own package, which test_every_command_is_in_the_command_line checks",
    "cli/spark_access.py": "modules of icefloe.spark, a lower layer",
}


def loaded_by(script: str, *arguments: str) -> set[str]:
    """Return the top-level packages that a new process has loaded after a script."""
    script += "\nimport json, sys\nprint('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    run = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_importing_icefloe_loads_no_heavy_package() -> None:
    assert loaded_by("import icefloe") & HEAVY == set()


@pytest.mark.parametrize("package", ["catalog", "table", "view", "expressions", "inspect", "repair", "loading", "procedures"])
def test_importing_a_public_package_loads_no_heavy_package(package: str) -> None:
    assert loaded_by(f"import icefloe.{package}") & HEAVY == set()


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_the_help_text_loads_no_heavy_package(arguments: list[str]) -> None:
    script = "from icefloe.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    assert loaded_by(script, *arguments) & HEAVY == set()


def test_a_table_is_used_without_the_packages_that_its_calls_do_not_need(tmp_path: Path) -> None:
    script = f"""
import pyarrow as pa
from icefloe import load_catalog, EqualTo
catalog = load_catalog("lake", type="file-system", warehouse={str(tmp_path)!r})
catalog.create_namespace_if_not_exists("db")
catalog.drop_table("db.t") if catalog.table_exists("db.t") else None
table = catalog.create_table("db.t", schema=pa.schema([("id", pa.int64())]))
table.append(pa.table({{"id": [1, 2]}}))
assert table.scan(EqualTo("id", 2)).to_arrow().num_rows == 1
"""
    # PyArrow imports pandas for lists
    script += """
import sys
loaded = {"sqlalchemy", "sqlglot", "rich", "pyspark"} & set(sys.modules)
assert loaded == set(), loaded
assert table.scan("id = 2").to_arrow().num_rows == 1
"""
    assert "sqlglot" in loaded_by(script)


def test_opening_a_table_loads_nothing_that_only_rows_and_commits_need() -> None:
    script = """
import sys
from icefloe import StaticTable, Table
loaded = {"pyarrow.parquet", "pyarrow.orc", "pyarrow.fs", "icefloe.operations.available_engines", "icefloe.datafile.stored_file"} & set(sys.modules)
assert not loaded, loaded
"""
    assert (
        loaded_by(script) & {"asyncio", "ssl", "_hashlib", "tenacity", "sqlite3", "fastavro", "pandas", "sqlalchemy", "sqlglot", "rich"}
        == set()
    )


def imports_for_type_checking(tree: ast.Module) -> set[tuple[str, str, str]]:
    """Return (module, name, alias) of the imports under `if TYPE_CHECKING`."""
    return {
        ((node.module or "") if isinstance(node, ast.ImportFrom) else "", alias.name, alias.asname or alias.name)
        for branch in tree.body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def naming(*words: str) -> list[Path]:
    """Return the modules with one of some words in their text."""
    return [path for path in MODULES if any(word in text_of(path) for word in words)]


def calls(tree: ast.AST, *functions: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in functions:
                yield node


def imports_by_name(tree: ast.Module) -> set[tuple[str, str, str]]:
    """Return (module, name, alias) of everything that `lazy_exports` and `lazy_module` import."""
    found = set()
    for call in calls(tree, "lazy_exports"):
        for module, names in ast.literal_eval(call.args[1]).items():
            if not names:  # a part of the package
                package, _, name = module.rpartition(".")
                found.add((package, name, name))
            for clause in filter(None, names.split(", ")):
                name, _, alias = clause.partition(" as ")
                found.add((module, name, alias or name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and list(calls(node, "lazy_module")):
            assert isinstance(node.value, ast.Call)
            package, _, module = ast.literal_eval(node.value.args[0]).rpartition(".")
            found.add((package, module, ast.unparse(node.targets[0])))
    return found


def test_lazy_imports_are_those_that_type_checkers_and_the_layers_see() -> None:
    trees = {path: tree_of(path) for path in naming("lazy_exports", "lazy_module")}
    lazy = {path: tree for path, tree in trees.items() if path.name != "lazy_imports.py" and imports_by_name(tree)}
    assert len(lazy) > 10
    assert {str(path.relative_to(PACKAGE)): imports_by_name(tree) for path, tree in lazy.items()} == {
        str(path.relative_to(PACKAGE)): imports_for_type_checking(tree) for path, tree in lazy.items()
    }


def test_every_lazy_module_is_assigned_where_it_is_declared() -> None:
    for path in naming("lazy_module"):
        tree = tree_of(path)
        if path.name != "lazy_imports.py":
            assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and list(calls(node, "lazy_module"))]
            assert len(assigned) == len(list(calls(tree, "lazy_module"))), path


def test_a_difference_between_lazy_imports_and_those_of_type_checkers_is_found() -> None:
    source = "if TYPE_CHECKING:\n    from a import b\nelse:\n    b = lazy_module('a.c')\n"
    source += "__getattr__, __dir__ = lazy_exports(__name__, {'d': 'e as f, g', 'h.i': ''})"
    assert imports_for_type_checking(ast.parse(source)) == {("a", "b", "b")}
    assert imports_by_name(ast.parse(source)) == {("a", "c", "b"), ("d", "e", "f"), ("d", "g", "g"), ("h", "i", "i")}


def test_no_other_module_imports_by_name() -> None:
    importing = {str(path.relative_to(PACKAGE)) for path in naming("import_module") if list(calls(tree_of(path), "import_module"))}
    assert importing == set(OTHER_IMPORTS_BY_NAME)


IMPORTING = ("import_module", "__import__", "lazy_module", "lazy_exports")


def modules_named(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of Icefloe that a module imports by their names: constants, and the beginnings of f-strings."""
    for call in calls(tree, *IMPORTING):
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("icefloe."):
                yield node.value


@cache
def layer_of(package: str) -> int:
    """Return the number of the layer of a package or module directly in icefloe, the uppermost first."""
    contracts = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "The layers of Icefloe")
    return next(number for number, layer in enumerate(layers) if package in re.split(r"[ |]+", layer))


def test_no_module_imports_one_of_a_layer_above_it_by_its_name() -> None:
    upwards = {}
    for path in naming(*IMPORTING):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        own = layer_of(parts[0]) if parts[0] != "__init__" else -1
        above = {name for name in modules_named(tree_of(path)) if layer_of(name.split(".")[1]) < own}
        if above:
            upwards[str(path.relative_to(PACKAGE))] = above
    assert upwards == {}


def test_an_import_upwards_by_name_is_found() -> None:
    tree = ast.parse("import_module('icefloe.repair.repairs')\nimportlib.import_module(f'icefloe.spark.{name}')\n__import__('icefloe.cli')")
    assert set(modules_named(tree)) == {"icefloe.repair.repairs", "icefloe.spark.", "icefloe.cli"}
    assert layer_of("repair") < layer_of("operations")


def test_every_command_is_in_the_command_line() -> None:
    for command in lazy_commands():
        module, _, name = command.location.partition(":")
        assert hasattr(import_module(f"icefloe.cli.{module}"), name), command.location


def public_packages() -> list[ModuleType]:
    paths = [path for path in naming("lazy_exports") if path.name == "__init__.py" and list(calls(tree_of(path), "lazy_exports"))]
    return [import_module(".".join(["icefloe", *path.parent.relative_to(PACKAGE).parts])) for path in paths]


def test_every_name_that_a_package_exports_exists_and_is_listed() -> None:
    packages = public_packages()
    assert icefloe in packages
    for package in packages:
        tree = tree_of(Path(str(package.__file__)))
        for module, _, name in imports_for_type_checking(tree):
            if module != package.__name__:  # a part of the package is exported as a module
                assert name in dir(package)
                # A module of the same name would replace the export when it is imported.
                assert not isinstance(getattr(package, name), ModuleType), name


def test_help_and_members_of_icefloe_are_shown_without_pyspark() -> None:
    script = """
import sys
sys.modules["pyspark"] = None
import icefloe, inspect, pydoc
assert "load_catalog" in dict(inspect.getmembers(icefloe))
assert "load_catalog" in pydoc.render_doc(icefloe)
try:
    icefloe.spark
except icefloe.errors.NotInstalledError as error:
    assert "icefloe[spark]" in str(error)
else:
    raise AssertionError("icefloe.spark was imported without pyspark")
"""
    loaded_by(script)


def test_a_name_that_a_package_does_not_export_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'icefloe' has no attribute 'load_catalogue'"):
        icefloe.load_catalogue  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="load_catalogue"):
        exec("from icefloe.catalog import load_catalogue")  # noqa: S102


def test_a_package_without_source_exports_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "compiled_package"
    package.mkdir()
    source = tmp_path / "source.py"
    source.write_text(
        "from os import sep\nfrom typing import TYPE_CHECKING\nfrom icefloe.lazy_imports import lazy_exports\n"
        "if TYPE_CHECKING:\n    from fractions import Fraction as Ratio\n    from math import tau as open, gcd as gcd\n"
        "    from compiled_package import part as part\n"
        "else:\n    names = {'fractions': 'Fraction as Ratio', 'math': 'tau as open, gcd', 'compiled_package.part': ''}\n"
        "    __getattr__, __dir__ = lazy_exports(__name__, names)\nfrom os import pathsep\n"
    )
    for file in (package / "__init__.pyc", package / "part.pyc"):
        py_compile.compile(str(source), str(file), optimize=2, doraise=True)
    monkeypatch.syspath_prepend(tmp_path)
    compiled = import_module("compiled_package")
    assert compiled.__file__ == str(package / "__init__.pyc")
    assert {"Ratio", "open", "gcd", "part"} <= set(dir(compiled))
    assert compiled.__all__ == ["Ratio", "gcd"]
    assert (compiled.Ratio, compiled.open, compiled.gcd) == (fractions.Fraction, math.tau, math.gcd)
    assert compiled.part is sys.modules.pop("compiled_package.part")
    del sys.modules["compiled_package"]


def test_a_lazy_module_is_pickled_by_its_name() -> None:
    copied = pickle.loads(pickle.dumps(lazy_module("fractions")))
    assert copied.Fraction is fractions.Fraction
    with pytest.raises(AttributeError, match="nothing"):
        _ = copied.nothing
