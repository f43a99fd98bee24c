"""`RawEntries`: a list of metadata JSON kept as the bytes it was read from, each entry decoded when it is first used.

A table with 1,000 snapshots is opened to look at one or two of them and written back with one more. So entries that are not used cost nothing
but their bytes, are written back as they were read (with the keys that this version does not know), and are shared between versions of the metadata.
`PartialEntries` has a few of them at hand and loads the whole list when anything else of it is needed: a catalog can send a table with the snapshots of its
branches and tags only. A caller that lists, searches, counts or changes snapshots gets all of them, so that none takes a part for the whole.
The meaning of an entry is in `snapshot.py`, `table_history.py`, and in `spec/schema` and `spec/partitioning`. Spec: Appendix C; REST catalog, loadTable.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from typing import Any, Generic, TypeVar, overload

import msgspec

from icefloe.errors import MetadataFormatError, Problem
from icefloe.spec.metadata.json_file import nested_too_deeply
from icefloe.spec.metadata.json_text import JsonText

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


class _Block(Generic[T]):
    """Successive entries that lists share, with what is computed from their bytes at most once: the positions of ids, and the text for a file."""

    __slots__ = ("_index", "_text", "kind", "raws")

    def __init__(self, kind: EntryKind[T], raws: tuple[msgspec.Raw, ...]) -> None:
        self.kind = kind
        self.raws = raws
        self._index: dict[int, int] | None = None
        self._text: JsonText | None = None

    @property
    def has_index(self) -> bool:
        """Whether the positions of ids have been computed."""
        return self._index is not None

    def positions(self) -> dict[int, int]:
        """Return the position in the block of each id; the first one of an id that occurs twice."""
        if self._index is None:
            self._index = self._index_by_id()  # assigned when complete, since threads share these entries
        return self._index

    def _index_by_id(self) -> dict[int, int]:
        ids = self.kind.ids_of(self.raws)
        positions = dict(zip(ids, range(len(ids)), strict=True))
        if len(positions) == len(ids) and None not in positions:
            return positions  # type: ignore[return-value]
        index: dict[int, int] = {}
        for at, entry_id in enumerate(ids):
            if entry_id is not None:
                index.setdefault(entry_id, at)
        return index

    def text(self) -> JsonText:
        """Return the entries as JSON, separated by commas."""
        if self._text is None:
            self._text = JsonText(b",".join(self.raws))
        return self._text


class RawEntries(Sequence[T]):
    """An immutable sequence of `T`. A longer or shorter sequence made from it shares its bytes and what was computed from them.

    Entries are in blocks. An appended entry is a new block, and is merged with the blocks before it that are not larger, so that a list has few blocks, and
    appending costs the same however long the list is.
    """

    __slots__ = ("_blocks", "_decoded", "_ids", "_kind", "_length", "_path", "_starts")

    def __init__(self, kind: EntryKind[T], raws: Iterable[msgspec.Raw], path: str | None = None) -> None:
        self._kind = kind
        self._path = path
        self._set_blocks([(_Block(kind, tuple(raws)), {})])

    def _set_blocks(self, blocks: Iterable[tuple[_Block[T], dict[int, T]]]) -> None:
        """Set the blocks, each with the values that were decoded so far, by position in the block."""
        filled = [(block, decoded) for block, decoded in blocks if block.raws]
        self._blocks = tuple(block for block, _ in filled)
        self._decoded = tuple(decoded for _, decoded in filled)
        self._starts = tuple(accumulate((len(block.raws) for block in self._blocks), initial=0))
        self._length = self._starts[-1]
        self._ids: KeysView[int] | None = None

    def _of_blocks(self, blocks: Iterable[tuple[_Block[T], dict[int, T]]]) -> "RawEntries[T]":
        entries = RawEntries(self._kind, (), self._path)
        entries._set_blocks(blocks)
        return entries

    @classmethod
    def of(cls, kind: EntryKind[T], entries: Iterable[T]) -> "RawEntries[T]":
        """Return a list of values that were not read from a file."""
        return cls(kind, ()).with_entries(*entries)

    @property
    def raws(self) -> tuple[msgspec.Raw, ...]:
        """Return the entries as JSON bytes, in order."""
        return tuple(chain.from_iterable(block.raws for block in self._blocks))

    def texts(self) -> list[JsonText]:
        """Return the entries as pieces of JSON, which are joined by commas; lists that share entries share pieces."""
        return [block.text() for block in self._blocks]

    def fresh(self, path: str | None = None) -> "RawEntries[T]":
        """Return the list as another reader would get it: with all that is computed from its bytes, but with values of its own.

        Args:
            path: Location of the file, for messages; by default that of this list.
        """
        entries = RawEntries(self._kind, (), path or self._path)
        entries._set_blocks((block, {}) for block in self._blocks)
        return entries

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for start, block, decoded in zip(self._starts, self._blocks, self._decoded, strict=False):
            for offset, raw in enumerate(block.raws):
                entry = decoded.get(offset)
                if entry is None:
                    entry = decoded[offset] = self._decode(raw, start + offset)
                yield entry

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[T, ...]: ...
    def __getitem__(self, position: int | slice) -> T | tuple[T, ...]:
        if isinstance(position, slice):
            return tuple(map(self._entry, range(*position.indices(self._length))))
        at = position + self._length if position < 0 else position
        if not 0 <= at < self._length:
            raise IndexError(f"{self._kind.key} has {self._length} entries")
        return self._entry(at)

    def _entry(self, at: int) -> T:
        number, offset = self._place(at)
        decoded = self._decoded[number]
        entry = decoded.get(offset)
        if entry is None:
            entry = decoded[offset] = self._decode(self._blocks[number].raws[offset], at)
        return entry

    def _place(self, at: int) -> tuple[int, int]:
        """Return the number of an entry's block, and the entry's position there."""
        number = bisect_right(self._starts, at) - 1
        return number, at - self._starts[number]

    def _raw(self, at: int) -> msgspec.Raw:
        number, offset = self._place(at)
        return self._blocks[number].raws[offset]

    def get(self, entry_id: int) -> T | None:
        """Return the entry with this id, or None. Searches the last few entries first."""
        at = self.position(entry_id)
        return None if at is None else self._entry(at)

    def raw(self, entry_id: int) -> msgspec.Raw:
        """Return the entry with this id as JSON bytes.

        Raises:
            MetadataFormatError: there is no such entry.
        """
        at = self.position(entry_id)
        if at is None:
            raise MetadataFormatError(f"there is no entry {entry_id} in {self._kind.key}")
        return self._raw(at)

    def position(self, entry_id: int) -> int | None:
        """Return the position of the entry with this id, or None."""
        if not all(block.has_index for block in self._blocks):
            for at in range(self._length - 1, max(-1, self._length - 1 - _LOOK_BACK), -1):
                if self._kind.id_of(self._raw(at)) == entry_id:
                    return at
        for start, block in zip(self._starts, self._blocks, strict=False):
            offset = block.positions().get(entry_id)
            if offset is not None:
                return start + offset
        return None

    def ids(self) -> KeysView[int]:
        """Return the ids in order, each once; entries without an id are left out."""
        if self._ids is None:
            indexes = [block.positions() for block in self._blocks]
            self._ids = indexes[0].keys() if len(indexes) == 1 else dict.fromkeys(chain.from_iterable(indexes)).keys()
        return self._ids

    def only_here(self, other: "RawEntries[T]") -> Sequence[int]:
        """Return the positions of entries whose bytes are not shared with `other`: none where this list is the other without some of its entries."""
        own_blocks, other_blocks = set(map(id, self._blocks)), set(map(id, other._blocks))
        shared = {id(raw) for block in other._blocks if id(block) not in own_blocks for raw in block.raws}
        return [
            start + offset
            for start, block in zip(self._starts, self._blocks, strict=False)
            if id(block) not in other_blocks
            for offset, raw in enumerate(block.raws)
            if id(raw) not in shared
        ]

    def with_entries(self, *entries: T) -> "RawEntries[T]":
        """Return the list with more entries at the end."""
        return self._with_raws(tuple(map(self._kind.raw, entries)), dict(enumerate(entries))) if entries else self

    def sharing(self, other: "RawEntries[T]") -> "RawEntries[T]":
        """Return the list with the blocks of another one that it begins with, byte for byte: another version of the table that was read before.

        The other entries are copied: each is a view of the whole file that it was read from, which would stay in memory with it in every later version.
        """
        raws = self.raws
        shared: list[tuple[_Block[T], dict[int, T]]] = []
        start = 0
        for block in other._blocks:
            end = start + len(block.raws)
            if raws[start:end] != block.raws:
                break
            shared.append((block, {}))
            start = end
        return self._of_blocks(shared)._with_raws(tuple(raw.copy() for raw in raws[start:]), {}) if shared else self

    def _with_raws(self, raws: tuple[msgspec.Raw, ...], decoded: dict[int, T]) -> "RawEntries[T]":
        kept = len(self._blocks)
        while kept and len(self._blocks[kept - 1].raws) <= len(raws):
            kept -= 1
            block = self._blocks[kept]
            decoded = {**self._decoded[kept], **{len(block.raws) + offset: entry for offset, entry in decoded.items()}}
            raws = block.raws + raws
        blocks = zip(self._blocks[:kept], self._decoded, strict=False)
        return self._of_blocks((*blocks, (_Block(self._kind, raws), decoded)))

    def without(self, ids: Collection[int]) -> "RawEntries[T]":
        """Return the list without the entries of these ids; the same list where no entry has one of them."""
        removed_ids = frozenset(ids)
        if not any(block.positions().keys() & removed_ids for block in self._blocks):
            return self
        return self._select(
            [at for at, entry_id in enumerate(self._kind.ids_of(block.raws)) if entry_id not in removed_ids]
            if block.positions().keys() & removed_ids
            else range(len(block.raws))
            for block in self._blocks
        )

    def without_first(self, count: int) -> "RawEntries[T]":
        """Return the list without its first `count` entries."""
        if count <= 0:
            return self
        return self._select(range(max(0, count - start), len(block.raws)) for start, block in zip(self._starts, self._blocks, strict=False))

    def where(self, keep: Callable[[T], bool]) -> "RawEntries[T]":
        """Return the entries for which `keep` is true; decodes all of them."""
        return self._select(
            [offset for offset in range(len(block.raws)) if keep(self._entry(start + offset))]
            for start, block in zip(self._starts, self._blocks, strict=False)
        )

    def _select(self, positions: Iterable[Sequence[int]]) -> "RawEntries[T]":
        """Return the entries at some positions of each block. A block of which all are kept is shared."""
        blocks = []
        for block, decoded, selected in zip(self._blocks, self._decoded, positions, strict=True):
            if len(selected) == len(block.raws):
                blocks.append((block, decoded))
            else:
                values = {new: decoded[old] for new, old in enumerate(selected) if old in decoded} if decoded else {}
                blocks.append((_Block(self._kind, tuple(map(block.raws.__getitem__, selected))), values))
        return self._of_blocks(blocks)

    def _decode(self, raw: msgspec.Raw, at: int) -> T:
        where = f"$.{self._kind.key}[{at}]"
        try:
            return self._kind.decode(msgspec.json.decode(raw), where)
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
        if self._length != other._length:
            return False
        pairs = enumerate(zip(self.raws, other.raws, strict=True))
        return all(
            own_raw is other_raw or bytes(own_raw) == bytes(other_raw) or self[at] == other[at] for at, (own_raw, other_raw) in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RawEntries({self._kind.key}: {self._length})"

    def __reduce__(self) -> tuple[object, ...]:
        return (RawEntries, (self._kind, self.raws, self._path))


_LOADED = ("_blocks", "_decoded", "_ids", "_length", "_starts")


class PartialEntries(RawEntries[T]):
    """Some entries of a list, and the way to all of them. It behaves as the whole list.

    The fields of `RawEntries` are not set until one of them is used, which Python passes to `__getattr__`.

    Args:
        entries: The entries at hand.
        whole: Returns the whole list; all copies share what it has loaded.
    """

    __slots__ = ("_known", "_whole")

    def __init__(self, entries: RawEntries[T], whole: Callable[[], RawEntries[T]]) -> None:
        self._kind = entries._kind
        self._path = entries._path
        self._known = entries
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        if name not in _LOADED:
            raise AttributeError(name)
        entries = self._whole().fresh(self._path)
        for loaded in _LOADED:
            setattr(self, loaded, getattr(entries, loaded))
        return getattr(entries, name)

    def get(self, entry_id: int) -> T | None:
        """Return the entry with this id, or None."""
        entry = self._known.get(entry_id)
        return super().get(entry_id) if entry is None else entry

    def fresh(self, path: str | None = None) -> RawEntries[T]:
        return PartialEntries(self._known.fresh(path), self._whole)
