"""`RawEntries`: a list of metadata JSON that keeps the bytes that it was read from, and decodes each entry when it is first used.

A table with 1,000 snapshots is usually opened to read one or two of them, and written with one more. So entries that are not used need only their bytes. They
are written with the same bytes, including keys that this version does not have, and are shared between versions of the metadata. `PartialEntries` has a few
entries, and loads the whole list when others are needed, because a catalog can send a table with only the snapshots of its branches and tags. A caller that
lists, searches, counts or changes snapshots always gets all of them. `snapshot.py`, `table_history.py`, `spec/schema` and `spec/partitioning` define the
entries. Spec: Appendix C; REST catalog, loadTable.
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

# The number of entries at the end that are searched before an index is built: the current snapshot and its parent are nearly always at the end.
_LOOK_BACK = 4


@dataclass(frozen=True)
class EntryKind(Generic[T]):
    """The definition of a list in metadata JSON: its key, the functions that decode and encode an entry, and the key of an entry's id.

    `decode` receives the parsed JSON and its JSON path, and raises `MetadataFormatError` with every problem.
    """

    key: str
    decode: Callable[[Any, str], T]
    encode: Callable[[T], Any]
    id_key: str | None = None
    default_id: int | None = None  # the id of an entry whose JSON has none

    def raw(self, entry: T) -> msgspec.Raw:
        """Return the entry as JSON bytes."""
        return msgspec.Raw(msgspec.json.encode(self.encode(entry)))

    def id_of(self, raw: msgspec.Raw) -> int | None:
        """Return the entry's id without decoding the rest of the entry; None if it has no id."""
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
    """Return a decoder that reads one key of a JSON object and skips the others."""
    return msgspec.json.Decoder(msgspec.defstruct("EntryId", [("entry_id", int | None, msgspec.field(name=key, default=None))]))


class _Block(Generic[T]):
    """An immutable block of successive entries, which several lists can share. The index of ids and the JSON text are computed at most once."""

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
        """Return the position of each id in the block; the first position if an id occurs twice."""
        if self._index is None:
            self._index = self._index_by_id()  # assigned only when complete, because threads share these entries
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
    """An immutable list of metadata entries, stored as JSON bytes and decoded to `T` on access. Lists that are made from it share its bytes.

    Entries are in blocks. An appended entry becomes a new block, which is merged with preceding blocks that are not larger. So a list has few blocks, and the
    cost of appending does not grow with the length of the list.
    """

    __slots__ = ("_blocks", "_decoded", "_ids", "_kind", "_length", "_path", "_starts")

    def __init__(self, kind: EntryKind[T], raws: Iterable[msgspec.Raw], path: str | None = None) -> None:
        self._kind = kind
        self._path = path
        self._set_blocks([(_Block(kind, tuple(raws)), {})])

    def _set_blocks(self, blocks: Iterable[tuple[_Block[T], dict[int, T]]]) -> None:
        """Set the blocks of the list, each with its entries that were decoded before, by position in the block."""
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
        """Create a list from values that were not read from a file."""
        return cls(kind, ()).with_entries(*entries)

    @property
    def raws(self) -> tuple[msgspec.Raw, ...]:
        """Return the entries as JSON bytes, in order."""
        return tuple(chain.from_iterable(block.raws for block in self._blocks))

    def texts(self) -> list[JsonText]:
        """Return the entries as pieces of JSON, to be joined with commas. Lists that share entries share pieces."""
        return [block.text() for block in self._blocks]

    def fresh(self, path: str | None = None) -> "RawEntries[T]":
        """Return a copy of the list that shares its bytes and indexes, but decodes entries again, so that decoded values are not shared.

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
        """Return the number of the block that has the entry at position `at` of the list, and the position of the entry in the block."""
        number = bisect_right(self._starts, at) - 1
        return number, at - self._starts[number]

    def _raw(self, at: int) -> msgspec.Raw:
        number, offset = self._place(at)
        return self._blocks[number].raws[offset]

    def get(self, entry_id: int) -> T | None:
        """Return the entry with this id, or None. The last few entries are searched first."""
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
        """Return the positions of the entries that this list does not share with `other`; empty if it was made from `other` by removing entries."""
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
        """Return the same list, in which leading blocks that equal the blocks of `other` are replaced by these, so that the two lists share them.

        The remaining entries are copied, because each is a view of the whole file that it was read from, and would keep the file in memory.
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
        """Return the list without the entries with these ids; the same object if no entry has one of these ids."""
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
        """Return the entries for which `keep` is true. All entries are decoded."""
        return self._select(
            [offset for offset in range(len(block.raws)) if keep(self._entry(start + offset))]
            for start, block in zip(self._starts, self._blocks, strict=False)
        )

    def _select(self, positions: Iterable[Sequence[int]]) -> "RawEntries[T]":
        """Return a list of the entries at these positions; `positions` has a sequence for each block. A block of which all entries are selected is shared."""
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
        # A raw entry was read without checking its strings, so they may be invalid UTF-8.
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
    """Some entries of a list, and a function that loads the whole list. It behaves like the whole list.

    The fields of `RawEntries` are not set at first. When one of them is used, Python calls `__getattr__`, which loads the list.

    Args:
        entries: The entries that are known without loading the list.
        whole: Loads and returns the whole list; all copies share the result.
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
