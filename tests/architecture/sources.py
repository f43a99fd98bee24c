"""The files of the project as text and as trees, read once in each process for all rules."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "icefloe"
MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def _nodes_by_type(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree_of(path)):
        nodes[type(node)].append(node)
    return dict(nodes)


def nodes_of(path: Path, *types: type[Node]) -> Iterator[Node]:
    """Yield the nodes of some types in a file; a tree is walked once for all rules, which takes longer than what they do with its nodes."""
    nodes = _nodes_by_type(path)
    for kind in types:
        yield from nodes.get(kind, [])  # type: ignore[misc]
