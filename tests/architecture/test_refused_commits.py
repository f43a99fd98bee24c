"""Every error of a refused commit has what was expected, what was found, and whether a retry makes sense.

The sources are searched for the places that raise one.
"""

import ast
from collections.abc import Iterator
from functools import cache

from tests.architecture import sources
from tests.architecture.sources import nodes_of, tree_of

SOURCE = sources.PACKAGE
REFUSALS = {"CommitConflictError", "CommitInvalidatedError"}
# The commit loop adds the problems of the last lost race; they are not in the call that makes this error.
WITHOUT_PROBLEMS = {"operations/commit_retries.py"}
UNKNOWN = "CommitUnknownError"
VERDICTS = ("a retry makes sense", "a retry will fail again")


def raised() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call that makes such an error, after its file and line."""
    for path in sources.MODULES:
        if any(name in sources.text_of(path) for name in (*REFUSALS, UNKNOWN)):
            for node in nodes_of(path, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id in (*REFUSALS, UNKNOWN):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def constants(path: str) -> dict[str, str]:
    """Return the string constants of a module and of the modules from which it imports next steps."""
    texts: dict[str, str] = {}
    for module in (
        SOURCE / path,
        SOURCE / "commit/newer_snapshots.py",
        SOURCE / "spec/metadata/requirement.py",
        SOURCE / "stores/rest/http_reply.py",
    ):
        for node in tree_of(module).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                texts.update((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))
    return texts


def text_of(node: ast.expr, named: dict[str, str]) -> str | None:
    """Return the constant parts of a text, or None for a text that is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return named.get(node.id) if isinstance(node, ast.Name) else None


@cache
def calls() -> dict[str, ast.Call]:
    """Return the calls that make an error of a refused commit, by file and line."""
    return {place: call for place, call in raised() if isinstance(call.func, ast.Name) and call.func.id in REFUSALS}


@cache
def unknown_calls() -> dict[str, ast.Call]:
    """Return the calls that make an error of an unknown commit state, by file and line."""
    return {place: call for place, call in raised() if place not in calls()}


def test_the_errors_are_found() -> None:
    assert len(calls()) > 15
    assert len(unknown_calls()) > 2


def test_the_error_of_a_refused_commit_has_the_problems_and_whether_a_retry_makes_sense() -> None:
    for place, call in calls().items():
        path, keywords = place.partition(":")[0], {keyword.arg: keyword.value for keyword in call.keywords}
        assert "problems" in keywords or path in WITHOUT_PROBLEMS, f"{place}: what was expected, and what was found?"
        assert "next_step" in keywords, f"{place}: does a retry make sense?"
        step = text_of(keywords["next_step"], constants(path))
        assert step is None or any(verdict in step for verdict in VERDICTS), f"{place}: does a retry make sense? {step!r}"


def test_the_error_of_an_unknown_commit_state_names_the_file_to_look_for_before_writing_again() -> None:
    for place, call in unknown_calls().items():
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        assert "path" in keywords, f"{place}: which file is there if it happened?"
        step = text_of(keywords["next_step"], constants(place.partition(":")[0]))
        assert step is not None, place
        assert "look" in step, place
        assert "before" in step, place
        assert "no file was deleted" in step, place
