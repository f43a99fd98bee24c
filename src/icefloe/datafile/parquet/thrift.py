"""Structs of Thrift's compact protocol, parsed by definitions that list only the fields to return.

Arrow's generated parser ignores some bytes of a Parquet footer (the type of a list's elements, bits of a number beyond its width, a repeated field). Here every
value except the correct one is refused. `pattern_of` makes a regular expression that recognizes structs similar to a valid one. Spec: Thrift, Compact Protocol.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Thrift's compact types.
_STOP, _TRUE, _FALSE, _BYTE, _I16, I32, I64, _DOUBLE, BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_MAX_NESTING = 32  # the maximum nesting of skipped values; Parquet's own structs nest less than ten levels deep
_VARINT_BYTES = 10
_WIDTHS: Final[Mapping[int, int]] = {_I16: 16, I32: 32, I64: 64}
_NUMBER_IS_SURELY_SMALL = 0x7FFF - 15  # up to this field number, a delta of four bits cannot exceed 16 bits
# Patterns of a number with at most nine bytes (less than 64 bits), and of a text with at most 64 bytes. They are possessive, so that there is no backtracking.
_ANY_NUMBER = rb"[\x80-\xff]{0,8}+[\x00-\x7f]"
_ANY_TEXT = b"(?>%b)" % b"|".join(re.escape(bytes([size])) + b".{%d}" % size for size in range(65))


@dataclass(frozen=True, slots=True)
class ThriftStruct:
    """A struct of parquet.thrift: the types of the parsed fields, and the definitions of nested structs and list elements.

    Fields that are not listed contain no lists; both Arrow's parser and this one skip them by the type in their header. For a list of `lazy` structs, only
    their start positions are returned. If a struct in a list matches the pattern for its position, it is valid, and None is returned for it.
    """

    name: str
    types: Mapping[int, int] = field(default_factory=dict)
    structs: Mapping[int, "ThriftStruct"] = field(default_factory=dict)
    lists: Mapping[int, "int | ThriftStruct"] = field(default_factory=dict)
    required: frozenset[int] = frozenset()
    lazy: bool = False
    patterns: "tuple[re.Pattern[bytes], ...]" = ()
    kinds: Mapping[int, int] = field(init=False)  # the Thrift type of each of these fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", {**dict.fromkeys(self.structs, _STRUCT), **dict.fromkeys(self.lists, _LIST), **self.types})


_ANY_STRUCT = ThriftStruct("a struct")


def parse_struct(data: bytes, position: int, definition: ThriftStruct) -> tuple[dict[int, Any], int]:
    """Parse the listed fields of a struct. Return them by number, and the position after the struct.

    A number is returned unchanged, a text as its length, a list of numbers or texts as its length, a struct as its fields, and a list of structs as a list.
    """
    values: dict[int, Any] = {}
    kinds = definition.kinds
    number = 0
    # Thousands of small footers are parsed one after the other, so that most field headers are parsed without a function call.
    while head := data[position]:
        if head > 0x0F and number < _NUMBER_IS_SURELY_SMALL:
            number += head >> 4
            position += 1
        else:
            number, position = _field_number(data, position, number, definition)
        kind = head & 0x0F
        expected = kinds.get(number)
        if expected is None:
            position = _skip_value(data, position, kind)
            continue
        if kind != expected:
            raise ValueError(f"field {number} of {definition.name} has the Thrift type {kind}")
        value, position = _value(data, position, definition, number, kind)
        if number in values:
            raise ValueError(f"field {number} of {definition.name} is given twice")
        values[number] = value
    if not definition.required <= values.keys():
        raise ValueError(f"{definition.name} lacks a field: {sorted(definition.required - values.keys())}")
    return values, position + 1


def _field_number(data: bytes, position: int, previous: int, definition: ThriftStruct) -> tuple[int, int]:
    """Return the number of the field whose header is at `position`, and the position of its value."""
    delta = data[position] >> 4
    position += 1
    if delta:
        number = previous + delta
    else:
        raw, position = _varint(data, position, 16)
        number = _signed_number(raw)
    if number > 0x7FFF:
        raise ValueError(f"a field of {definition.name} has a number beyond 32767")
    return number, position


def _value(data: bytes, position: int, definition: ThriftStruct, number: int, kind: int) -> tuple[Any, int]:
    """Return the value of a field that the definition lists, and the position after it."""
    if kind == _LIST:
        return _list(data, position, definition.lists[number])
    if kind == _STRUCT:
        return parse_struct(data, position, definition.structs[number])
    if data[position] <= 0x7F:
        size, position = data[position], position + 1
    else:
        size, position = _varint(data, position, 31 if kind == BINARY else _WIDTHS[kind])
    return (size, position + size) if kind == BINARY else (_signed_number(size), position)


def _skip_value(data: bytes, position: int, kind: int) -> int:
    """Return the position after a field that is not parsed."""
    if _I16 <= kind <= I64:
        end = position + 1
        while data[end - 1] > 0x7F:
            end += 1
        # A longer number may have more than 64 bits.
        return end if end - position < _VARINT_BYTES else _skip(data, position, kind, 0)
    if kind == BINARY and data[position] <= 0x7F:
        return position + data[position] + 1
    return _skip(data, position, kind, 0)


def _check_type(definition: ThriftStruct, number: int, kind: int) -> None:
    if kind != definition.kinds[number]:
        raise ValueError(f"field {number} of {definition.name} has the Thrift type {kind}")


def _list(data: bytes, position: int, element: "int | ThriftStruct") -> tuple[Any, int]:
    """Return the structs of a list, the start positions of lazy structs, or the number of other elements; and the position after the list."""
    count, kind, position = _list_head(data, position)
    if count and kind != (_STRUCT if isinstance(element, ThriftStruct) else element):
        raise ValueError(f"a list has elements of the Thrift type {kind}")
    if not isinstance(element, ThriftStruct):
        for _ in range(count):
            position = position + 1 if data[position] <= 0x7F and element in _WIDTHS else _skip(data, position, element, 0)
        return count, position
    structs: list[Any] = []
    for place in range(count):
        match = element.patterns[place].match(data, position) if place < len(element.patterns) else None
        if match is not None:
            structs.append(None)
            position = match.end()
        elif element.lazy:
            structs.append(position)
            position = _skip_defined(data, position, element)
        elif element.types or element.structs or element.lists:
            fields, position = parse_struct(data, position, element)
            structs.append(fields)
        else:
            position = _skip_defined(data, position, element)
    return structs, position


def pattern_of(data: bytes, position: int, definition: ThriftStruct, *, is_text: bool = False) -> re.Pattern[bytes]:
    """Return a pattern that matches structs similar to the valid struct at `position`, which are valid too.

    Similar structs have the same fields, types, lengths of lists and texts, and the same numbers where numbers are checked. Other numbers, and the bytes of
    bounds, may differ.

    Args:
        data: The footer.
        position: The start of the struct.
        definition: The parsed fields of the struct.
        is_text: Whether the bounds in its statistics may have any length.
    """
    pieces: list[bytes] = []
    _add_fields(pieces, data, position, definition, is_text=is_text)
    return re.compile(b"".join(pieces), re.DOTALL)


def _add_fields(pieces: list[bytes], data: bytes, position: int, definition: ThriftStruct, *, is_text: bool) -> int:
    """Add the patterns for the fields of a struct. Return the position after the struct."""
    number = 0
    while data[position]:
        begin, kind = position, data[position] & 0x0F
        number, position = _field_number(data, position, number, definition)
        pieces.append(re.escape(data[begin:position]))
        is_read = number in definition.types
        if kind == _STRUCT:
            position = _add_fields(pieces, data, position, definition.structs.get(number, _ANY_STRUCT), is_text=is_text)
        elif kind == _LIST and number in definition.lists:
            position = _add_elements(pieces, data, position, definition.lists[number], is_text=is_text)
        else:
            end = _skip(data, position, kind, 0)
            if kind in _WIDTHS and (kind != I32 or not is_read):
                pieces.append(_ANY_NUMBER)
            elif kind == BINARY and is_read:
                size, start = _varint(data, position, 31)
                pieces.append(_ANY_TEXT if is_text else re.escape(data[position:start]) + b".{%d}" % size)
            else:
                pieces.append(re.escape(data[position:end]))
            position = end
    pieces.append(b"\\x00")
    return position + 1


def _add_elements(pieces: list[bytes], data: bytes, position: int, element: "int | ThriftStruct", *, is_text: bool) -> int:
    """Add the patterns for a list of the same length. Return the position after the list."""
    begin = position
    count, _, position = _list_head(data, position)
    pieces.append(re.escape(data[begin:position]))
    for _ in range(count):
        if isinstance(element, ThriftStruct):
            position = _add_fields(pieces, data, position, element, is_text=is_text)
        else:
            end = _skip(data, position, element, 0)
            pieces.append(_ANY_NUMBER if element in _WIDTHS else re.escape(data[position:end]))
            position = end
    return position


def _skip_defined(data: bytes, position: int, definition: ThriftStruct) -> int:
    """Return the position after a struct. It is skipped without being parsed, but the types of elements in its lists are checked.

    Wide files have thousands of column chunks, of about 35 fields each, so numbers and short texts are skipped here without a call.
    """
    structs, lists = definition.structs, definition.lists
    number = 0
    while head := data[position]:
        if head > 0x0F and number < _NUMBER_IS_SURELY_SMALL:
            number += head >> 4
            position += 1
        else:
            number, position = _field_number(data, position, number, definition)
        kind = head & 0x0F
        if number in structs:
            _check_type(definition, number, kind)
            position = _skip_defined(data, position, structs[number])
        elif number in lists:
            _check_type(definition, number, kind)
            _, position = _list(data, position, lists[number])
        elif _I16 <= kind <= I64:
            # Numbers of more than ten bytes have been refused by Arrow already.
            while data[position] > 0x7F:
                position += 1
            position += 1
        elif kind == BINARY and data[position] <= 0x7F:
            position += data[position] + 1
        elif kind > _FALSE:
            position = _skip(data, position, kind, 0)
    return position + 1


def _list_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Return the number of a list's elements, their type, and the position of the first element."""
    head = data[position]
    if head >> 4 < 15:
        return head >> 4, head & 0x0F, position + 1
    count, position = _varint(data, position + 1, 31)
    return count, head & 0x0F, position


