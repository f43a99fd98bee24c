"""The JSON of planned files: data files, the delete files that apply to them, and residual filters. Spec: REST catalog, ScanTasks, ContentFile.

JAVA: ContentFileParser, whose readers take bounds as the hexadecimal digits of their binary form.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.kernel.expressions.expression_json import expression_to_json
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.types import PrimitiveType
from icefloe.kernel.values import to_json_value

_CONTENTS = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


class ScanTaskJson:
    """Writes the tasks of one table."""

    def __init__(self, metadata: TableMetadata, statistics: frozenset[int]) -> None:
        """Prepare to write tasks.

        Args:
            metadata: The table.
            statistics: The ids of the columns whose statistics are written.
        """
        self._metadata = metadata
        self._statistics = statistics
        self._partition_kinds: dict[int, list[PrimitiveType]] = {}

    def page(self, tasks: Sequence[FileScanTask]) -> dict[str, Any]:
        """Return some tasks, with each delete file that applies to one of them once.

        Args:
            tasks: The tasks.

        Returns:
            The keys `file-scan-tasks` and, where there are any, `delete-files`.
        """
        deletes: dict[tuple[str, int | None], tuple[int, DataFile]] = {}
        written = []
        for task in tasks:
            task_json: dict[str, Any] = {"data-file": self._file(task.file, task.spec_id)}
            if task.delete_files:
                # Deletion vectors of several data files are in one Puffin file, at different offsets.
                places = [deletes.setdefault((file.file_path, file.content_offset), (len(deletes), file))[0] for file in task.delete_files]
                task_json["delete-file-references"] = places
            if not isinstance(task.residual, AlwaysTrue):
                task_json["residual-filter"] = expression_to_json(task.residual)
            written.append(task_json)
        content: dict[str, Any] = {"file-scan-tasks": written}
        if deletes:
            content["delete-files"] = [self._file(file, file.spec_id) for _, file in deletes.values()]
        return content

    def _file(self, file: DataFile, spec_id: int) -> dict[str, Any]:
        content: dict[str, Any] = {
            "spec-id": spec_id,
            "content": _CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.lower(),
            "partition": [to_json_value(kind, value) for kind, value in zip(self._kinds(spec_id), file.partition, strict=True)],
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
        }
        if file.key_metadata is not None:
            content["key-metadata"] = file.key_metadata.hex()
        if file.split_offsets is not None:
            content["split-offsets"] = list(file.split_offsets)
        if file.sort_order_id is not None:
            content["sort-order-id"] = file.sort_order_id
        if file.content is FileContent.DATA:
            if file.first_row_id is not None:
                content["first-row-id"] = file.first_row_id
            if self._statistics:
                self._add_statistics(content, file)
        elif file.content is FileContent.EQUALITY_DELETES:
            content["equality-ids"] = list(file.equality_ids or ())
        else:
            optional = {
                "referenced-data-file": file.referenced_data_file,
                "content-offset": file.content_offset,
                "content-size-in-bytes": file.content_size_in_bytes,
            }
            content |= {key: value for key, value in optional.items() if value is not None}
        return content

    def _add_statistics(self, content: dict[str, Any], file: DataFile) -> None:
        for name in _COUNTS:
            counts: Mapping[int, int] | None = getattr(file, name)
            chosen = {key: value for key, value in (counts or {}).items() if key in self._statistics}
            if chosen:
                content[name.replace("_", "-")] = {"keys": list(chosen), "values": list(chosen.values())}
        for name in _BOUNDS:
            bounds: Mapping[int, bytes] | None = getattr(file, name)
            limits = {key: value.hex().upper() for key, value in (bounds or {}).items() if key in self._statistics}
            if limits:
                content[name.replace("_", "-")] = {"keys": list(limits), "values": list(limits.values())}

    def _kinds(self, spec_id: int) -> list[PrimitiveType]:
        """Return the types of a spec's partition values."""
        if spec_id not in self._partition_kinds:
            fields = spec_partition_type(self._metadata, spec_id).fields
            self._partition_kinds[spec_id] = [field.field_type for field in fields]  # type: ignore[misc]  # they are primitive
        return self._partition_kinds[spec_id]
