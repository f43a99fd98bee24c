"""Serialization of values between Spark's driver and tasks as MessagePack. In contrast to pickle, decoding the bytes never runs code from them.

The bytes are columns of DataFrames, and with Spark Connect they come from a server that may belong to another user. A registered dataclass is encoded as its
name and its field values; decoding sets the fields without calling a constructor, so that bytes cannot refer to other classes or to functions. Values in RDDs
are not encoded here, because Spark's own serializer transports them between its authenticated processes.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from icefloe.errors import EngineError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec import types
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, And, Or
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary

T = TypeVar("T")

# The first element of a list, which states the type of the value.
_LIST, _TUPLE, _DICT, _OBJECT, _ENUM, _INT, _TEXT, _DECIMAL, _UUID = range(9)
# Types that MessagePack encodes itself.
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_TYPES = tuple(kind for kind in vars(types).values() if isinstance(kind, type) and issubclass(kind, types.IcebergType))
_KINDS: tuple[type, ...] = (
    *(DataFile, FileContent, FileFormat, FileScanTask, ManifestFile, ManifestContent, PartitionFieldSummary),
    *(AlwaysTrue, AlwaysFalse, And, Or, BoundPredicate, PredicateOperator, types.NestedField, *_TYPES),
)


class TaskValues:
    """Encodes and decodes values: numbers, texts, bytes, collections, and objects of Icefloe's classes in `_KINDS` and of the enums and dataclasses `more`."""

    def __init__(self, *more: type) -> None:
        self._classes: Mapping[str, type] = {kind.__name__: kind for kind in (*_KINDS, *more)}
        self._names = {kind: name for name, kind in self._classes.items()}
        self._fields: Mapping[type, tuple[str, ...]] = {
            kind: tuple(field.name for field in fields(kind)) for kind in self._names if is_dataclass(kind)
        }
        self._values: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {kind: _values_of(names) for kind, names in self._fields.items()}

    def to_bytes(self, value: object) -> bytes:
        """Encode the value as bytes. Raises `TypeError` for a value of a class that is not registered."""
        try:
            return msgspec.msgpack.encode(self._pack(value, exact=False))
        except (UnicodeEncodeError, OverflowError):
            # Text that is not valid Unicode, such as some file names, and numbers over 64 bits have a special form, which is rare and slower.
            return msgspec.msgpack.encode(self._pack(value, exact=True))

    def from_bytes(self, content: bytes, kind: type[T]) -> T:
        """Decode bytes as a value of a class.

        Raises:
            EngineError: The bytes are not a valid value of the class.
        """
        try:
            value = self._unpack(msgspec.msgpack.decode(content))
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
            raise _unreadable(f"{type(error).__name__}: {error}") from error
        if not isinstance(value, kind):
            raise _unreadable(f"it is a {type(value).__name__}, not a {kind.__name__}")
        return value

    def _pack(self, value: Any, *, exact: bool) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return _exact(value) if exact else value
        if kind in self._fields:
            values = self._values[kind](value)
            return [
                _OBJECT,
                self._names[kind],
                *(member if not exact and type(member) in _PLAIN else self._pack(member, exact=exact) for member in values),
            ]
        if kind is tuple or kind is list:
            return [_TUPLE if kind is tuple else _LIST, *(self._pack(member, exact=exact) for member in value)]
        if isinstance(value, Mapping):
            if not exact and _PLAIN.issuperset(map(type, value.values())) and _PLAIN.issuperset(map(type, value)):
                return dict(value)
            return [_DICT, *(self._pack(member, exact=exact) for pair in value.items() for member in pair)]
        if kind in self._names:
            return [_ENUM, self._names[kind], value.name]
        if kind is Decimal:
            return [_DECIMAL, str(value)]
        if kind is uuid.UUID:
            return [_UUID, value.bytes]
        raise TypeError(f"a value of type {kind.__qualname__} cannot be sent between a task and the driver")

    def _unpack(self, value: Any) -> Any:
        if type(value) is not list:
            return value
        code = value[0]
        if code == _OBJECT:
            return self._object(value)
        if code == _ENUM:
            return self._enum(value)
        if code in _SCALARS:
            return _SCALARS[code](value[1])
        members = [member if type(member) in _PLAIN else self._unpack(member) for member in value[1:]]
        if code == _DICT:
            return dict(zip(members[::2], members[1::2], strict=True))
        return {_TUPLE: tuple, _LIST: list}[code](members)

    def _object(self, value: list[Any]) -> Any:
        kind = self._classes[value[1]]
        instance: Any = object.__new__(kind)
        for name, member in zip(self._fields[kind], value[2:], strict=True):
            object.__setattr__(instance, name, member if type(member) in _PLAIN else self._unpack(member))
        return instance

    def _enum(self, value: list[Any]) -> Any:
        kind = self._classes[value[1]]
        if not issubclass(kind, Enum):
            raise TypeError(f"{value[1]} is not an enum")
        return kind[value[2]]


def _values_of(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    field_names = tuple(names)
    if not field_names:
        return lambda _: ()
    getter = attrgetter(*field_names)
    return getter if len(field_names) > 1 else lambda value: (getter(value),)


def _exact(value: Any) -> Any:
    """Return a plain value in a form that MessagePack can always encode.

    A text becomes a list of `_TEXT` and its bytes, because MessagePack refuses texts that are not valid Unicode. An integer of more than 64 bits becomes a
    list of `_INT` and its digits. Any other value is returned unchanged.
    """
    if type(value) is str:
        return [_TEXT, value.encode("utf-8", "surrogatepass")]
    return [_INT, str(value)] if type(value) is int and not -(2**63) <= value < 2**64 else value


_SCALARS: Mapping[int, Callable[[Any], Any]] = {
    _INT: int,
    _TEXT: lambda content: content.decode("utf-8", "surrogatepass"),
    _DECIMAL: Decimal,
    _UUID: lambda content: uuid.UUID(bytes=content),
}


def _unreadable(what: str) -> EngineError:
    return EngineError(
        f"a value between a Spark task and the driver cannot be decoded: {what}",
        next_step="use the same version of Icefloe on all machines",
    )
