"""Names of functions, parameters and local variables: functions are commands or nouns, variables state what the value is."""

import ast
from collections import defaultdict

from tests.architecture.sources import MODULES, nodes_of
from tests.architecture.test_modules import fail_at, place_of

PARTICIPLES = {
    "begun", "bound", "broken", "built", "chosen", "cut", "drawn", "found", "given", "held", "hidden", "kept", "known", "left", "lost", "made",
    "meant", "read_", "seen", "sent", "shown", "spent", "taken", "told", "written",
}  # fmt: skip
NO_VARIABLES = {"asked", "found", "held", "made", "mine", "one", "ours", "theirs", "told", "wanted"}
# Names of the interfaces of PyIceberg and Python, and of a decision, and words that are adjectives or verbs.
ALLOWED = {"closed", "dotted", "kept", "left", "need", "unshred"}


def is_bare_participle(name: str) -> bool:
    bare = name.strip("_")
    return bare not in ALLOWED and "_" not in bare and (bare.endswith("ed") or bare in PARTICIPLES)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_no_function_is_named_by_a_participle_alone() -> None:
    fail_at(
        f"{place_of(path, node.lineno)}: {node.name}"
        for path in MODULES
        for node in nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef)
        if is_bare_participle(node.name) and not is_property(node)
    )


def test_a_variable_states_what_its_value_is() -> None:
    wrong = []
    for path in MODULES:
        members = {node.target for body in nodes_of(path, ast.ClassDef) for node in body.body if isinstance(node, ast.AnnAssign)}
        for name in nodes_of(path, ast.Name):
            if name.id in NO_VARIABLES and isinstance(name.ctx, ast.Store) and name not in members:
                wrong.append(f"{place_of(path, name.lineno)}: {name.id}")
        wrong += [f"{place_of(path, node.lineno)}: {node.arg}" for node in nodes_of(path, ast.arg) if node.arg in NO_VARIABLES]
    fail_at(wrong)


def test_a_class_name_is_one_class() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in nodes_of(path, ast.ClassDef):
            if not node.name.startswith("_"):
                places[node.name].append(place_of(path, node.lineno))
    fail_at(f"{', '.join(found)}: {name}" for name, found in places.items() if len(found) > 1)


def test_a_participle_alone_is_recognized() -> None:
    assert [name for name in ("_joined", "chosen", "_found", "join_rows", "joined_rows", "closed") if is_bare_participle(name)] == [
        "_joined",
        "chosen",
        "_found",
    ]
