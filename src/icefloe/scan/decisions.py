"""Decisions: why a scan reads or skips each manifest, data file and delete file, for users who explain a plan.

A plan of a million files consists of columns, so `Decision` objects are created only for the decisions that are shown. Their sources are `DecisionList`, a list
of objects, and `DecidedFiles`, columns of files. `pruning.py` and `live_deletes.py` make the decisions, `pruning_explanation.py` writes the texts.
Spec: Scan Planning.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import numbers_array
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.manifest.manifest_columns import Statistic, partition_column, statistic_column
from icefloe.spec.types import StructType


class Reason(StrEnum):
    """The rule that decided whether a manifest, data file or delete file is read."""

    NO_FILTER = "there is no filter"
    MAY_MATCH = "may hold matching rows"
    ALL_MATCH = "every row matches"
    NO_LIVE_FILES = "no live files"
    NO_ROWS = "no rows"
    NEVER_TRUE = "the filter is never true"
    BY_PARTITION = "skipped by partition"
    BY_METRICS = "skipped by column statistics"
    APPLIES = "applies to files that are read"
    ENOUGH_ROWS = "earlier manifests have enough rows"
    OLDER = "older than every data file that is read"
    NO_DATA_FILE = "applies to no file that is read"
    BY_SERVER = "chosen by the server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The pruning decision for one manifest, data file or delete file.

    Attributes:
        level: "manifest", "file", "delete manifest" or "delete file".
        path: Location of the file.
        kept: True if the scan reads it.
        reason: The rule that decided.
        explanation: The bound that decided, such as `type: upper bound 'c8y_Alarm' < 'c8y_Event'`. For a delete file that the
            scan reads, the number of data files that it applies to; else empty if the scan reads the file.
        bytes: Length of the file; for a deletion vector, the length of the vector only.
        records: Rows of the file; for a manifest, the number of live rows according to the manifest list, 0 if unknown.
        partition: The partition as text, such as `origin=JFK`; empty for a manifest.
    """

    level: str
    path: str
    kept: bool
    reason: Reason
    explanation: str
    bytes: int
    records: int
    partition: str = ""

    def __str__(self) -> str:
        return f"{'keep' if self.kept else 'skip'} {self.level} {self.path}: {self.reason}" + (
            f" ({self.explanation})" if self.explanation else ""
        )


# How many decisions become objects in one step: enough to make the cost per step negligible, and few enough to need little memory.
_STEP = 1024
# A function that explains some files. It receives their rows as a table, and the numbers of these rows; it returns a reason and an explanation for each.
Explained = Callable[[Any, NDArray[np.int64]], Iterable[tuple[Reason, str]]]


