"""Mutants: small changes of the source, each behind a switch, so that one copy of the source has all of them.

A mutant replaces an expression or a statement inside a function. In the copy, `a < b` becomes `(a <= b if _mutant(17) else a < b)`: the switch also
records that the place was reached. So one run of the tests shows which tests reach which mutant, and only these have to be run for it.
"""

import ast
import copy
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SWITCH = "_mutant"
IMPORT_SWITCH = "from icefloe_mutant_switch import is_active as _mutant"

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. `function`, `before` and `occurrence` find its place again when code has moved to another file."""

    file: str
    line: int
    function: str
    before: str
    after: str
    occurrence: int

    @property
    def place(self) -> tuple[str, str, str, int]:
        """What stays when code moves: the last part of the function's name, the text, the change, and which of equal ones it is."""
        return self.function.rpartition(".")[2], self.before, self.after, self.occurrence


def sites_of(tree: ast.Module, file: str) -> Iterator[tuple[Mutant, ast.AST, ast.AST]]:
    """Return the mutants of a module with the node and what replaces it, in the order of the source."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for function, node, mutated in _sites(tree, "", in_function=False):
        before, after = ast.unparse(node), ast.unparse(mutated)
        key = (function.rpartition(".")[2], before, after)
        counts[key] += 1
        yield Mutant(file, node.lineno, function, before, after, counts[key]), node, mutated


def _sites(node: ast.AST, function: str, *, in_function: bool) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Walk over what runs inside of functions: no annotations, defaults, decorators, patterns, texts of errors or docstrings."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            for child in body:
                yield from _sites(child, f"{function}.{node.name}".lstrip("."), in_function=True)
            return
        case ast.ClassDef():
            for child in node.body:
                yield from _sites(child, f"{function}.{node.name}".lstrip("."), in_function=in_function)
            return
        case ast.JoinedStr() | ast.Raise() | ast.Assert():
            return
        case ast.AnnAssign():
            if node.value is not None:
                yield from _sites(node.value, function, in_function=in_function)
            return
        case ast.match_case():
            for child in node.body:
                yield from _sites(child, function, in_function=in_function)
            return
    if in_function:
        yield from ((function, node, mutated) for mutated in _mutations(node))
    for child in ast.iter_child_nodes(node):
        yield from _sites(child, function, in_function=in_function)


def _mutations(node: ast.AST) -> Iterator[ast.AST]:
    """Return what may replace a node; none where nothing would change, or only the words of a message."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield _changed(node, ops=[_COMPARISONS[type(operator)]()])
        case ast.BoolOp(op=operator):
            yield _changed(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS and not isinstance(node.left, ast.JoinedStr | ast.Constant):
            yield _changed(node, op=_OPERATORS[type(operator)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield _changed(node, value=not value)
        case ast.Constant(value=int() as value):
            yield _changed(node, value=value + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield _changed(node, value=ast.Constant(None))
        case ast.Expr(value=ast.Call() as call) if not ast.unparse(call.func).startswith(("LOG.", "logging.", "warnings.")):
            yield ast.copy_location(ast.Pass(), node)
        case ast.Continue():
            yield ast.copy_location(ast.Break(), node)


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    result = copy.copy(node)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def drawn(root: Path, packages: list[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants of packages below `root`, each place with the same chance."""
    everything = [
        mutant
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
        for mutant, _, _ in sites_of(ast.parse(path.read_text()), path.relative_to(root).as_posix())
    ]
    return random.Random(seed).sample(everything, count)


def found_again(root: Path, mutants: list[Mutant]) -> list[Mutant | None]:
    """Return the mutants in another state of the source, found by function and text; None for one whose place is gone."""
    by_place: dict[tuple[str, str, str, int], Mutant] = {}
    by_file: dict[tuple[str, str, str, str, int], Mutant] = {}
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        for mutant, _, _ in sites_of(ast.parse(path.read_text()), file):
            by_place.setdefault(mutant.place, mutant)
            by_file[path.name, *mutant.place] = mutant
    return [by_file.get((Path(mutant.file).name, *mutant.place)) or by_place.get(mutant.place) for mutant in mutants]


def with_switches(source: str, file: str, numbers: dict[Mutant, int]) -> str:
    """Return the source of a module with each of the numbered mutants behind its switch."""
    tree = ast.parse(source)
    chosen: dict[int, list[tuple[int, ast.AST]]] = defaultdict(list)
    for mutant, node, mutated in sites_of(tree, file):
        if mutant in numbers:
            chosen[id(node)].append((numbers[mutant], mutated))
    changed = ast.fix_missing_locations(_Switches(chosen).visit(tree))
    after_docstring = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    future = sum(isinstance(one, ast.ImportFrom) and one.module == "__future__" for one in changed.body)
    changed.body.insert(after_docstring + future, ast.parse(IMPORT_SWITCH).body[0])
    return ast.unparse(ast.fix_missing_locations(changed))


class _Switches(ast.NodeTransformer):
    """Put a choice in place of each chosen node: an expression `b if _mutant(n) else a`, a statement `if _mutant(n): b else: a`."""

    def __init__(self, chosen: dict[int, list[tuple[int, ast.AST]]]) -> None:
        self._chosen = chosen

    def visit(self, node: ast.AST) -> ast.AST:
        chosen = self._chosen.pop(id(node), [])
        mutants = [(number, copy.deepcopy(mutated)) for number, mutated in chosen]
        result = self.generic_visit(node)
        for number, mutated in mutants:
            test = ast.Call(func=ast.Name(SWITCH, ast.Load()), args=[ast.Constant(number)], keywords=[])
            if isinstance(node, ast.expr):
                result = ast.IfExp(test=test, body=mutated, orelse=result)
            else:
                result = ast.If(test=test, body=[mutated], orelse=[result])
        return result
