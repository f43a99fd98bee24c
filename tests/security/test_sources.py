"""No source of the package executes data: every use of pickle, eval, shells and imports by name is in a list, each with its reason."""

import ast
from collections.abc import Generator, Iterator, Sequence

from tests.architecture import sources
from tests.architecture.sources import PACKAGE, nodes_of

# Modules that make objects or code of bytes.
MODULES = frozenset(
    {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "code", "codeop", "runpy", "pty"}
)
BUILTINS = frozenset({"eval", "exec", "compile", "__import__", "breakpoint"})
# Functions by the name of their module and their own; `*` is any of the module.
FUNCTIONS = {
    "yaml": {"load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"},
    "os": {
        "system",
        "popen",
        *(f"{kind}{form}" for kind in ("exec", "spawn") for form in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    },
    "subprocess": {"*"},
    "importlib": {"import_module", "__import__"},
    "builtins": {"*"},
    "ctypes": {"CDLL", "cdll", "PyDLL"},
}
# Attributes that are dangerous on whatever they are: modules by entry points, pickles in numpy's files.
ATTRIBUTES = frozenset({"load_module", "exec_module", "spec_from_file_location", "allow_pickle"})

# Every use that is allowed: (file, what) to why nothing that a table, a message or another user wrote can reach it.
ALLOWED: dict[tuple[str, str], str] = {
    (
        "catalog/catalog_config.py",
        "yaml.load",
    ): "with BaseLoader, which makes text, lists and mappings only; the file is the user's configuration",
    (
        "cli/completion_command.py",
        "shell=",
    ): "an argument of the generator of completion scripts, which starts no process: the name of one of three shells",
    (
        "cli/spark_access.py",
        "importlib.import_module",
    ): "below icefloe.spark, by names that are constants in the sources of the command line",
    (
        "cli/command_group.py",
        "importlib.import_module",
    ): "modules of the command line, by names that are constants in the table of commands",
    (
        "lazy_imports.py",
        "importlib.import_module",
    ): "modules by names that are constants in the sources, which a test of the architecture compares with import statements",
    (
        "operations/parallel_requests.py",
        "ctypes.CDLL",
    ): "the C library that this process has loaded, for `malloc_trim`, whose only argument is a constant",
    (
        "optional_packages.py",
        "importlib.import_module",
    ): "packages of the extras, by names that are constants in the sources of the features",
    (
        "server/users_file.py",
        "yaml.load",
    ): "with BaseLoader, which makes text, lists and mappings only; the file is the operator's, and is refused if other users can change it",
    ("spark/runtime/java_runtime.py", "subprocess.run"): "reads the version of the user's own Java, by a list of arguments without a shell",
    ("spark/runtime/java_runtime.py", "subprocess.TimeoutExpired"): "an exception",
    (
        "spark/runtime/jvm_launch.py",
        "subprocess.Popen",
    ): "starts Spark's JVM by the list of arguments that Spark's launcher gave, without a shell",
    ("spark/runtime/jvm_launch.py", "subprocess.PIPE"): "a constant",
    ("spark/runtime/jvm_launch.py", "subprocess.TimeoutExpired"): "an exception",
    ("spark/runtime/jvm_launch.py", "subprocess.run"): "gets that list from Spark's launcher, by a list of arguments without a shell",
    (
        "spark/write/start_workers.py",
        "subprocess.run",
    ): "calls the Python of this process, which workers run too, with a constant script that prints where it finds Icefloe, without a shell",
    ("spark/write/start_workers.py", "subprocess.SubprocessError"): "an exception",
    (
        "stores/rest/auth_sessions.py",
        "importlib.import_module",
    ): "a class of the user's own, which the user's properties name and never a server's, where no other authentication fits",
    (
        "operations/available_engines.py",
        "load",
    ): "engines of installed packages, by entry points; the name is `spark` or that of the package of the user's own rows",
}


def uses(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """What a source with these nodes uses of the above, under the name that `ALLOWED` has for it."""
    called = yield from _imports(nodes)
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in BUILTINS:
            yield node.id
        elif isinstance(node, ast.Name | ast.Attribute):
            full = _full_name(node, called)
            module, _, name = full.rpartition(".")
            found = FUNCTIONS.get(module, FUNCTIONS.get(module.split(".")[0], set()) if name else set())
            if name in found or "*" in found:
                yield full
            elif (isinstance(node, ast.Attribute) and node.attr in (*ATTRIBUTES, *(BUILTINS - {"compile"}))) or (
                isinstance(node, ast.Attribute) and node.attr == "load" and "entry_points" in called
            ):
                yield node.attr
        elif isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
            yield f"{node.arg}="


def _imports(nodes: Sequence[ast.AST]) -> Generator[str, None, dict[str, str]]:
    """What the imports of a source use; returns the full names behind its local ones."""
    called: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                called[alias.asname or root] = alias.name if alias.asname else root
                if MODULES & set(alias.name.split(".")):
                    yield f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                called[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if MODULES & {*node.module.split("."), alias.name}:
                    yield f"import {node.module}"
        elif isinstance(node, ast.Assign) and (module := _late_import(node.value)):
            called |= {target.id: module for target in node.targets if isinstance(target, ast.Name)}
            if MODULES & set(module.split(".")):
                yield f"import {module}"
    return called


def _late_import(value: ast.expr) -> str:
    """Return the module that `optional_module("name", ...)` or `lazy_module("name")` imports; "" for another expression."""
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("optional_module", "lazy_module")
        and value.args
    ):
        return str(ast.literal_eval(value.args[0])) if isinstance(value.args[0], ast.Constant) else ""
    return ""


def _full_name(node: ast.expr, called: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return called.get(node.id, "")
    if isinstance(node, ast.Attribute):
        head = _full_name(node.value, called)
        return f"{head}.{node.attr}" if head else ""
    return ""


def test_every_use_is_listed_and_every_listed_use_is_there() -> None:
    kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.Name, ast.Attribute, ast.keyword)
    found = {(str(path.relative_to(PACKAGE)), what) for path in sources.MODULES for what in uses(list(nodes_of(path, *kinds)))}
    assert sorted(found - ALLOWED.keys()) == [], "each new use needs a reason in the list, or better another way"
    assert sorted(ALLOWED.keys() - found) == [], "what is gone leaves the list"


def test_a_use_is_seen_however_it_is_spelled() -> None:
    spelled = {
        "import pickle": ["import pickle"],
        "import pickle as p": ["import pickle"],
        "from pickle import loads": ["import pickle"],
        "from pyspark import cloudpickle": ["import pyspark"],
        "import pyspark.cloudpickle": ["import pyspark.cloudpickle"],
        "eval('1')": ["eval"],
        "f = exec": ["exec"],
        "compile('1', '', 'eval')": ["compile"],
        "import re\nre.compile('a')": [],
        "import builtins\nbuiltins.eval('1')": ["builtins.eval"],
        "__import__('os')": ["__import__"],
        "import yaml\nyaml.load(x)": ["yaml.load"],
        "import yaml\nyaml.safe_load(x)": [],
        "from yaml import unsafe_load as load\nload(x)": ["yaml.unsafe_load"],
        "yaml = optional_module('yaml', extra=None)\nyaml.unsafe_load(x)": ["yaml.unsafe_load"],
        "from icefloe.optional_packages import optional_module\np = optional_module('pickle')": ["import pickle"],
        "if TYPE_CHECKING:\n    import sqlite3 as s\nelse:\n    s = lazy_module('pickle')": ["import pickle"],
        "import os\nos.system('x')": ["os.system"],
        "import os as o\no.popen('x')": ["os.popen"],
        "from os import execv\nexecv('x', [])": ["os.execv"],
        "import os\nos.environ": [],
        "import subprocess\nsubprocess.run(['a'])": ["subprocess.run"],
        "from subprocess import Popen\nPopen('a', shell=True)": ["shell=", "subprocess.Popen"],
        "import importlib\nimportlib.import_module(name)": ["importlib.import_module"],
        "from importlib import import_module\nimport_module(name)": ["importlib.import_module"],
        "import numpy as np\nnp.load(f, allow_pickle=True)": ["allow_pickle="],
    }
    assert {text: sorted(set(uses(list(ast.walk(ast.parse(text)))))) for text in spelled} == spelled
