"""`ScanTaskReader`: convert the files of a server-side scan plan from JSON or streams to the columns of a `ScanPlan`.

Responses are checked as manifests are: partition specs, formats, references to delete files. Equal partition values and residuals, which many files share, are
parsed once. Spec: REST catalog, ScanTasks, FileScanTask, ContentFile. JAVA: ContentFileParser, RESTFileScanTaskParser.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import FormatError, IcefloeError, MetadataFormatError, UnsupportedFeatureError
from icefloe.scan.scan_plan import FileCounts, PlannedFiles, ScanPlan
from icefloe.scan.scan_task_stream import (
    DELETES,
    FORMAT,
    PLAIN,
    RESIDUAL,
    ScanTaskStream,
    check_counts,
    checked_places,
    stream_fields,
    stream_partition_column,
)
from icefloe.scan.server_plan import PlanRequest
from icefloe.spec.arrow_values import array_of, array_of_chunks, numbers_array, numpy_of, offsets_of, scalar_of
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.expression_json import expression_from_json
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, all_of
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS, STATISTICS, partition_column, statistic_column, statistic_field
from icefloe.spec.manifest.partition_json import partition_value_from_json
from icefloe.spec.manifest.partition_values import primitive
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.types import FixedType, PrimitiveType, StructType, UUIDType
from icefloe.spec.values import physical_array, physical_arrow_type
from icefloe.stores.rest.http_reply import server_text

_DATA, _POSITIONS, _EQUALITY = "data", "position-deletes", "equality-deletes"
_CONTENTS = {_DATA: FileContent.DATA, _POSITIONS: FileContent.POSITION_DELETES, _EQUALITY: FileContent.EQUALITY_DELETES}
_FORMATS = {form.value.lower(): form for form in FileFormat}
_EXISTING = 0  # the status of a live entry
T = TypeVar("T")
Hashed = TypeVar("Hashed", bound=Hashable)


# A page has many such objects, which are never part of a cycle, so that the garbage collector need not visit them.
class _Pairs(msgspec.Struct, gc=False):
    """A map in the form of the protocol: a list of keys and a list of values."""

    keys: list[int] = []
    values: list[Any] = []


class _File(msgspec.Struct, rename="kebab", gc=False):
    spec_id: int
    content: str
    file_path: str
    file_format: str
    file_size_in_bytes: int
    record_count: int
    partition: list[Any] | dict[str, Any] = []  # older servers send an object by field id
    split_offsets: list[int] | None = None
    sort_order_id: int | None = None
    key_metadata: str | None = None


class _DataFile(_File, rename="kebab", gc=False):
    first_row_id: int | None = None
    value_counts: _Pairs | None = None
    null_value_counts: _Pairs | None = None
    nan_value_counts: _Pairs | None = None
    lower_bounds: _Pairs | None = None
    upper_bounds: _Pairs | None = None


class _DeleteFile(_File, rename="kebab", gc=False):
    equality_ids: list[int] | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


class _Task(msgspec.Struct, rename="kebab", gc=False):
    data_file: _DataFile
    delete_file_references: list[int] | None = None
    residual_filter: msgspec.Raw = msgspec.Raw(b"")


class ScanTasks(msgspec.Struct, rename="kebab"):
    """A page of a server's scan plan in JSON: its files, and the plan tasks that lead to further pages."""

    file_scan_tasks: list[_Task] | None = None
    delete_files: list[_DeleteFile] | None = None
    plan_tasks: list[str] | None = None