class DecisionSource(Protocol):
    """A source of the decisions about manifests or files of one level. It need not hold them as `Decision` objects."""

    @property
    def level(self) -> str:
        """The level, see `Decision`."""

    @property
    def kept(self) -> Mask:
        """A mask of the manifests or files that the scan reads, in the order of the decisions."""

    def decisions(self, rows: NDArray[np.int64]) -> Sequence[Decision]:
        """Return the decisions at these positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionList:
    """A source of decisions that are stored as `Decision` objects, such as the few decisions about manifests."""

    level: str
    entries: Sequence[Decision]

    @property
    def kept(self) -> Mask:
        """A mask of the manifests or files that the scan reads, in the order of the decisions."""
        return np.array([decision.kept for decision in self.entries], dtype=bool)

    def decisions(self, rows: NDArray[np.int64]) -> Sequence[Decision]:
        """Return the decisions at these positions."""
        return [self.entries[row] for row in rows.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedFiles:
    """The decisions about files that were tested together, stored as columns; `decisions` creates the objects for chosen rows.

    Attributes:
        level: The level, see `Decision`.
        files: A `pyarrow.Table` of the files: path, length, record count, and the columns that `explained` and `partitions` use.
        kept: A mask of the files that the scan reads.
        explained: Called with a table of chosen rows of `files` and their row numbers; returns a reason and an explanation for each of these rows.
        partitions: Called with a table of chosen rows of `files`; returns their partitions as texts such as `origin=JFK`.
    """

    level: str
    files: Any
    kept: Mask
    explained: Explained
    partitions: Callable[[Any], Iterable[str]]

    def decisions(self, rows: NDArray[np.int64]) -> Sequence[Decision]:
        """Return the decisions about the files at these rows."""
        files = self.files.take(numbers_array(rows, pa.int64())).combine_chunks()
        sizes = files["file_size_in_bytes"]
        if "content_size_in_bytes" in files.column_names:
            sizes = pc.coalesce(files["content_size_in_bytes"], sizes)
        facts = zip(
            files["file_path"].to_pylist(),
            self.kept[rows].tolist(),
            self.explained(files, rows),
            sizes.to_pylist(),
            files["record_count"].to_pylist(),
            self.partitions(files),
            strict=True,
        )
        return [
            Decision(
                level=self.level,
                path=path,
                kept=kept,
                reason=reason,
                explanation=explanation,
                bytes=size,
                records=records,
                partition=partition,
            )
            for path, kept, (reason, explanation), size, records, partition in facts
        ]


def explained_columns(entries: Any, partition_type: StructType, statistics: Iterable[Statistic]) -> Any:
    """Return the entries with only the columns that decisions show, and with the columns of these statistics, which explanations quote."""
    names = ["file_path", "file_size_in_bytes", "content_size_in_bytes", "record_count"]
    names += [partition_column(field.field_id) for field in partition_type.fields]
    names += sorted(statistic_column(*statistic) for statistic in statistics)
    return entries.select([name for name in names if name in entries.column_names]).combine_chunks()


class PlacedFiles(NamedTuple):
    """Decided files, and the manifest of each file: its position in the list of the data manifests, or of the delete manifests, that the scan reads."""

    files: DecidedFiles
    places: NDArray[np.int64]


class Decisions(Sequence[Decision]):
    """A sequence of the decisions of several sources, in a chosen order. Slices of it, and its decisions of one level, have this class too.

    Args:
        sources: The sources; each has the decisions of one level.
        numbers: The decisions of this sequence, in its order, as positions in the concatenation of all sources.
    """

    __slots__ = ("_numbers", "_sources", "_starts")

    def __init__(self, sources: Sequence[DecisionSource], numbers: NDArray[np.int64]) -> None:
        self._sources = sources
        self._numbers = numbers
        self._starts = np.cumsum([0, *(len(source.kept) for source in sources)])

    @classmethod
    def in_order(cls, sources: Sequence[tuple[DecisionSource, NDArray[np.int64]]]) -> "Decisions":
        """Return the decisions of all sources, sorted stably by key. A source is passed together with an array that has the key of each of its decisions."""
        keys = [keys for _, keys in sources]
        return cls([source for source, _ in sources], np.argsort(np.concatenate(keys), kind="stable") if keys else np.empty(0, np.int64))

    def of_level(self, level: str, *, kept: bool) -> "Decisions":
        """Return the decisions of one level about files that the scan reads (`kept`) or skips, in the same order. No `Decision` object is created."""
        masks = [(source.kept == kept) & (source.level == level) for source in self._sources]
        return Decisions(self._sources, self._numbers[np.concatenate(masks)[self._numbers]]) if masks else self

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Decision: ...

    @overload
    def __getitem__(self, index: slice) -> "Decisions": ...

    def __getitem__(self, index: int | slice) -> "Decision | Decisions":
        if isinstance(index, slice):
            return Decisions(self._sources, self._numbers[index])
        return self._decisions_at(self._numbers[[index]])[0]

    def __iter__(self) -> Iterator[Decision]:
        for start in range(0, len(self), _STEP):
            yield from self._decisions_at(self._numbers[start : start + _STEP])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decisions | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(
            own_decision == other_decision for own_decision, other_decision in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(len(self))  # equal sequences have equal lengths

    def __repr__(self) -> str:
        return f"<{len(self):,} decisions>"

    def _decisions_at(self, numbers: NDArray[np.int64]) -> list[Decision]:
        """Return the decisions at these positions of the concatenated sources, with one call of each source."""
        of_source = np.searchsorted(self._starts, numbers, side="right") - 1
        by_place: dict[int, Decision] = {}
        for source in np.unique(of_source).tolist():
            places = np.flatnonzero(of_source == source)
            by_place.update(zip(places.tolist(), self._sources[source].decisions(numbers[places] - self._starts[source]), strict=True))
        return [by_place[place] for place in range(len(numbers))]


NO_DECISIONS = Decisions((), np.empty(0, dtype=np.int64))
