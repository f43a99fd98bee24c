"""Every refused commit says what was expected and found, and whether to try again: the errors are looked for in the sources, wherever they are raised."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "icefloe"
REFUSALS = {"CommitConflictError", "CommitInvalidatedError"}
# Whoever loses every race is told by the commit loop what the last winner left; it does not know it here.
WITHOUT_PROBLEMS = {"table/commits/commit_retries.py"}
UNKNOWN = "CommitUnknownError"
VERDICTS = ("a retry makes sense", "a retry will fail again")


def raised() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if any(name in text for name in (*REFUSALS, UNKNOWN)):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in (*REFUSALS, UNKNOWN):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def constants(path: str) -> dict[str, str]:
    """The texts that a module, or those it takes them from, has names for."""
    found: dict[str, str] = {}
    for module in (SOURCE / path, SOURCE / "kernel/commit/newer_snapshots.py", SOURCE / "kernel/metadata/requirement.py"):
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                found.update((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))
    return found


def text_of(node: ast.expr, named: dict[str, str]) -> str | None:
    """What of a text is known from the source; None where nothing is, since it was made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return named.get(node.id) if isinstance(node, ast.Name) else None


CALLS = {place: call for place, call in raised() if isinstance(call.func, ast.Name) and call.func.id in REFUSALS}
UNKNOWN_CALLS = {place: call for place, call in raised() if place not in CALLS}


def test_there_are_such_errors() -> None:
    assert len(CALLS) > 15
    assert len(UNKNOWN_CALLS) > 2


@pytest.mark.parametrize("place", CALLS)
def test_a_refused_commit_says_what_failed_and_whether_to_try_again(place: str) -> None:
    path, keywords = place.partition(":")[0], {one.arg: one.value for one in CALLS[place].keywords}
    assert "problems" in keywords or path in WITHOUT_PROBLEMS, "what was expected, and what was found?"
    assert "next_step" in keywords, "does a retry make sense?"
    step = text_of(keywords["next_step"], constants(path))
    assert step is None or any(verdict in step for verdict in VERDICTS), f"does a retry make sense? {step!r}"


@pytest.mark.parametrize("place", UNKNOWN_CALLS)
def test_an_unknown_outcome_says_which_file_to_look_for_before_writing_again(place: str) -> None:
    keywords = {one.arg: one.value for one in UNKNOWN_CALLS[place].keywords}
    assert "path" in keywords, "which file is there if it happened?"
    step = text_of(keywords["next_step"], {})
    assert step is not None
    assert "look" in step
    assert "before" in step
    assert "no file was deleted" in step