Tasks = TypeVar("Tasks", bound=ScanTasks)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a plan as columns.

    Attributes:
        parts: The data files of the page. Each part has files of one partition spec, and refers to delete files by their index in `delete_files`.
        delete_files: The delete files of the page.
    """

    parts: tuple[PlannedFiles, ...]
    delete_files: tuple[DataFile, ...]


class ScanTaskReader:
    """Converts the pages of one server-side scan plan to columns. Any number of threads may use it.

    Args:
        request: The scan.
        unsent: The part of the filter that was not sent to the server, and is added to every residual.
        catalog: The name of the catalog, for messages.
    """

    def __init__(self, request: PlanRequest, unsent: BooleanExpression, catalog: str) -> None:
        self._request = request
        self._catalog = catalog
        self._unsent = unsent
        self._types: dict[int, StructType] = {
            spec.spec_id: spec_partition_type(request.metadata, spec.spec_id) for spec in request.metadata.partition_specs
        }

    def read_stream(self, content: bytes, kind: type[Tasks]) -> tuple[Tasks, ScanTaskStream]:
        """Split a streamed response into its JSON and the stream.

        Returns:
            The JSON, parsed as a `kind`; and the stream with the files.

        Raises:
            MetadataFormatError: The content is not a valid stream of files.
        """
        try:
            stream = ScanTaskStream(content)
            return msgspec.json.decode(stream.response, type=kind), stream
        except (FormatError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._damage_error(str(error)) from error

    def page(self, tasks: ScanTasks, stream: ScanTaskStream | None = None) -> Page:
        """Convert a page to columns.

        Args:
            tasks: The JSON of the response.
            stream: The stream with the page's files; None if they are in the JSON.

        Raises:
            MetadataFormatError: The content cannot describe files of this table.
        """
        try:
            deletes = [self._delete_file(file) for file in tasks.delete_files or ()]
            if stream is not None:
                if tasks.file_scan_tasks:
                    raise FormatError("it has files beside those of its stream")
                return Page(tuple(self._parts_of_stream(stream, len(deletes))), tuple(deletes))
            by_spec: dict[int, list[_Task]] = {}
            for task in tasks.file_scan_tasks or ():
                by_spec.setdefault(task.data_file.spec_id, []).append(task)
            return Page(tuple(self._part(spec_id, members, len(deletes)) for spec_id, members in by_spec.items()), tuple(deletes))
        except (FormatError, OverflowError, ValueError, TypeError, RecursionError, pa.ArrowException) as error:
            raise self._damage_error(str(error)) from error

    def plan(self, pages: Iterable[Page]) -> ScanPlan:
        """Combine pages, in their order, to a plan in which each delete file occurs once."""
        numbers: dict[tuple[str, int | None], int] = {}
        delete_files: list[DataFile] = []
        parts: list[PlannedFiles] = []
        for page in pages:
            places = []
            for file in page.delete_files:
                key = (file.file_path, file.content_offset)
                if key not in numbers:
                    numbers[key] = len(delete_files)
                    delete_files.append(file)
                places.append(numbers[key])
            chosen = np.array(places, dtype=np.int64)
            parts += [
                part if part.delete_indices is None else replace(part, delete_indices=chosen[part.delete_indices]) for part in page.parts
            ]
        applied = tuple(replace(part, delete_files=delete_files) if part.delete_indices is not None else part for part in parts)
        counts = (
            FileCounts(files=len(part), bytes=_sum(part, "file_size_in_bytes"), records=_sum(part, "record_count")) for part in applied
        )
        return ScanPlan(
            snapshot_id=self._request.snapshot_id,
            schema=self._request.schema,
            row_filter=self._request.row_filter,
            parts=applied,
            kept=sum(counts, FileCounts()),
            delete_files=delete_files,
            delete_files_considered=len(delete_files),
            is_planned_by_server=True,
        )

    def _damage_error(self, what: str) -> MetadataFormatError:
        shown_text = server_text(what, [])
        return MetadataFormatError(
            f"the plan of a scan of {self._request.table_name} by the server of catalog {self._catalog!r} is not of this table: {shown_text}",
            table=self._request.table_name,
            next_step="report it to the server's maintainers; scan-planning-mode=client plans the scan here, where the server allows that",
        )

    def _parts_of_stream(self, stream: ScanTaskStream, deletes: int) -> Iterator[PlannedFiles]:
        """Yield the files in each record batch of a stream."""
        layout, statistics = stream.layout, self._request.statistics
        types = {spec_id: self._partition_type(spec_id) for spec_id in layout.spec_ids}
        formats = _formats(layout.file_formats)
        residuals = [self._residual(bytes(text)) for text in layout.residual_filters]
        for spec_id, batch in zip(layout.spec_ids, stream.batches(stream_fields(types, statistics)), strict=True):
            count, received = batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True))
            check_counts(batch)
            values: dict[str, Any] = {name: received.get(name) for name in PLAIN}
            values["file_format"] = formats.take(numbers_array(checked_places(received[FORMAT], len(formats)), pa.int32()))
            columns = _entry_columns(values, count)
            for field in types[spec_id].fields:
                kind = primitive(field.field_type)
                column = received.get(stream_partition_column(spec_id, field.field_id))
                columns[partition_column(field.field_id)] = _checked_partition(kind, column, count)
            for statistic_of_column in (
                statistic_field(statistic, field_id) for field_id in statistics for statistic in STATISTICS.values()
            ):
                columns[statistic_of_column.name] = received.get(statistic_of_column.name, pa.nulls(count, statistic_of_column.type))
            offsets, indices = _references_of_stream(received.get(DELETES), deletes)
            places = checked_places(received[RESIDUAL], len(residuals)).astype(np.int64)
            yield self._files(spec_id, columns, residuals, places, offsets, indices)

    def _part(self, spec_id: int, tasks: Sequence[_Task], deletes: int) -> PlannedFiles:
        files = [task.data_file for task in tasks]
        if any(file.content != _DATA for file in files):
            raise FormatError("a file to read is not a data file")
        offsets, indices = _references(tasks, deletes)
        residuals, residual_index = self._residuals(tasks)
        return self._files(spec_id, self._columns(files, self._partition_type(spec_id)), residuals, residual_index, offsets, indices)

    def _files(
        self, spec_id: int, columns: dict[str, Any], residuals: Sequence[BooleanExpression], residual_index: Any, offsets: Any, indices: Any
    ) -> PlannedFiles:
        """Build the files of a partition spec from columns, residuals, and references to delete files."""
        columns["spec_id"] = numbers_array(np.full(len(residual_index), spec_id, dtype=np.int32), pa.int32())
        return PlannedFiles(
            entries=pa.table(columns),
            spec_id=spec_id,
            partition_type=self._types[spec_id],
            residuals=residuals,
            residual_index=residual_index,
            covered=np.array([isinstance(residual, AlwaysTrue) for residual in residuals], dtype=bool)[residual_index],
            statistics=self._request.statistics if self._request.include_statistics else (),
            delete_offsets=offsets,
            delete_indices=indices,
        )

    def _partition_type(self, spec_id: int) -> StructType:
        if spec_id not in self._types:
            raise FormatError(f"it has no partition spec {spec_id}")
        return self._types[spec_id]

    def _columns(self, files: Sequence[_DataFile], partition_type: StructType) -> dict[str, Any]:
        count = len(files)
        names, places = _distinct([file.file_format for file in files])
        values: dict[str, Any] = {
            "file_path": [file.file_path for file in files],
            "file_format": _formats(names).take(places),
            "record_count": _counts([file.record_count for file in files]),
            "file_size_in_bytes": _counts([file.file_size_in_bytes for file in files]),
            "split_offsets": [file.split_offsets for file in files],
            "sort_order_id": [file.sort_order_id for file in files],
            "first_row_id": [file.first_row_id for file in files],
        }
        columns = _entry_columns(values, count)
        columns |= self._partition_columns(files, partition_type)
        for field_id in self._request.statistics:
            for name, statistic in STATISTICS.items():
                columns[statistic_column(statistic, field_id)] = _statistic(files, name, field_id)
        return columns

    def _partition_columns(self, files: Sequence[_File], partition_type: StructType) -> dict[str, Any]:
        tuples = self._partitions(files, partition_type)
        return {
            partition_column(field.field_id): _partition_values([values[place] for values in tuples], primitive(field.field_type))
            for place, field in enumerate(partition_type.fields)
        }

    def _partitions(self, files: Sequence[_File], partition_type: StructType) -> Sequence[Sequence[Any]]:
        """Return each file's partition values from the JSON, in the order of the spec."""
        fields = partition_type.fields
        tuples: list[Any] = [file.partition for file in files]
        if any(isinstance(values, dict) for values in tuples):
            tuples = [[values.get(str(field.field_id)) for field in fields] if isinstance(values, dict) else values for values in tuples]
        if any(len(values) != len(fields) for values in tuples):
            raise FormatError(f"a partition does not have the {len(fields)} values of its spec")
        return tuples

    def _residuals(self, tasks: Sequence[_Task]) -> tuple[list[BooleanExpression], Any]:
        texts, places = _distinct([bytes(task.residual_filter) for task in tasks])
        return [self._residual(text) for text in texts], numpy_of(places)

    def _residual(self, text: bytes) -> BooleanExpression:
        """Parse a residual. If the server sent none, or Icefloe does not support it, return the whole filter. Raises `FormatError` if it is malformed."""
        request = self._request
        if text in (b"", b"null"):
            return request.row_filter
        try:
            residual = expression_from_json(msgspec.json.decode(text), request.schema, case_sensitive=request.case_sensitive)
            return all_of([bind(residual, request.schema, request.case_sensitive), self._unsent])
        except UnsupportedFeatureError:
            return request.row_filter
        except IcefloeError as error:
            raise FormatError(f"a residual filter cannot be read: {error.message}") from error

    def _delete_file(self, file: _DeleteFile) -> DataFile:
        partition_type = self._partition_type(file.spec_id)
        content = _value_of(_CONTENTS, file.content, "content")
        if content is FileContent.DATA:
            raise FormatError("a delete file is a data file")
        if content is FileContent.EQUALITY_DELETES and not file.equality_ids:
            raise FormatError("an equality delete file has no equality-ids")
        (partition,), fields = self._partitions([file], partition_type), partition_type.fields
        return DataFile(
            file_path=file.file_path,
            file_format=_value_of(_FORMATS, file.file_format.lower(), "file format"),
            record_count=_require_count(file.record_count),
            file_size_in_bytes=_require_count(file.file_size_in_bytes),
            content=content,
            partition=tuple(
                partition_value_from_json(primitive(field.field_type), value) for field, value in zip(fields, partition, strict=True)
            ),
            key_metadata=None if file.key_metadata is None else bytes.fromhex(file.key_metadata),
            split_offsets=None if file.split_offsets is None else tuple(file.split_offsets),
            equality_ids=tuple(file.equality_ids) if file.equality_ids else None,
            sort_order_id=file.sort_order_id,
            referenced_data_file=file.referenced_data_file,
            content_offset=file.content_offset,
            content_size_in_bytes=file.content_size_in_bytes,
            spec_id=file.spec_id,
        )


