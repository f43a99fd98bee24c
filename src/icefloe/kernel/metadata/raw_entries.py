"""`RawEntries`: a list of metadata JSON kept as the bytes it was read from, each entry decoded when it is first used.

A table with 1,000 snapshots is opened to look at one or two of them and written back with one more. So entries that are not used cost nothing
but their bytes, are written back as they were read (with the keys that this version does not know), and are shared between versions of the metadata.
The meaning of an entry is in `snapshot.py`, `table_history.py`, and in `kernel/schema` and `kernel/partitioning`. Spec: Appendix C.
"""

from collections.abc import Callable, Collection, Iterable, KeysView, Sequence
from dataclasses import dataclass
from functools import cache
from operator import is_
from typing import Any, Generic, TypeVar, overload

import msgspec

from icefloe.errors import MetadataFormatError, Problem
from icefloe.kernel.metadata.json_file import nested_too_deeply

T = TypeVar("T")

# Number of entries at the end that are searched before an index of all is built: the current snapshot and its parent are nearly always last.
_LOOK_BACK = 4


@dataclass(frozen=True)
class EntryKind(Generic[T]):
    """The kind of a list: its key in the metadata JSON, how an entry is decoded and encoded, and which key holds an entry's id.

    `decode` gets the parsed JSON and its JSON path, and raises `MetadataFormatError` with every problem.
    """

    key: str
    decode: Callable[[Any, str], T]
    encode: Callable[[T], Any]
    id_key: str | None = None
    default_id: int | None = None  # the id of an entry that has none

    def raw(self, entry: T) -> msgspec.Raw:
        """Return the entry as JSON bytes."""
        return msgspec.Raw(msgspec.json.encode(self.encode(entry)))

    def id_of(self, raw: msgspec.Raw) -> int | None:
        """Return the entry's id without decoding the rest of it; None where it has none."""
        if self.id_key is None:
            return None
        try:
            entry_id: int | None = _id_decoder(self.id_key).decode(raw).entry_id
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # decoding the entry itself reports the problem
        return self.default_id if entry_id is None else entry_id

    def ids_of(self, raws: Sequence[msgspec.Raw]) -> list[int | None]:
        """Return the id of each entry, as `id_of` does."""
        if self.id_key is None:
            return [None] * len(raws)
        decode = _id_decoder(self.id_key).decode
        try:
            entry_ids = [decode(raw).entry_id for raw in raws]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return list(map(self.id_of, raws))
        return entry_ids if self.default_id is None else [self.default_id if entry_id is None else entry_id for entry_id in entry_ids]


@cache
def _id_decoder(key: str) -> msgspec.json.Decoder[Any]:
    """Return a decoder of one key of an object, which skips the other keys."""
    return msgspec.json.Decoder(msgspec.defstruct("EntryId", [("entry_id", int | None, msgspec.field(name=key, default=None))]))


