"""Tests can fail: none asserts what is always true, or that anything at all went wrong."""

import ast
from collections.abc import Iterable, Iterator

import pytest
from tests.architecture.sources import ROOT, nodes_of

EXIT_CODES = ("exit_code", "returncode")
BROAD = ("Exception", "BaseException")


def cannot_fail(node: ast.AST) -> str | None:
    """Return why a statement or call of a test proves nothing, None if it does."""
    match node:
        case ast.Assert(test=ast.Tuple()):
            return "a tuple is always true"
        case ast.Assert(test=ast.Constant()):
            return "a constant"
        case ast.Assert(test=ast.Compare(left=left, comparators=[right])) if ast.dump(left) == ast.dump(right) and not _calls(left):
            return "a value compared with itself"
        case ast.Assert(test=ast.Attribute(attr=name)) if name in EXIT_CODES:
            return "any exit code, also that of a command that does not exist"
        case ast.Assert(test=ast.Compare(left=ast.Attribute(attr=name), ops=[ast.NotEq() | ast.Gt()], comparators=[ast.Constant(0)])) if (
            name in EXIT_CODES
        ):
            return "any exit code, also that of a command that does not exist"
        case ast.Call(func=ast.Attribute(attr="raises"), args=[ast.Name(id=name), *_], keywords=keywords) if name in BROAD:
            return None if any(keyword.arg in ("match", "check") for keyword in keywords) else "any error, also one of the test"
        case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException"), body=[ast.Pass()]):
            return "an error of any kind is left out"
        case _:
            return None


def _calls(node: ast.AST) -> bool:
    return any(isinstance(child, ast.Call) for child in ast.walk(node))


def weak_lines(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if reason := cannot_fail(node):
            yield node.lineno, reason  # type: ignore[attr-defined]


def test_every_assertion_can_fail() -> None:
    weak = [
        f"{path}:{line}: {reason}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, reason in weak_lines(nodes_of(path, ast.Assert, ast.Call, ast.ExceptHandler))
    ]
    assert weak == []


@pytest.mark.parametrize(
    "text",
    [
        "assert (x == 1, 'x')",
        "assert True",
        "assert a.b == a.b",
        "assert result.exit_code",
        "assert done.returncode != 0",
        "with pytest.raises(Exception): f()",
        "try:\n    f()\nexcept Exception:\n    pass",
    ],
)
def test_an_assertion_that_cannot_fail_is_seen(text: str) -> None:
    assert list(weak_lines(ast.walk(ast.parse(text))))


@pytest.mark.parametrize(
    "text", ["assert result.exit_code == 2", "with pytest.raises(Exception, match='CANNOT'): f()", "assert f() == f()"]
)
def test_other_assertions_are_left_alone(text: str) -> None:
    assert not list(weak_lines(ast.walk(ast.parse(text))))
