"""Rules of the content of delete files: deletion vectors in Puffin files, position delete files and equality delete files.

`delete_rules.py` has the rules of their entries. Spec: Position Delete Files; Equality Delete Files; Deletion Vectors; Puffin file format.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.checks.data_file_rules import (
    READ_ERRORS,
    TableLayout,
    file_unreadable,
    open_by_format,
    place_of,
    row_count_findings,
    size_findings,
)
from icefloe.checks.file_column_rules import fields_by_id, id_findings
from icefloe.checks.finding import Finding, Severity
from icefloe.checks.listed_files import ListedFile
from icefloe.checks.rule import Depth, FindingPlace, Level, RuleGroup, value_text
from icefloe.datafile.deletes.delete_file_reader import (
    POSITION_DELETE_NAMES,
    POSITION_DELETE_SCHEMA,
    plain_location,
    read_delete_columns,
    read_deletion_vector,
    read_vector_locations,
)
from icefloe.datafile.projection import columns_by_id, file_columns
from icefloe.errors import IcefloeError, NoSuchFileError
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import VectorFraming, detect_framing
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH, DELETE_ROW_FIELD_ID, DELETE_ROW_NAME
from icefloe.spec.types import NestedField, StructType

_ROLL_BACK = "restore the file from a copy, or plan with icefloe repair which rows come back without it"


_rule = RuleGroup(level=Level.DELETE_FILE, next_step=_ROLL_BACK, depth=Depth.DATA).rule


VECTOR_DAMAGED = _rule(
    "vector-damaged",
    Severity.ERROR,
    "A deletion vector is where its entry states: a blob of that data file, offset, length and cardinality, with a right checksum, in a whole Puffin file.",
    "Scans of the data file fail, or return deleted rows.",
    section="Deletion Vectors",
)
VECTOR_UNFRAMED = _rule(
    "vector-unframed",
    Severity.WARNING,
    "A deletion vector begins with its length and magic bytes, and ends with a checksum.",
    "Engines that require the frame fail on the data file; damage is not noticed.",
    section="Puffin file format, `deletion-vector-v1` blob type",
    next_step="rewrite the data file without its deleted rows, for example by rewrite_data_files",
)
DELETES_DAMAGED = _rule(
    "delete-file-damaged",
    Severity.ERROR,
    "A delete file is a whole file with the columns of its content: paths and positions, or its equality columns.",
    "Scans of the data files that it applies to fail.",
    section="Position Delete Files",
)
DELETES_UNSORTED = _rule(
    "position-deletes-sorted",
    Severity.WARNING,
    "The rows of a position delete file are sorted by path, then by position.",
    "Engines that merge deletes while they read miss some, and return deleted rows.",
    section="Position Delete Files",
    next_step="rewrite the data files with their deletes, for example by rewrite_data_files",
)
DELETES_BOUNDS = _rule(
    "position-deletes-bounds",
    Severity.ERROR,
    "The bounds of a position delete file contain every path in it.",
    "Scans skip the delete file, and return deleted rows.",
    section="Position Delete Files",
    next_step="write the entry again with the right bounds, or without bounds",
)
DELETES_TARGET = _rule(
    "position-deletes-target",
    Severity.ERROR,
    "A position delete file with a referenced data file has positions of that file only.",
    "Scans apply it to one data file, and return the deleted rows of the others.",
    section="Delete Formats",
    next_step="write the entry again without referenced data file",
)
DELETES_ROW = _rule(
    "position-deletes-row",
    Severity.WARNING,
    "The deleted rows in a position delete file are there for every position, as a struct of columns of the table with their field ids; or not at all.",
    "Engines that read the deleted rows, such as for changes, fail or return other rows than were deleted.",
    section="Appendix F, Position Delete Files with Row Data",
    next_step="rewrite the delete file without them, for example by rewrite_position_delete_files",
)
RULES = (VECTOR_DAMAGED, VECTOR_UNFRAMED, DELETES_DAMAGED, DELETES_UNSORTED, DELETES_BOUNDS, DELETES_TARGET, DELETES_ROW)


def vector_findings(layout: TableLayout, vectors: Sequence[ListedFile], manifest_place: FindingPlace) -> Iterator[Finding]:
    """Yield the findings about the deletion vectors of one Puffin file. The footer of the file is read once."""
    io, first = layout.io, vectors[0]
    place = place_of(first, manifest_place)
    try:
        footer = read_vector_locations(io, first.file.file_path)
    except READ_ERRORS as error:
        yield file_unreadable(error, place, VECTOR_DAMAGED, "Puffin file")
        if not isinstance(error, NoSuchFileError):
            yield from size_findings(layout, first.file, place, "Puffin file")
        return
    yield from size_findings(layout, first.file, place, "Puffin file")
    for listed in vectors:
        place = place_of(listed, manifest_place)
        try:
            read_deletion_vector(io, listed.file, listed.file.referenced_data_file or "", footer)
            yield from _framing_findings(io, listed.file, place)
        except READ_ERRORS as error:
            yield file_unreadable(error, place, VECTOR_DAMAGED, "deletion vector in")


def _framing_findings(io: FileIO, file: DataFile, place: FindingPlace) -> Iterator[Finding]:
    offset, length = file.content_offset or 0, file.content_size_in_bytes or 0
    with io.open_input(file.file_path) as source:
        head = source.read_at(min(length, 16), offset)
    if detect_framing(head) is VectorFraming.BARE:
        yield VECTOR_UNFRAMED.finding(
            f"the deletion vector of {value_text(file.referenced_data_file)} in {value_text(file.file_path)} is a bitmap without frame",
            where=f"byte {offset}",
            **place,
        )


def position_delete_findings(layout: TableLayout, listed: ListedFile, manifest_place: FindingPlace) -> Iterator[Finding]:
    """Yield the findings about a position delete file. The rows of the file are read batch by batch."""
    file, place = listed.file, place_of(listed, manifest_place)
    yield from size_findings(layout, file, place, "delete file")
    order = _Order()
    try:
        stored = _as_stored(layout, file)
        for batch in read_delete_columns(layout.io, stored, POSITION_DELETE_SCHEMA.fields, name_mapping=POSITION_DELETE_NAMES):
            order.update(batch)
    except (*READ_ERRORS, UnicodeDecodeError) as error:
        yield from _unread(error, place)
        return
    yield from row_count_findings(file, order.rows, place)
    if order.nulls:
        yield DELETES_DAMAGED.finding(f"{order.nulls:,} rows of {value_text(file.file_path)} have no path or no position", **place)
    if order.unsorted_at is not None:
        yield DELETES_UNSORTED.finding(
            f"row {order.unsorted_at:,} of {value_text(file.file_path)} is before the row that precedes it",
            where=f"row {order.unsorted_at}",
            **place,
        )
    yield from _path_findings(file, order, place)
    try:
        yield from _row_column_findings(layout, file, place)
    except READ_ERRORS as error:
        yield from _unread(error, place)


def _as_stored(layout: TableLayout, file: DataFile) -> DataFile:
    """Return the entry of a file with the actual size and row count of the file, so that the reader does not refuse a file whose entry is wrong."""
    with open_by_format(layout, file) as stored:
        return replace(file, file_size_in_bytes=layout.io.size(file.file_path), record_count=stored.count_rows())


def _unread(error: Exception, place: FindingPlace) -> Iterator[Finding]:
    if not isinstance(error, NoSuchFileError):  # `size_findings` reports a missing file
        known = error if isinstance(error, IcefloeError) else IcefloeError(f"a path is not valid UTF-8: {error}")
        yield file_unreadable(known, place, DELETES_DAMAGED, "delete file")


class _Order:
    """The first unsorted row, the least and the greatest path, and the counts of rows and nulls of a position delete file; updated batch by batch."""

    def __init__(self) -> None:
        self.rows = 0
        self.nulls = 0
        self.unsorted_at: int | None = None
        self.least: str | None = None
        self.greatest: str | None = None
        self._last: tuple[str, int] | None = None

    def update(self, batch: pa.RecordBatch) -> None:
        paths, positions = batch.columns
        self.nulls += pc.sum(pc.or_(pc.is_null(paths), pc.is_null(positions))).as_py() or 0
        if not self.nulls and batch.num_rows:
            self._extend(paths, numpy_of(positions))
        self.rows += batch.num_rows

    def _extend(self, paths: Any, positions: "np.ndarray[Any, np.dtype[np.int64]]") -> None:
        encoded = paths.dictionary_encode()
        names: list[str] = encoded.dictionary.to_pylist()
        ranks = np.empty(len(names), np.int64)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        codes = ranks[numpy_of(encoded.indices)]
        least, greatest = min(names), max(names)
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)
        if self.unsorted_at is None:
            first = (names[encoded.indices[0].as_py()], int(positions[0]))
            back = (codes[1:] < codes[:-1]) | ((codes[1:] == codes[:-1]) & (positions[1:] < positions[:-1]))
            if self._last is not None and first < self._last:
                self.unsorted_at = self.rows
            elif back.any():
                self.unsorted_at = self.rows + 1 + int(np.argmax(back))
        self._last = (names[encoded.indices[-1].as_py()], int(positions[-1]))


def _path_findings(file: DataFile, order: _Order, place: FindingPlace) -> Iterator[Finding]:
    """Yield bounds that do not contain the paths of the file, and paths that are not the referenced data file of the entry."""
    if order.least is None or order.greatest is None:
        return
    for name, bounds, path in (("lower_bounds", file.lower_bounds, order.least), ("upper_bounds", file.upper_bounds, order.greatest)):
        stored = None if bounds is None else bounds.get(DELETE_FILE_PATH.field_id)
        if stored is None:
            continue
        contains = stored <= path.encode() if name == "lower_bounds" else stored >= path.encode()
        if not contains:
            yield DELETES_BOUNDS.finding(
                f"{name} of the paths in {value_text(file.file_path)} is {value_text(_text(stored))}, and the file has {value_text(path)}",
                where=name,
                field_id=DELETE_FILE_PATH.field_id,
                expected=path,
                actual=_text(stored),
                **place,
            )
    target = file.referenced_data_file
    for path in {order.least, order.greatest}:
        if target is not None and plain_location(path) != plain_location(target):
            yield DELETES_TARGET.finding(
                f"the entry of {value_text(file.file_path)} refers to {value_text(target)}, and the file has positions of {value_text(path)}",
                where="referenced_data_file",
                expected=path,
                actual=target,
                **place,
            )


def _row_column_findings(layout: TableLayout, file: DataFile, place: FindingPlace) -> Iterator[Finding]:
    """Yield the findings about the column `row` of a position delete file, which has copies of the deleted rows."""
    with open_by_format(layout, file) as stored:
        column = file_columns(stored.schema).by_id.get(DELETE_ROW_FIELD_ID)
        if column is None:
            return
        known = fields_by_id(layout.schemas)
        fields = [known[child.field_id] for child in column.inner if child.field_id is not None and child.field_id in known]
        if not pa.types.is_struct(column.arrow.type) or len(fields) < len(column.inner):
            unknown = [child.arrow.name for child in column.inner if child.field_id not in known]
            what = (
                f"with columns that the table does not have: {value_text(unknown)}"
                if unknown
                else f"of type {value_text(column.arrow.type)}"
            )
            yield DELETES_ROW.finding(f"{value_text(file.file_path)} has deleted rows {what}", field_id=DELETE_ROW_FIELD_ID, **place)
            return
        row = NestedField(DELETE_ROW_FIELD_ID, DELETE_ROW_NAME, StructType(*fields))
        batches = stored.batches((row,), AlwaysTrue())
        nulls = sum(batch.rows.column(columns_by_id(batch.rows.schema)[row.field_id][0]).null_count for batch in batches)
        if nulls:
            yield DELETES_ROW.finding(
                f"{nulls:,} positions of {value_text(file.file_path)} have no deleted row, and others have one",
                field_id=DELETE_ROW_FIELD_ID,
                expected=0,
                actual=nulls,
                **place,
            )


def _text(data: bytes) -> str:
    return bytes(data).decode("utf-8", "replace")


def equality_delete_findings(layout: TableLayout, listed: ListedFile, manifest_place: FindingPlace) -> Iterator[Finding]:
    """Yield the findings about an equality delete file: its size, rows, and the columns that it compares."""
    file, place = listed.file, place_of(listed, manifest_place)
    yield from size_findings(layout, file, place, "delete file")
    try:
        with open_by_format(layout, file) as stored:
            yield from row_count_findings(file, stored.count_rows(), place)
            yield from id_findings(stored.schema, layout.name_mapping is not None, layout.schemas, place)
        fields = [
            next((schema.find_field(field_id) for schema in layout.schemas if field_id in schema), None)
            for field_id in file.equality_ids or ()
        ]
        known = tuple(field for field in fields if field is not None)
        for _ in read_delete_columns(layout.io, _as_stored(layout, file), known, name_mapping=layout.name_mapping):
            pass
    except (*READ_ERRORS, UnicodeDecodeError) as error:
        yield from _unread(error, place)


def by_puffin_file(vectors: Sequence[ListedFile]) -> Mapping[str, list[ListedFile]]:
    """Group deletion vectors by the location of their Puffin file."""
    files: dict[str, list[ListedFile]] = {}
    for listed in vectors:
        files.setdefault(listed.file.file_path, []).append(listed)
    return files
