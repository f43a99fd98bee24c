"""Decisions: why a scan reads or skips each manifest, data file and delete file, for users who explain a plan.

A plan of a million files has columns only, an explained one too: decisions are made for the page that is shown. The sources of the
decisions are `DecisionList`, a list, and `DecidedFiles`, columns. `pruning.py` and `live_deletes.py` make them, `pruning_explanation.py` writes the texts.
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
        explanation: The bound that decided, such as `type: upper bound 'c8y_Alarm' < 'c8y_Event'`; empty where the file is kept, except that a delete file has
            the number of data files that it applies to.
        bytes: Length of the file; of a deletion vector only the vector's.
        records: Rows of the file; for a manifest the live rows that its manifest list counts, 0 where unknown.
        partition: The partition in folder form, such as `origin=JFK`.
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


# Decisions that become objects in one step: enough to make the cost per step negligible, few enough to keep little.
_STEP = 1024
# Returns the reason and explanation for some files, given as rows of a table, and their numbers.
Explained = Callable[[Any, NDArray[np.int64]], Iterable[tuple[Reason, str]]]


class DecisionSource(Protocol):
    """Decisions about manifests or files of one level."""

    @property
    def level(self) -> str:
        """The level, see `Decision`."""

    @property
    def kept(self) -> Mask:
        """Which of them the scan reads."""

    def decisions(self, rows: NDArray[np.int64]) -> Sequence[Decision]:
        """Return the decisions with these numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionList:
    """Decisions that are objects already."""

    level: str
    entries: Sequence[Decision]

    @property
    def kept(self) -> Mask:
        """Which of them the scan reads."""
        return np.array([decision.kept for decision in self.entries], dtype=bool)

    def decisions(self, rows: NDArray[np.int64]) -> Sequence[Decision]:
        """Return the decisions with these numbers."""
        return [self.entries[row] for row in rows.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedFiles:
    """Files that were tested together, as columns, with what is needed to explain the outcome for any of them.

    Attributes:
        level: The level, see `Decision`.
        files: A `pyarrow.Table` of the files: path, length, record count, and the columns that `explained` and `partitions` use.
        kept: Which of them the scan reads.
        explained: Explains the outcome for some of them, given as rows of `files`.
        partitions: Returns their partitions in folder form.
    """

    level: str
    files: Any
    kept: Mask
    explained: Explained
    partitions: Callable[[Any], Iterable[str]]

    def decisions(self, rows: NDArray[np.int64]) -> Sequence[Decision]:
        """Return the decisions about the files with these numbers."""
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
    """Return of entries the columns that decisions show, and the statistics that explain them; no others are kept."""
    names = ["file_path", "file_size_in_bytes", "content_size_in_bytes", "record_count"]
    names += [partition_column(field.field_id) for field in partition_type.fields]
    names += sorted(statistic_column(*statistic) for statistic in statistics)
    return entries.select([name for name in names if name in entries.column_names]).combine_chunks()


class PlacedFiles(NamedTuple):
    """Decided files, and for each the place of its manifest among those of its content that were read."""

    files: DecidedFiles
    places: NDArray[np.int64]


class Decisions(Sequence[Decision]):
    """The decisions of some sources, in the order of `numbers`; a part of it, a slice or a level, is a sequence of the same kind.

    Args:
        sources: The decisions about the manifests or files of one level each.
        numbers: The order: each number counts through all decisions of the sources, one source after another.
    """

    __slots__ = ("_numbers", "_sources", "_starts")

    def __init__(self, sources: Sequence[DecisionSource], numbers: NDArray[np.int64]) -> None:
        self._sources = sources
        self._numbers = numbers
        self._starts = np.cumsum([0, *(len(source.kept) for source in sources)])

    @classmethod
    def in_order(cls, sources: Sequence[tuple[DecisionSource, NDArray[np.int64]]]) -> "Decisions":
        """Return the decisions of sources in the order of a key, which each source gives for each of its decisions; equal keys keep the sources' order."""
        keys = [keys for _, keys in sources]
        return cls([source for source, _ in sources], np.argsort(np.concatenate(keys), kind="stable") if keys else np.empty(0, np.int64))

    def of_level(self, level: str, *, kept: bool) -> "Decisions":
        """Return the decisions of one level about what is read, or about what is not, in the same order; no object is made."""
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
        return hash(len(self))  # equal ones have equal lengths

    def __repr__(self) -> str:
        return f"<{len(self):,} decisions>"

    def _decisions_at(self, numbers: NDArray[np.int64]) -> list[Decision]:
        """Return the decisions with these numbers, of each source in one step."""
        of_source = np.searchsorted(self._starts, numbers, side="right") - 1
        by_place: dict[int, Decision] = {}
        for source in np.unique(of_source).tolist():
            places = np.flatnonzero(of_source == source)
            by_place.update(zip(places.tolist(), self._sources[source].decisions(numbers[places] - self._starts[source]), strict=True))
        return [by_place[place] for place in range(len(numbers))]


NO_DECISIONS = Decisions((), np.empty(0, dtype=np.int64))