def _skip(data: bytes, position: int, kind: int, depth: int) -> int:
    """Return the position after a value that is not parsed."""
    if kind in _WIDTHS:
        return _varint(data, position, 64)[1]
    if kind == BINARY:
        size, position = _varint(data, position, 31)
        return position + size
    if kind == _STRUCT:
        return _skip_struct(data, position, depth + 1)
    if kind in (_TRUE, _FALSE):
        return position
    if kind == _BYTE:
        return position + 1
    if kind == _DOUBLE:
        return position + 8
    if kind in (_LIST, _SET):
        count, kind, position = _list_head(data, position)
        for _ in range(count):
            position = _skip_element(data, position, kind, depth + 1)
        return position
    if kind == _MAP:
        count, position = _varint(data, position, 31)
        if count:
            kinds = data[position]
            position += 1
            for _ in range(count):
                position = _skip_element(data, position, kinds >> 4, depth + 1)
                position = _skip_element(data, position, kinds & 0x0F, depth + 1)
        return position
    raise ValueError(f"a field has the Thrift type {kind}")


def _skip_element(data: bytes, position: int, kind: int, depth: int) -> int:
    if position >= len(data):
        raise ValueError("it ends within a list")
    # In a list a boolean takes one byte; as a field its value is part of the type.
    return position + 1 if kind in (_TRUE, _FALSE) else _skip(data, position, kind, depth)


def _skip_struct(data: bytes, position: int, depth: int) -> int:
    if depth > _MAX_NESTING:
        raise ValueError(f"it is nested more than {_MAX_NESTING} levels deep")
    while head := data[position]:
        position += 1
        if not head >> 4:
            _, position = _varint(data, position, 16)
        position = _skip(data, position, head & 0x0F, depth)
    return position + 1


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Return an unsigned number of at most `bits` bits, and the position after it."""
    value = data[position]
    position += 1
    if value >= 0x80:
        value &= 0x7F
        for shift in range(7, 7 * _VARINT_BYTES, 7):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise ValueError("a number has more than ten bytes")
        if value >> bits:
            raise ValueError(f"a number has more than {bits} bits")
    return value, position


def _signed_number(raw: int) -> int:
    return raw >> 1 ^ -(raw & 1)
