"""Leaving out rows that a snapshot only copied while the rows of its removed and added files are read, so that few are in memory at once.

A rewritten file mostly has the rows of the old file in their old order. Both sides are read in the order of a column that divides the row groups well, side by
side, and the rows that are read are compared. Rows that remain wait for later rows of the other side; if too many wait, the oldest are returned. So each
returned row is changed, or its copy was too far away: the caller compares the returned rows again. Statistics only order the work; a wrong one loses no row.
Spec: Row-level Deletes; Row Lineage.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.datafile.parquet.parquet_rows import ParquetRows
from icefloe.datafile.stored_file import opened_stored_file
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT, ChangedFileReader
from icefloe.operations.change_feed.row_pairs import remaining_rows
from icefloe.operations.parallel_requests import in_threads
from icefloe.scan.change_planner import ChangedFile
from icefloe.spec.arrow_values import mask_array, numbers_array
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.types import NestedField

# The column of the number of a file.
PLACE = pa.field("icefloe place", pa.int32(), nullable=False)
# The rows, and the bytes of files, that are read between two comparisons.
_ROWS_OF_A_STEP, _BYTES_OF_A_STEP = 2**19, 32 * 1024 * 1024
_LEAST_ROWS_OF_A_STEP = 256
# Bytes of the rows that wait for a copy.
MOST_WAITING_BYTES = 128 * 1024 * 1024
# The columns whose bounds are compared to find one that divides the row groups.
_MOST_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class _Span:
    """Adjacent row groups of a file, or a whole file that is not in Parquet.

    Attributes:
        place: The number of the file.
        file: The file, or a split of it.
        first: The number of the first row group.
        bounds: The lowest and highest value of columns, by field id.
    """

    place: int
    file: ChangedFile
    first: int
    bounds: dict[int, tuple[Any, Any]]


def uncopied_rows(
    reader: ChangedFileReader,
    files: Sequence[ChangedFile],
    compared: Sequence[str],
    *,
    most_bytes: int | None = None,
    has_places: bool = False,
) -> Iterator[tuple[str, Any]]:
    """Yield the changed rows of files without most of the rows that were only copied, as pairs of `DELETE` or `INSERT` and an Arrow table.

    Args:
        reader: The reader of the rows.
        files: The files of one snapshot.
        compared: The names of the columns in which a copied row is equal. They are columns of the reader.
        most_bytes: The bytes of rows that wait for their copy; None for `MOST_WAITING_BYTES`.
        has_places: Whether the rows have the column `PLACE` after those of the reader: the number of their file.

    Raises:
        IcefloeError: As for `ChangedFileReader.batches`.
    """
    most_bytes = MOST_WAITING_BYTES if most_bytes is None else most_bytes
    schema = schema_to_arrow(reader.projection)
    schema = schema.append(PLACE) if has_places else schema
    sides = {kind: _Side(reader, files, kind, has_places=has_places) for kind in (DELETE, INSERT)}
    for kind, spans in zip(sides, _order_spans([_spans(reader, side.files) for side in sides.values()]), strict=True):
        sides[kind].spans = spans
    waiting = {kind: pa.Table.from_batches([], schema) for kind in sides}
    compared_rows = 0
    steps, step = _steps(sides.values()), 0
    while not all(side.is_read for side in sides.values()):
        step += 1
        for kind, side in sides.items():
            waiting[kind] = pa.concat_tables([waiting[kind], pa.Table.from_batches(side.read(step, steps), schema)])
        count = sum(map(len, waiting.values()))
        # Rows that remain are not compared again too often.
        if count < 2 * compared_rows and not all(side.is_read for side in sides.values()):
            continue
        waiting = _without_copies(waiting, compared)
        compared_rows = sum(map(len, waiting.values()))
        if sum(rows.nbytes for rows in waiting.values()) > most_bytes:
            for kind, rows in waiting.items():
                yield kind, rows.slice(0, len(rows) - len(rows) // 2)
                waiting[kind] = rows.slice(len(rows) - len(rows) // 2)
            compared_rows //= 2
    yield from waiting.items()


def _steps(sides: Collection["_Side"]) -> int:
    """Return the number of steps in which the rows of both sides are read if their manifests have the right counts."""
    steps = max(max(side.rows // _ROWS_OF_A_STEP, side.bytes // _BYTES_OF_A_STEP) for side in sides)
    return max(1, min(steps, max(side.rows for side in sides) // _LEAST_ROWS_OF_A_STEP))


def _without_copies(waiting: dict[str, Any], compared: Sequence[str]) -> dict[str, Any]:
    removed, added = waiting[DELETE], waiting[INSERT]
    rows = pa.concat_tables([removed, added])
    remains = remaining_rows(rows, np.arange(len(rows)) < len(removed), compared)
    return {
        kind: part.filter(mask_array(mask)) for (kind, part), mask in zip(waiting.items(), np.split(remains, [len(removed)]), strict=True)
    }


class _Side:
    """The rows that were deleted, or those that were inserted, as they are read.

    Attributes:
        files: The files with their numbers.
        spans: The parts of the files, in the order in which they are read.
        rows: The rows of the files by their manifests.
        bytes: The bytes of the files.
        is_read: Whether all rows were read.
    """

    def __init__(self, reader: ChangedFileReader, files: Sequence[ChangedFile], kind: str, *, has_places: bool) -> None:
        self._reader, self._kind, self._has_places = reader, kind, has_places
        self.files = [(place, file) for place, file in enumerate(files) if (file.before if kind == DELETE else file.after) is not None]
        self.rows = sum(file.task.file.record_count for _, file in self.files)
        self.bytes = sum(file.task.length for _, file in self.files)
        self.spans: Sequence[_Span] = ()
        self.is_read = False
        self._read_rows = 0
        self._batches: Iterator[Any] | None = None

    def read(self, step: int, steps: int) -> Iterator[Any]:
        """Yield further batches, until the rows of a step are read.

        If there are more rows than the manifests state, further steps read them; if there are fewer, they are all read before the last step.
        """
        if self._batches is None:
            self._batches = chain.from_iterable(map(self._batches_of, self.spans))
        most = self.rows * step // steps if step < steps else self.rows + (step - steps + 1) * _ROWS_OF_A_STEP
        while self._read_rows < most:
            batch = next(self._batches, None)
            if batch is None:
                self.is_read = True
                return
            self._read_rows += batch.num_rows
            yield batch

    def _batches_of(self, span: _Span) -> Iterator[Any]:
        for _, batch in self._reader.batches(span.file, (self._kind,)):
            if not self._has_places:
                yield batch
                continue
            place = numbers_array(np.full(batch.num_rows, span.place, np.int32), PLACE.type)
            yield pa.RecordBatch.from_arrays([*batch.columns, place], schema=batch.schema.append(PLACE))


def _spans(reader: ChangedFileReader, files: Sequence[tuple[int, ChangedFile]]) -> list[list[_Span]]:
    """Return the row groups of files, in the order of each file."""
    fields = [field for field in reader.projection.fields if field.field_type.is_primitive]
    return list(in_threads(lambda numbered: _spans_of(reader, *numbered, fields), files))


def _spans_of(reader: ChangedFileReader, place: int, file: ChangedFile, fields: Sequence[NestedField]) -> list[_Span]:
    whole = [_Span(place, file, 0, {})]
    if file.before is not None and file.after is not None:  # few of its rows are read, at positions
        return whole
    with opened_stored_file(reader.io, file.task, reader.name_mapping) as stored:
        if not isinstance(stored, ParquetRows):
            return whole
        starts, bounds = stored.row_group_starts(), stored.row_group_bounds(fields, _MOST_COLUMNS)
    ends = [*starts[1:], max(file.task.file.file_size_in_bytes, *starts[-1:], 0) + 1]
    # Each row group is in one split only if they begin one after the other.
    if len(starts) < 2 or not bounds or any(end <= start for start, end in zip(starts, ends, strict=True)):
        return whole if len(starts) != 1 else [replace(whole[0], bounds={field_id: of_groups[0] for field_id, of_groups in bounds.items()})]
    return [
        _Span(place, _split(file, start, end - start), number, {field_id: of_groups[number] for field_id, of_groups in bounds.items()})
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _split(file: ChangedFile, start: int, length: int) -> ChangedFile:
    before, after = (None if task is None else replace(task, start=start, length=length) for task in (file.before, file.after))
    return ChangedFile(before=before, after=after)


def _order_spans(sides: Sequence[Sequence[Sequence[_Span]]]) -> list[list[_Span]]:
    """Return the spans of both sides in the order of the column that divides them best, adjacent ones of a file joined."""
    every = [span for side in sides for of_file in side for span in of_file]
    known = set.intersection(*(set(span.bounds) for span in every)) if every else set()
    guides = {field_id: _ranks([span.bounds[field_id] for span in every]) for field_id in sorted(known)}
    if not guides:
        return [[span for of_file in side for span in _join(of_file)] for side in sides]
    ranks = min(guides.values(), key=_overlaps)
    by_span = {id(span): tuple(pair) for span, pair in zip(every, ranks.tolist(), strict=True)}
    return [_join(sorted((span for of_file in side for span in of_file), key=lambda span: by_span[id(span)])) for side in sides]


def _ranks(bounds: Sequence[tuple[Any, Any]]) -> Any:
    """Return the numbers of bounds in their order, an array with a row for each pair."""
    rank = {value: number for number, value in enumerate(sorted({value for pair in bounds for value in pair}))}
    return np.array([[rank[low], rank[high]] for low, high in bounds], np.int64)


def _overlaps(ranks: Any) -> int:
    """Return how many pairs of ranges overlap."""
    lows, highs = ranks.T
    return int((np.searchsorted(np.sort(lows), highs, "right") - np.searchsorted(np.sort(highs), lows, "left")).sum())


def _join(spans: Sequence[_Span]) -> list[_Span]:
    """Join spans of one file that follow each other in the file and in the list, so that the file is opened once for them."""
    joined: list[tuple[_Span, int]] = []  # with the number of the last row group
    for span in spans:
        last, number = joined[-1] if joined else (None, -1)
        if last is not None and last.place == span.place and span.first == number + 1:
            task, added = last.file.task, span.file.task
            joined[-1] = (replace(last, file=_split(last.file, task.start, added.start + added.length - task.start)), span.first)
        else:
            joined.append((span, span.first))
    return [span for span, _ in joined]