class RawEntries(Sequence[T]):
    """An immutable sequence of `T`. A longer or shorter sequence made from it shares its bytes and its index."""

    __slots__ = ("_decoded", "_index", "_kind", "_path", "_raws")

    def __init__(self, kind: EntryKind[T], raws: Iterable[msgspec.Raw], path: str | None = None) -> None:
        self._kind = kind
        self._raws = tuple(raws)
        self._path = path
        self._decoded: dict[int, T] = {}
        self._index: dict[int, int] | None = None

    @classmethod
    def of(cls, kind: EntryKind[T], entries: Iterable[T]) -> "RawEntries[T]":
        """Return a list of values that were not read from a file."""
        values = tuple(entries)
        raw_entries = cls(kind, map(kind.raw, values))
        raw_entries._decoded = dict(enumerate(values))
        return raw_entries

    @property
    def raws(self) -> tuple[msgspec.Raw, ...]:
        """Return the entries as JSON bytes, in order."""
        return self._raws

    def __len__(self) -> int:
        return len(self._raws)

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[T, ...]: ...
    def __getitem__(self, position: int | slice) -> T | tuple[T, ...]:
        if isinstance(position, slice):
            return tuple(self[at] for at in range(*position.indices(len(self._raws))))
        at = position + len(self._raws) if position < 0 else position
        entry = self._decoded.get(at)
        if entry is None:
            entry = self._decoded[at] = self._decode(at)
        return entry

    def get(self, entry_id: int) -> T | None:
        """Return the entry with this id, or None. Searches the last few entries first."""
        at = self.position(entry_id)
        return None if at is None else self[at]

    def raw(self, entry_id: int) -> msgspec.Raw:
        """Return the entry with this id as JSON bytes.

        Raises:
            MetadataFormatError: there is no such entry.
        """
        at = self.position(entry_id)
        if at is None:
            raise MetadataFormatError(f"there is no entry {entry_id} in {self._kind.key}")
        return self._raws[at]

    def position(self, entry_id: int) -> int | None:
        """Return the position of the entry with this id, or None."""
        if self._index is None:
            for at in range(len(self._raws) - 1, max(-1, len(self._raws) - 1 - _LOOK_BACK), -1):
                if self._kind.id_of(self._raws[at]) == entry_id:
                    return at
        return self._positions().get(entry_id)

    def ids(self) -> KeysView[int]:
        """Return the ids in order, each once; entries without an id are left out."""
        return self._positions().keys()

    def only_here(self, other: "RawEntries[T]") -> Sequence[int]:
        """Return the positions of entries whose bytes are not shared with `other`: none where this list is the other without some of its entries."""
        is_shared = list(map(is_, self._raws, other._raws))
        start = len(is_shared) if all(is_shared) else is_shared.index(False)
        shared = set(map(id, other._raws[start:]))
        return [at for at in range(start, len(self._raws)) if id(self._raws[at]) not in shared]

    def appended(self, *entries: T) -> "RawEntries[T]":
        """Return the list with more entries at the end."""
        longer = RawEntries(self._kind, (*self._raws, *map(self._kind.raw, entries)), self._path)
        longer._decoded = {**self._decoded, **dict(enumerate(entries, start=len(self._raws)))}
        if self._index is not None:
            longer._index = longer._indexed(dict(self._index), start=len(self._raws))
        return longer

    def without(self, ids: Collection[int]) -> "RawEntries[T]":
        """Return the list without the entries of these ids; the same list where no entry has one of them."""
        removed_ids = self._positions().keys() & ids
        if not removed_ids:
            return self
        return self._at_positions([at for at, raw in enumerate(self._raws) if self._kind.id_of(raw) not in removed_ids])

    def without_first(self, count: int) -> "RawEntries[T]":
        """Return the list without its first `count` entries."""
        return self._at_positions(range(count, len(self._raws))) if count > 0 else self

    def where(self, keep: Callable[[T], bool]) -> "RawEntries[T]":
        """Return the entries for which `keep` is true; decodes all of them."""
        return self._at_positions([at for at, entry in enumerate(self) if keep(entry)])

    def _at_positions(self, positions: Sequence[int]) -> "RawEntries[T]":
        selected = RawEntries(self._kind, (self._raws[at] for at in positions), self._path)
        selected._decoded = {new: self._decoded[old] for new, old in enumerate(positions) if old in self._decoded}
        return selected

    def _positions(self) -> dict[int, int]:
        if self._index is None:
            self._index = self._indexed({}, start=0)  # assigned when complete, since threads share these entries
        return self._index

    def _indexed(self, index: dict[int, int], start: int) -> dict[int, int]:
        ids = self._kind.ids_of(self._raws[start:])
        if not index:
            positions = dict(zip(ids, range(start, start + len(ids)), strict=True))
            if len(positions) == len(ids) and None not in positions:
                return positions  # type: ignore[return-value]
        for at, entry_id in enumerate(ids, start):
            if entry_id is not None:
                index.setdefault(entry_id, at)
        return index

    def _decode(self, at: int) -> T:
        where = f"$.{self._kind.key}[{at}]"
        try:
            return self._kind.decode(msgspec.json.decode(self._raws[at]), where)
        except MetadataFormatError as error:
            error.path = error.path or self._path
            raise
        except RecursionError as error:
            raise nested_too_deeply(self._path) from error
        # Reading a raw entry finds its end without checking its strings, so that they may be no UTF-8.
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = Problem(where=where, what=str(error))
            raise MetadataFormatError("the metadata file is not JSON", path=self._path, problems=[problem]) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RawEntries):
            return NotImplemented
        if len(self._raws) != len(other._raws):
            return False
        pairs = enumerate(zip(self._raws, other._raws, strict=True))
        return all(mine is theirs or bytes(mine) == bytes(theirs) or self[at] == other[at] for at, (mine, theirs) in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RawEntries({self._kind.key}: {len(self._raws)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (RawEntries, (self._kind, self._raws, self._path))
