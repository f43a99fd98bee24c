"""`Decisions`: the decisions about the manifests and files of a plan, as a sequence whose objects are made when they are read.

A plan of a million files has columns only, an explained one too: decisions are made for the page that is shown. The sources of the
decisions are `DecisionList`, a list, and `DecidedFiles`, columns. `decision.py` describes one decision. Spec: Scan Planning.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.scan.decision import Decision, Reason
from icefloe.spec.arrow_values import numbers_array
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.manifest.manifest_columns import Statistic, partition_column, statistic_column
from icefloe.spec.types import StructType

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
        sources: The sources.
        numbers: The order: each number counts through all decisions of the sources, one source after another.
    """

    __slots__ = ("_numbers", "_sources", "_starts")

    def __init__(self, sources: Sequence[DecisionSource], numbers: NDArray[np.int64]) -> None:
        self._sources = sources
        self._numbers = numbers
        self._starts = np.cumsum([0, *(len(source.kept) for source in sources)])

    @classmethod
    def ordered(cls, sources: Sequence[tuple[DecisionSource, NDArray[np.int64]]]) -> "Decisions":
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
