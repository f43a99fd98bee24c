"""The switches of `tests.mutation`: the source with them does as before while no mutant is active, and each active mutant changes what its place does."""

import ast
from pathlib import Path
from typing import Any

import pytest
from tests.mutation.mutants import Mutant, found_again, sites_of, with_switches

SOURCE = '''"""A module."""

LIMIT = 3


def area(width: int, height: int = 2) -> int:
    """Return width times height, at most 3 of each."""
    seen = []
    for value in (width, height):
        if value < 0 and value is not None:
            continue
        seen.append(min(value, LIMIT))
    if len(seen) != 2:
        raise ValueError(f"{1 + 1} sides < {LIMIT + 1}")
    return seen[0] * seen[1]
'''
CHANGES = [
    ("value < 0 and value is not None", "value < 0 or value is not None"),
    ("value < 0", "value <= 0"),
    ("0", "1"),
    ("value is not None", "value is None"),
    ("continue", "break"),
    ("seen.append(min(value, LIMIT))", "pass"),
    ("len(seen) != 2", "len(seen) == 2"),
    ("2", "3"),
    ("return seen[0] * seen[1]", "return None"),
    ("seen[0] * seen[1]", "seen[0] // seen[1]"),
    ("0", "1"),
    ("1", "2"),
]


def outcomes(source: str, active: int) -> list[Any]:
    names: dict[str, Any] = {"_mutant": lambda number: number == active}
    exec(compile(source.replace("from icefloe_mutant_switch import is_active as _mutant", ""), "m", "exec"), names)  # noqa: S102

    def outcome(*sides: int) -> Any:
        try:
            return names["area"](*sides)
        except (ValueError, IndexError, ZeroDivisionError) as error:
            return type(error)

    return [outcome(2, 3), outcome(5), outcome(-1, 2), outcome(0, 2), outcome(2, 0), outcome(2, -1), outcome(1, 1)]


def test_mutants_are_drawn_inside_functions_and_not_in_messages() -> None:
    mutants = [mutant for mutant, _, _ in sites_of(ast.parse(SOURCE), "m.py")]
    assert [(mutant.before, mutant.after) for mutant in mutants] == CHANGES
    assert {mutant.function for mutant in mutants} == {"area"}


def test_only_the_active_mutant_changes_what_the_source_does() -> None:
    mutants = [mutant for mutant, _, _ in sites_of(ast.parse(SOURCE), "m.py")]
    switched = with_switches(SOURCE, "m.py", {mutant: number for number, mutant in enumerate(mutants)})
    plain = outcomes(SOURCE, -1)
    assert outcomes(switched, -1) == plain
    equal = [(mutant.before, mutant.after) for number, mutant in enumerate(mutants) if outcomes(switched, number) == plain]
    assert equal == [("continue", "break")]  # a side is missing either way


@pytest.mark.parametrize("file", ["m.py", "elsewhere/n.py"])
def test_mutants_are_found_again_where_code_has_moved(tmp_path: Path, file: str) -> None:
    mutants = [mutant for mutant, _, _ in sites_of(ast.parse(SOURCE), "m.py")]
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(
        SOURCE.replace("LIMIT = 3", "LIMIT = 3\n\n\nclass Moved:\n    pass\n").replace("value is not None", "value")
    )
    moved: list[Mutant | None] = found_again(tmp_path, mutants)
    gone = [mutant.before for mutant, found in zip(mutants, moved, strict=True) if found is None]
    assert gone == ["value < 0 and value is not None", "value is not None"]
    assert {found.file for found in moved if found is not None} == {file}
