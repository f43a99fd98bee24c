"""The files of the project as text and as trees, read once in each process for all rules."""

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def not_collected() -> Iterator[None]:
    """Make lasting objects, and leave all that exist then out of garbage collection: it takes three times as long as to parse the files."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@cache
def tree_of(path: Path) -> ast.Module:
    with not_collected():
        return ast.parse(text_of(path))


@cache
def _nodes_by_type(path: Path) -> dict[type[ast.AST], list[ast.AST]]:
    nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    with not_collected():
        for node in ast.walk(tree_of(path)):
            nodes[type(node)].append(node)
    return dict(nodes)


def forget_trees() -> None:
    """Free the trees, and return what existed beside them to garbage collection, except for what has lasted until now."""
    tree_of.cache_clear()
    _nodes_by_type.cache_clear()
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def nodes_of(path: Path, *types: type[Node]) -> Iterator[Node]:
    """Yield the nodes of some types in a file; a tree is walked once for all rules, which takes longer than what they do with its nodes."""
    nodes = _nodes_by_type(path)
    for kind in types:
        yield from nodes.get(kind, [])  # type: ignore[misc]
