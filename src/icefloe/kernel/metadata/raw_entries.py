"""`RawEntries`: a list of metadata JSON kept as the bytes it was read from, each entry decoded when someone asks for it.

A table with 1,000 snapshots is opened to look at one or two of them and written back with one more. So entries that nobody looks at cost nothing
but their bytes, go back into the file as they came (with the keys that this version does not know), and are shared between versions of the metadata.
What an entry means is in `snapshot.py`, `history.py` and the rooms below. Spec: Appendix C.
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

# How many entries from the end are looked at before an index of all is built: the current snapshot and its parent are nearly always last.
_LOOK_BACK = 4


@dataclass(frozen=True)
class EntryKind(Generic[T]):
    """One kind of list: its key in the metadata JSON, how an entry is decoded and encoded, and which of its keys is its id.

    `decode` is given the parsed JSON and its JSON path, and raises `MetadataFormatError` with every problem.
    """

    key: str
    decode: Callable[[Any, str], T]
    encode: Callable[[T], Any]
    id_key: str | None = None
    default_id: int | None = None  # the id of an entry that does not give one

    def raw(self, entry: T) -> msgspec.Raw:
        """The entry as JSON bytes."""
        return msgspec.Raw(msgspec.json.encode(self.encode(entry)))

    def id_of(self, raw: msgspec.Raw) -> int | None:
        """The entry's id, without decoding the rest of it; None where it has none."""
        if self.id_key is None:
            return None
        try:
            found: int | None = _id_decoder(self.id_key).decode(raw).entry_id
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # said in full when the entry itself is decoded
        return self.default_id if found is None else found

    def ids_of(self, raws: Sequence[msgspec.Raw]) -> list[int | None]:
        """`id_of` each."""
        if self.id_key is None:
            return [None] * len(raws)
        decode = _id_decoder(self.id_key).decode
        try:
            found = [decode(raw).entry_id for raw in raws]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return list(map(self.id_of, raws))
        return found if self.default_id is None else [self.default_id if one is None else one for one in found]


@cache
def _id_decoder(key: str) -> msgspec.json.Decoder[Any]:
    """Decodes one key of an object and skips the others."""
    return msgspec.json.Decoder(msgspec.defstruct("EntryId", [("entry_id", int | None, msgspec.field(name=key, default=None))]))


class RawEntries(Sequence[T]):
    """An immutable sequence of `T`. Making a longer or shorter one shares the bytes and the index of this one."""

    __slots__ = ("_decoded", "_index", "_kind", "_path", "_raws")

    def __init__(self, kind: EntryKind[T], raws: Iterable[msgspec.Raw], path: str | None = None) -> None:
        self._kind = kind
        self._raws = tuple(raws)
        self._path = path
        self._decoded: dict[int, T] = {}
        self._index: dict[int, int] | None = None

    @classmethod
    def of(cls, kind: EntryKind[T], entries: Iterable[T]) -> "RawEntries[T]":
        """Entries made here, not read."""
        values = tuple(entries)
        made = cls(kind, map(kind.raw, values))
        made._decoded = dict(enumerate(values))
        return made

    @property
    def raws(self) -> tuple[msgspec.Raw, ...]:
        """The entries as JSON bytes, in order."""
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
        found = self._decoded.get(at)
        if found is None:
            found = self._decoded[at] = self._decode(at)
        return found

    def get(self, entry_id: int) -> T | None:
        """The entry with this id, or None. Looks at the last few entries first."""
        at = self.position(entry_id)
        return None if at is None else self[at]

    def raw(self, entry_id: int) -> msgspec.Raw:
        """The entry with this id as JSON bytes. Raises `MetadataFormatError` where there is none."""
        at = self.position(entry_id)
        if at is None:
            raise MetadataFormatError(f"there is no entry {entry_id} in {self._kind.key}")
        return self._raws[at]

    def position(self, entry_id: int) -> int | None:
        """Where the entry with this id is, or None."""
        if self._index is None:
            for at in range(len(self._raws) - 1, max(-1, len(self._raws) - 1 - _LOOK_BACK), -1):
                if self._kind.id_of(self._raws[at]) == entry_id:
                    return at
        return self._positions().get(entry_id)

    def ids(self) -> KeysView[int]:
        """The ids, in order and each once; entries without one are left out."""
        return self._positions().keys()

    def only_here(self, other: "RawEntries[T]") -> Sequence[int]:
        """Where the entries are whose bytes are not shared with `other`: none where one was made of the other by leaving entries out."""
        alike = list(map(is_, self._raws, other._raws))
        start = len(alike) if all(alike) else alike.index(False)
        shared = set(map(id, other._raws[start:]))
        return [at for at in range(start, len(self._raws)) if id(self._raws[at]) not in shared]

    def appended(self, *entries: T) -> "RawEntries[T]":
        """These entries and more at the end."""
        made = RawEntries(self._kind, (*self._raws, *map(self._kind.raw, entries)), self._path)
        made._decoded = {**self._decoded, **dict(enumerate(entries, start=len(self._raws)))}
        if self._index is not None:
            made._index = made._indexed(dict(self._index), start=len(self._raws))
        return made

    def without(self, ids: Collection[int]) -> "RawEntries[T]":
        """The entries whose id is none of these."""
        gone = self._positions().keys() & ids
        return self._kept([at for at, raw in enumerate(self._raws) if self._kind.id_of(raw) not in gone]) if gone else self

    def without_first(self, count: int) -> "RawEntries[T]":
        """The entries after the first `count`."""
        return self._kept(range(count, len(self._raws))) if count > 0 else self

    def where(self, keep: Callable[[T], bool]) -> "RawEntries[T]":
        """The entries for which `keep` is true; decodes all of them."""
        return self._kept([at for at, entry in enumerate(self) if keep(entry)])

    def _kept(self, positions: Sequence[int]) -> "RawEntries[T]":
        made = RawEntries(self._kind, (self._raws[at] for at in positions), self._path)
        made._decoded = {new: self._decoded[old] for new, old in enumerate(positions) if old in self._decoded}
        return made

    def _positions(self) -> dict[int, int]:
        if self._index is None:
            self._index = self._indexed({}, start=0)  # whole before it is kept: threads share these entries
        return self._index

    def _indexed(self, index: dict[int, int], start: int) -> dict[int, int]:
        ids = self._kind.ids_of(self._raws[start:])
        if not index and len(whole := dict(zip(ids, range(start, start + len(ids)), strict=True))) == len(ids) and None not in whole:
            return whole  # type: ignore[return-value]
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
        except (
            msgspec.DecodeError,
            UnicodeDecodeError,
        ) as error:  # reading a raw entry finds its end, and does not look inside its strings
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
