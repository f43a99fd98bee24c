"""The JSON of planned files: data files, the delete files that apply to them, and residual filters. Spec: REST catalog, ScanTasks, ContentFile.

The JSON of data files is written from the columns of the plan, without an object for each file. JAVA: ContentFileParser, whose readers take bounds as the
hexadecimal digits of their binary form.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.scan.scan_plan import PlannedFiles
from icefloe.scan.scan_task_stream import residual_text
from icefloe.spec.arrow_values import array_of, array_of_chunks, numbers_array, scalar_of
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.manifest_columns import STATISTICS, partition_column, statistic_column
from icefloe.spec.manifest.partition_json import partition_value_to_json
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType
from icefloe.spec.values import physical_list

_CONTENTS = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}
# The characters that JSON escapes.
_ESCAPED = r'["\\\x00-\x1f]'
_COMMA, _NOTHING = scalar_of(",", pa.string()), scalar_of("", pa.string())


class ScanTaskJson:
    """Writes the scan tasks of one table as JSON."""

    def __init__(self, metadata: TableMetadata, statistics: Sequence[int]) -> None:
        """Prepare to write tasks.

        Args:
            metadata: The metadata of the table.
            statistics: The ids of the columns whose statistics are written. The planned files must have them.
        """
        self._metadata = metadata
        self._statistics = statistics
        self._partition_kinds: dict[int, list[PrimitiveType]] = {}

    def page(self, parts: Sequence[PlannedFiles]) -> bytes:
        """Return the members `file-scan-tasks` and `delete-files` of a JSON object for some files. Each delete file that applies to one of them occurs once.

        Args:
            parts: The files.
        """
        places: dict[int, int] = {}
        rows = [self._tasks(part, places) for part in parts if len(part)]
        tasks = b",".join(pc.binary_join(_one_list(array), _COMMA)[0].as_buffer().to_pybytes() for array in rows)
        deletes = next((part.delete_files for part in parts if part.delete_indices is not None), ())
        members = [b'"file-scan-tasks":[' + tasks + b"]"]
        if places:
            members.append(b'"delete-files":' + msgspec.json.encode([self.delete_file(deletes[place]) for place in places]))
        return b",".join(members)

    def _tasks(self, part: PlannedFiles, places: dict[int, int]) -> Any:
        """Return the JSON of each file of a part. `places` collects the delete files of the page, each with its position in the page."""
        entries = part.entries
        partitions = self._partitions(part)
        pieces: list[Any] = [
            f'{{"data-file":{{"spec-id":{part.spec_id},"content":"data","file-path":',
            _quote(array_of_chunks(entries["file_path"])),
            ',"file-format":"',
            pc.utf8_lower(array_of_chunks(entries["file_format"])),
            '","partition":',
            partitions,
            ',"file-size-in-bytes":',
            _text(entries["file_size_in_bytes"]),
            ',"record-count":',
            _text(entries["record_count"]),
            _lists(',"split-offsets":', entries["split_offsets"]),
            _optional(',"sort-order-id":', entries["sort_order_id"]),
            _optional(',"first-row-id":', entries["first_row_id"]),
        ]
        if self._statistics:
            pieces += self._statistics_of(entries)
        pieces += ["}", self._references(part, places), self._residuals(part), "}"]
        return _join(*pieces, null_handling="replace", null_replacement="")

    def _partitions(self, part: PlannedFiles) -> Any:
        """Return the JSON of each file's partition. Each distinct value of a field, of which there are few, is converted once."""
        kinds = self._kinds(part.spec_id)
        if not kinds:
            return "[]"
        pieces: list[Any] = []
        for field, kind in zip(part.partition_type.fields, kinds, strict=True):
            pieces += [",", _partition_texts(kind, array_of_chunks(part.entries[partition_column(field.field_id)]))]
        return _join("[", *pieces[1:], "]")

    def _residuals(self, part: PlannedFiles) -> Any:
        """Return the JSON of each file's residual; empty for a residual that is too long.

        A residual that is always true is written too, because a client uses the whole filter for a file without a residual.
        """
        written = (residual_text(residual) for residual in part.residuals)
        texts = ["" if text is None else f',"residual-filter":{text}' for text in written]
        if len(texts) == 1:
            return texts[0]
        return array_of(texts, pa.string()).take(numbers_array(np.asarray(part.residual_index, dtype=np.int64), pa.int64()))

    def _references(self, part: PlannedFiles, places: dict[int, int]) -> Any:
        if part.delete_offsets is None or part.delete_indices is None:
            return ""
        indices = [places.setdefault(index, len(places)) for index in part.delete_indices.tolist()]
        texts = [
            f',"delete-file-references":{indices[start:end]}' if end > start else ""
            for start, end in pairwise(part.delete_offsets.tolist())
        ]
        return array_of(texts, pa.string())

    def _statistics_of(self, entries: Any) -> list[Any]:
        pieces = []
        for name, statistic in STATISTICS.items():
            columns = [array_of_chunks(entries[statistic_column(statistic, field_id)]) for field_id in self._statistics]
            write: Callable[[Any], Any] = _hexadecimal if name.endswith("bounds") else _text
            keys, values = [], []
            for field_id, column in zip(self._statistics, columns, strict=True):
                keys.append(pc.if_else(pc.is_valid(column), scalar_of(f"{field_id},", pa.string()), _NOTHING))
                values.append(pc.coalesce(_join(write(column), ","), _NOTHING))
            joined_keys, joined_values = (pc.utf8_rtrim(_join(*texts), characters=",") for texts in (keys, values))
            key = f',"{name.replace("_", "-")}":{{"keys":['
            text = _join(key, joined_keys, '],"values":[', joined_values, "]}")
            pieces.append(pc.if_else(pc.equal(joined_keys, _NOTHING), _NOTHING, text))
        return pieces

    def delete_file(self, file: DataFile) -> dict[str, Any]:
        """Return a delete file as a JSON object of the protocol."""
        values = zip(self._kinds(file.spec_id), file.partition, strict=True)
        content: dict[str, Any] = {
            "spec-id": file.spec_id,
            "content": _CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.lower(),
            "partition": [partition_value_to_json(kind, value) for kind, value in values],
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
        }
        if file.key_metadata is not None:
            content["key-metadata"] = file.key_metadata.hex().upper()
        if file.split_offsets is not None:
            content["split-offsets"] = list(file.split_offsets)
        if file.sort_order_id is not None:
            content["sort-order-id"] = file.sort_order_id
        if file.content is FileContent.EQUALITY_DELETES:
            content["equality-ids"] = list(file.equality_ids or ())
        else:
            optional = {
                "referenced-data-file": file.referenced_data_file,
                "content-offset": file.content_offset,
                "content-size-in-bytes": file.content_size_in_bytes,
            }
            content |= {key: value for key, value in optional.items() if value is not None}
        return content

    def _kinds(self, spec_id: int) -> list[PrimitiveType]:
        """Return the types of the partition values of a spec."""
        if spec_id not in self._partition_kinds:
            fields = spec_partition_type(self._metadata, spec_id).fields
            self._partition_kinds[spec_id] = [field.field_type for field in fields]  # type: ignore[misc]  # the types are primitive
        return self._partition_kinds[spec_id]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _partition_texts(kind: PrimitiveType, column: Any) -> Any:
    """Return the values of a partition field as JSON texts."""
    if isinstance(kind, FloatType | DoubleType):  # -0.0 equals 0.0 but is a different partition, so that values are not grouped
        return array_of([_json(partition_value_to_json(kind, value)) for value in physical_list(kind, column)], pa.string())
    values = column.dictionary_encode(null_encoding="encode")
    texts = [_json(partition_value_to_json(kind, value)) for value in physical_list(kind, values.dictionary)]
    return array_of(texts, pa.string()).take(values.indices)


