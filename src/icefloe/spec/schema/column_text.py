"""Columns as text: `id long not null, place struct<lat: double, lon: double>, tags list<string> comment 'free text'`.

Types have their names from the format. SQL names of the same types are also accepted, such as `bigint`. `timestamp` is the format's type, without a time zone.
"""

import re
from collections.abc import Iterator

from icefloe.errors import InvalidSchemaError, MetadataFormatError
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import type_from_json
from icefloe.spec.types import IcebergType, ListType, MapType, NestedField, StructType

# SQL names of the format's types.
_OF_SQL = {
    "bigint": "long",
    "integer": "int",
    "bool": "boolean",
    "real": "float",
    "text": "string",
    "varchar": "string",
    "timestamp_ntz": "timestamp",
    "timestamp_ltz": "timestamptz",
}
_TYPES = (
    "boolean, int, long, float, double, decimal(9,2), date, time, timestamp, timestamptz, string, uuid, fixed[16], binary, list<string>, "
    "map<string, long>, struct<lat: double, lon: double>; from format version 3 on timestamp_ns, timestamptz_ns, variant, geometry, geography"
)
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")   # a name in quotes
      | '(?P<text>(?:[^']|'')*)'                    # a comment
      | (?P<word>[^\s,:<>()\[\]'"`]+)
      | (?P<arguments>\([^()]*\)|\[[^\[\]]*\])      # of decimal(9,2), fixed[16], geometry(srid:4326)
      | (?P<sign>[,:<>])
    )""",
    re.VERBOSE,
)
# The limit of the parser's recursion. `nesting.py` has the limit of nesting for tables.
_DEEPEST = 100


def columns_from_text(text: str, option: str = "--schema") -> Schema:
    """Parse columns as text into a schema, with field ids from 1 upwards.

    Args:
        text: Columns separated by commas. Each has a name, a type, and optionally `not null` and `comment '...'`.
        option: The command-line option that the text comes from, for error messages.

    Raises:
        InvalidSchemaError: The text has a syntax error or contains an unknown type.
    """
    parser = _Parser(text, option)
    fields = parser.fields(end=None, separator=None, depth=0)
    return Schema(*fields)


def type_from_text(text: str, option: str = "TYPE") -> IcebergType:
    """Parse a type as text, such as `long`, `decimal(9,2)` or `list<string>`. Raises `InvalidSchemaError`."""
    parser = _Parser(text, option)
    kind = parser.type(depth=0)
    parser.expect_end()
    return kind


class _Parser:
    """A recursive-descent parser of one text. Error messages contain `option`."""

    def __init__(self, text: str, option: str) -> None:
        self._text = text
        self._option = option
        self._tokens = list(self._split())
        self._place = 0
        self._last_id = 0

    def fields(self, *, end: str | None, separator: str | None, depth: int) -> list[NestedField]:
        """Parse columns up to the token `end`, or to the end of the text. In a struct, `separator` is between name and type."""
        numbers: list[int] = []
        parts: list[tuple[str, IcebergType, bool, str | None]] = []
        while True:
            name = self._name()
            if separator is not None or self._next() == ("sign", ":"):
                self._expect(":", f"after the name {name!r}")
            numbers.append(self._new_id())
            kind = self.type(depth)
            required, doc = self._constraints()
            parts.append((name, kind, required, doc))
            if self._next() != ("sign", ","):
                break
            self._place += 1
        if end is None:
            self.expect_end()
        else:
            self._expect(end, "after the fields of a struct")
        return [NestedField(number, *part) for number, part in zip(numbers, parts, strict=True)]

    def type(self, depth: int) -> IcebergType:
        """Parse the type that begins at the next token."""
        if depth > _DEEPEST:
            raise self._error("types are nested too deeply")
        kind, word = self._next()
        if kind != "word":
            raise self._error(f"a type is missing before {word!r}" if word else "a type is missing at the end")
        self._place += 1
        name = word.lower()
        if name in ("list", "array", "map", "struct"):
            return self._nested_type(name, depth + 1)
        arguments = ""
        if self._next()[0] == "arguments":
            arguments = self._next()[1]
            self._place += 1
        name = "string" if name == "varchar" and re.fullmatch(r"\(\s*\d+\s*\)", arguments) else _OF_SQL.get(name, name) + arguments
        try:
            return type_from_json(name)
        except MetadataFormatError as error:
            raise self._error(f"there is no type {word + arguments!r}", f"the types are {_TYPES}") from error

    def expect_end(self) -> None:
        """Raise a syntax error if there is a further token."""
        if self._place < len(self._tokens):
            raise self._error(f"{self._next()[1]!r} is not expected there")

    def _nested_type(self, name: str, depth: int) -> IcebergType:
        self._expect("<", f"after {name}")
        if name == "struct":
            return StructType(*self.fields(end=">", separator=":", depth=depth))
        first_id = self._new_id()
        first = self.type(depth)
        if name == "map":
            self._expect(",", "between the types of keys and values")
            value_id = self._new_id()
            value = self.type(depth)
            self._expect(">", "after the types of a map")
            return MapType(key_id=first_id, key_type=first, value_id=value_id, value_type=value, value_required=False)
        self._expect(">", "after the type of a list's elements")
        return ListType(element_id=first_id, element=first, element_required=False)

    def _constraints(self) -> tuple[bool, str | None]:
        """Parse `not null` and `comment`. Return whether the column is required, and its documentation."""
        required, doc = False, None
        while self._next()[0] == "word":
            word = self._next()[1].lower()
            if word == "not" and self._next(1)[1].lower() == "null":
                required, self._place = True, self._place + 2
            elif word == "comment" and self._next(1)[0] == "text":
                doc, self._place = self._next(1)[1], self._place + 2
            else:
                raise self._error(f"{self._next()[1]!r} is neither NOT NULL nor COMMENT 'text'")
        return required, doc

    def _name(self) -> str:
        kind, text = self._next()
        if kind not in ("word", "quoted"):
            raise self._error(f"the name of a column is missing before {text!r}" if text else "the name of a column is missing at the end")
        self._place += 1
        return text

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _next(self, ahead: int = 0) -> tuple[str, str]:
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else ("end", "")

    def _expect(self, sign: str, where: str) -> None:
        if self._next() != ("sign", sign):
            raise self._error(f"{sign!r} is missing {where}")
        self._place += 1

    def _split(self) -> Iterator[tuple[str, str]]:
        text, place = self._text.rstrip(), 0
        while place < len(text):
            token = _TOKEN.match(text, place)
            if token is None or token.lastgroup is None:
                raise self._error(f"{text[place:].strip()[:20]!r} is not understood")
            kind, content = token.lastgroup, token[token.lastgroup]
            if kind == "quoted":
                content = content[1:-1].replace(content[0] * 2, content[0])
            elif kind == "text":
                content = content.replace("''", "'")
            yield kind, content
            place = token.end()

    def _error(
        self, reason: str, next_step: str = 'write "name type, name type", such as "id long not null, name string"'
    ) -> InvalidSchemaError:
        shown = self._text if len(self._text) <= 200 else self._text[:200] + "..."
        return InvalidSchemaError(f"{self._option} {shown!r}: {reason}", next_step=next_step)
