"""`EntryCorrection`: new values for the fields of a manifest entry that its file contradicts, measured from the file's footer.

Values that the footer does not have are removed from the entry: an engine that lacks bounds or counts of a file reads the file, and misses no row.
Spec: Data File Fields (column_sizes to split_offsets).
"""

from collections.abc import Sequence
from typing import Any

from icefloe.checks.finding import Finding
from icefloe.datafile.foreign_files import FooterReader, FooterRequest
from icefloe.errors import InvalidInputError, UnsupportedError
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_NUMBERS = {"file-size": "file_size_in_bytes", "file-row-count": "record_count"}
_OF_BOUNDS = frozenset(("column-bounds", "bound-value", "bound-order", "position-deletes-bounds"))
_OF_OFFSETS = frozenset(("split-offsets", "split-offsets-of-file"))
_NAN = frozenset(("column-nan-count",))


class EntryCorrection:
    """Computes the corrected fields of entries, by reading the files of one table."""

    def __init__(self, metadata: TableMetadata, io: FileIO, table: str) -> None:
        """Prepare to read footers.

        Args:
            metadata: The metadata of the table.
            io: The storage of the table.
            table: The name of the table, for errors.
        """
        self._metadata = metadata
        request = FooterRequest(
            schema=metadata.schema(),
            properties=metadata.properties,
            name_mapping=NAME_MAPPING.read(metadata.properties) or NameMapping(()),
            io=io,
            table_name=table,
            sort_order=metadata.sort_order(),
        )
        self._footers = FooterReader(request)

    def fields(self, file: DataFile, findings: Sequence[Finding]) -> dict[str, Any] | None:
        """Return the fields of an entry that must be changed, with their new values by name.

        Args:
            file: The file as its entry describes it.
            findings: What is wrong with the entry.

        Returns:
            The values; None if the file may be truncated, if a finding has no number to correct it by, or if additional rows would get row ids of other files.

        Raises:
            DataFileFormatError, NoSuchFileError, StorageError: The file cannot be read.
        """
        rules = {finding.rule for finding in findings}
        values: dict[str, Any] = {}
        for finding in findings:
            if finding.rule in _NUMBERS:
                if not isinstance(finding.expected, int):
                    return None
                values[_NUMBERS[finding.rule]] = finding.expected
        if file.file_format is FileFormat.AVRO and {"file-size", "file-row-count"} <= rules:
            return None  # an Avro file that was cut between two blocks looks complete
        if self._takes_row_ids(file, values.get("record_count", file.record_count)):
            return None
        if rules <= {"file-size"}:
            return values
        if file.content is FileContent.DATA and file.file_format is FileFormat.PARQUET and file.key_metadata is None:
            return {**values, **self._of_footer(file, rules)}
        return {**values, **_without(file, rules)}

    def _takes_row_ids(self, file: DataFile, rows: int) -> bool:
        """Return whether a file has more rows than its entry states, so that the additional rows would get row ids of the next file."""
        return self._metadata.format_version >= ROW_LINEAGE_VERSION and file.content is FileContent.DATA and rows > file.record_count

    def _of_footer(self, file: DataFile, rules: set[str]) -> dict[str, Any]:
        try:
            stored = self._footers.read(file.file_path)
        except (InvalidInputError, UnsupportedError):
            # The file has the columns of an older schema, or is encrypted.
            return _without(file, rules)
        measured = stored.data_file(file.spec_id, file.partition)
        names = ("record_count", "file_size_in_bytes", "split_offsets", "column_sizes", "value_counts", "null_value_counts", *_BOUNDS)
        values = {name: getattr(measured, name) for name in names}
        # Footers do not count NaNs: the counts of the entry are kept unless a finding contradicts them.
        is_known = not rules & {*_NAN, "metrics-count", "metrics-field", "file-row-count"}
        values["nan_value_counts"] = file.nan_value_counts if is_known else None
        return values


def _without(file: DataFile, rules: set[str]) -> dict[str, Any]:
    """Return the fields of an entry that must be removed because a rule contradicts them, each with the value None."""
    others = rules - _OF_BOUNDS - _OF_OFFSETS - _NUMBERS.keys()
    values: dict[str, Any] = {}
    if rules & _OF_BOUNDS or "metrics-field" in rules:
        values.update(dict.fromkeys(_BOUNDS))
    if rules & _OF_OFFSETS:
        values["split_offsets"] = None
    if others or "file-row-count" in rules:
        values.update(dict.fromkeys(_COUNTS))
    return {name: value for name, value in values.items() if getattr(file, name) is not None}