def _join(*pieces: Any, **options: Any) -> Any:
    """Concatenate texts element by element. A piece may be one text for all elements. It is converted here, because PyArrow would import pandas for that."""
    scalars = (scalar_of(piece, pa.string()) if isinstance(piece, str) else piece for piece in pieces)
    return pc.binary_join_element_wise(*scalars, _NOTHING, **options)


def _one_list(texts: Any) -> Any:
    """Return an array of lists whose only element is the list of all texts."""
    return pa.ListArray.from_arrays(array_of([0, len(texts)], pa.int32()), texts)


def _text(numbers: Any) -> Any:
    return array_of_chunks(numbers).cast(pa.string())


def _quote(texts: Any) -> Any:
    """Return texts as JSON strings."""
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return array_of([_json(text) for text in texts.to_pylist()], pa.string())
    return _join('"', texts, '"')


def _optional(key: str, numbers: Any) -> Any:
    """Return a JSON member with a number for each row; null if the row has no value."""
    return _join(key, _text(numbers))


def _lists(key: str, lists: Any) -> Any:
    """Return a JSON member with a list of numbers for each row; null if the row has no value."""
    column = array_of_chunks(lists)
    return _join(key, "[", pc.binary_join(column.cast(pa.list_(pa.string())), _COMMA), "]")


def _hexadecimal(bounds: Any) -> Any:
    return array_of([None if bound is None else f'"{bound.hex().upper()}"' for bound in bounds.to_pylist()], pa.string())
