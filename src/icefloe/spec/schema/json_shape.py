"""Checks of the structure of parsed JSON against a table of keys. Every problem is reported with its JSON path.

The tables of keys are defined in the modules of their values (`schema_json.py`, `spec/metadata/snapshot.py`, ...). This module contains no keys of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.errors import MetadataFormatError, Problem

# Longs in the format are signed 64-bit, ints signed 32-bit. Spec: Primitive Types.
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

_MISSING = "is required, and is missing"
_NULL = "may not be null"

Check = Callable[[Any], str | None]


@dataclass(frozen=True, slots=True)
class Key:
    """The rule for one key of a JSON object. `check` returns the problem of a value as text, or None if the value is valid."""

    name: str
    check: Check
    required: bool = True


def object_problems(value: object, path: str, keys: Sequence[Key]) -> Iterator[Problem]:
    """Yield every problem of a JSON object at `path`, such as `$.snapshots[3]`.

    A null counts as a missing value. Keys that are not in the table are ignored.
    """
    if not isinstance(value, Mapping):
        yield Problem(where=path, what=f"expected an object, found {kind_of(value)}")
        return
    for key in keys:
        member = value.get(key.name)
        if member is None:
            if key.required:
                yield Problem(where=f"{path}.{key.name}", what=_MISSING if key.name not in value else _NULL)
        elif (problem := key.check(member)) is not None:
            yield Problem(where=f"{path}.{key.name}", what=problem)


def is_missing(problem: Problem) -> bool:
    """Return True for the problem of a required key that is missing or null."""
    return problem.what.startswith((_MISSING, _NULL))


def refuse(problems: Sequence[Problem], what: str) -> None:
    """Raise `MetadataFormatError` if there are problems.

    Args:
        problems: The problems of the document.
        what: Name of the document, for the message.
    """
    if problems:
        raise MetadataFormatError(f"{what} violates the format", problems=problems)


def kind_of(value: object) -> str:
    """Return a description of a parsed JSON value for messages: JSON's name of its type, and the value if it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, Mapping):
        return "an object"
    return "an array" if isinstance(value, Sequence) else type(value).__name__


def a_string(value: object) -> str | None:
    """Return the problem of a value that is not a JSON string; None for a string."""
    return None if isinstance(value, str) else f"expected a string, found {kind_of(value)}"


def a_boolean(value: object) -> str | None:
    """Return the problem of a value that is neither true nor false; None for these two."""
    return None if isinstance(value, bool) else f"expected true or false, found {kind_of(value)}"


def an_int(value: object) -> str | None:
    """Return the problem of a value that is not a signed 32-bit integer; None for such an integer."""
    return _integer(value, MAX_INT, "a 32-bit integer")


def a_long(value: object) -> str | None:
    """Return the problem of a value that is not a signed 64-bit integer; None for such an integer."""
    return _integer(value, MAX_LONG, "a 64-bit integer")


def an_object(value: object) -> str | None:
    """Return the problem of a value that is not a JSON object; None for an object with any content."""
    return None if isinstance(value, Mapping) else f"expected an object, found {kind_of(value)}"


def an_array(value: object) -> str | None:
    """Return the problem of a value that is not a JSON array; None for an array with any content."""
    return None if isinstance(value, list | tuple) else f"expected an array, found {kind_of(value)}"


def anything(_: object) -> str | None:
    """Return None, which accepts any value, for keys whose values are checked elsewhere."""
    return None


def strings_by_name(value: object) -> str | None:
    """Return the problem of a value that is not a JSON object of strings; None for such an object."""
    if not isinstance(value, Mapping):
        return f"expected an object of strings, found {kind_of(value)}"
    return next((f"the value of {k!r} must be a string, found {kind_of(v)}" for k, v in value.items() if not isinstance(v, str)), None)


def array_of(check: Check) -> Check:
    """Return a check that accepts an array if `check` accepts every element."""

    def check_array(value: object) -> str | None:
        if not isinstance(value, list | tuple):
            return f"expected an array, found {kind_of(value)}"
        problems = ((position, check(element)) for position, element in enumerate(value))
        return next((f"element {position}: {problem}" for position, problem in problems if problem is not None), None)

    return check_array


def one_of(*choices: str) -> Check:
    """Return a check that accepts only these strings."""

    def check_choice(value: object) -> str | None:
        return None if value in choices else f"expected one of {', '.join(choices)}, found {kind_of(value)}"

    return check_choice


def _integer(value: object, largest: int, words: str) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and -largest - 1 <= value <= largest:
        return None
    return f"expected {words}, found {kind_of(value)}"