def _sum(part: PlannedFiles, name: str) -> int:
    return int(numpy_of(array_of_chunks(part.entries[name])).sum())


def _formats(names: Sequence[str]) -> Any:
    """Return the file formats with these names, in any letter case, as a column. Raises `FormatError`."""
    return array_of([_value_of(_FORMATS, name.lower(), "file format").value for name in names], pa.string())


def _entry_columns(values: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the columns of `ENTRY_FIELDS` for data files; columns without values are null."""
    all_values = {"status": np.full(count, _EXISTING), "content": np.zeros(count), **values}
    return {field.name: _column(all_values.get(field.name), field.type, count) for field in ENTRY_FIELDS}


def _checked_partition(kind: PrimitiveType, column: Any, count: int) -> Any:
    """Return the partition values from a stream, or nulls if it has no such column. Raises `FormatError` for a value of a wrong length."""
    if column is None:
        return pa.nulls(count, physical_arrow_type(kind))
    length = kind.length if isinstance(kind, FixedType) else 16 if isinstance(kind, UUIDType) else None
    if length is not None and not pc.all(pc.equal(pc.binary_length(column), scalar_of(length, pa.int32()))).as_py():
        raise FormatError(f"a partition value of type {kind} does not have {length} bytes")
    return column


def _references_of_stream(column: Any, deletes: int) -> tuple[Any, Any]:
    """Return the references to delete files of the files in a stream, as the two arrays that `_references` returns."""
    if column is None:
        return None, None
    offsets = offsets_of(column).astype(np.int64)
    indices = checked_places(column.values, deletes)[offsets[0] : offsets[-1]].astype(np.int64)
    return (offsets - offsets[0], indices) if len(indices) else (None, None)


def _column(values: Any, kind: Any, count: int) -> Any:
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, np.ndarray):
        return numbers_array(values.astype(kind.to_pandas_dtype()), kind)
    return values.cast(kind) if isinstance(values, pa.Array) else array_of(values, kind)


def _partition_values(values: Sequence[Any], kind: PrimitiveType) -> Any:
    """Parse the partition values of files; each distinct value is converted once."""
    texts = [repr(value) for value in values]  # distinguishes -0.0 from 0.0, and 1 from True
    value_of = dict(zip(texts, values, strict=True))
    distinct, places = _distinct(texts)
    converted = [partition_value_from_json(kind, value_of[text]) for text in distinct]
    return physical_array(kind, converted).cast(physical_arrow_type(kind)).take(places)


def _distinct(values: Sequence[Hashed]) -> tuple[list[Hashed], Any]:
    """Return the distinct values, which are few, and an array with the index of each value among them."""
    codes: dict[Hashed, int] = {}
    places = np.array([codes.setdefault(value, len(codes)) for value in values], dtype=np.int64)
    return list(codes), numbers_array(places, pa.int64())


def _counts(numbers: list[int]) -> Any:
    """Check sizes or counts, and return them as numbers. Raises `FormatError` for a negative value."""
    counts = np.array(numbers, dtype=np.int64)
    if len(counts):
        _require_count(int(counts.min()))
    return counts


def _value_of(kinds: Mapping[str, T], text: str, what: str) -> T:
    if text not in kinds:
        raise FormatError(f"the {what} {text!r} is not known")
    return kinds[text]


def _require_count(number: int) -> int:
    if number < 0:
        raise FormatError(f"a size or a count is {number}")
    return number


def _references(tasks: Sequence[_Task], deletes: int) -> tuple[Any, Any]:
    """Return the references of tasks to the delete files of their page.

    Returns:
        Offsets and indexes: task `n` refers to the delete files `indexes[offsets[n]:offsets[n + 1]]`. None and None if no task has delete files.

    Raises:
        FormatError: An index is not below `deletes`, the number of delete files in the page.
    """
    lists = [task.delete_file_references or () for task in tasks]
    indices = np.array([place for places in lists for place in places], dtype=np.int64)
    if not len(indices):
        return None, None
    if indices.min() < 0 or indices.max() >= deletes:
        raise FormatError(f"a file refers to a delete file that is not among the {deletes} of its page")
    return np.concatenate([[0], np.cumsum([len(places) for places in lists])]).astype(np.int64), indices


def _statistic(files: Sequence[_DataFile], name: str, field_id: int) -> Any:
    """Return one statistic of a column for each file: a count, or a bound from its hexadecimal form; null if the server sent none."""
    is_bound = name.endswith("bounds")
    chunks: list[Any] = []
    for file in files:
        pairs: _Pairs | None = getattr(file, name)
        value = None if pairs is None else dict(zip(pairs.keys, pairs.values, strict=True)).get(field_id)
        if is_bound:
            chunks.append(bytes.fromhex(value) if isinstance(value, str) else None)
        else:
            chunks.append(value if isinstance(value, int) else None)
    return array_of(chunks, statistic_field(STATISTICS[name], field_id).type)
