"""A table's metadata file: its JSON, complete or abbreviated for reading.

`spec/metadata` has the decoded values of its keys. Spec: Table Metadata Fields; Appendix C.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.display.report import Document, Facts, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import UnsupportedFeatureError
from icefloe.formatting import count_text, size_text
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import has_no_file
from icefloe.spec.metadata.json_file import inflate, parse_json

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MetadataFile(Reportable):
    """A metadata file: its location, its stored size in bytes, and its content as parsed JSON with every key."""

    table: str
    path: str
    file_size: int
    is_gzip: bool
    content: Mapping[str, Any]

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report.

        Args:
            most: If not None, each list of objects is cut to its first and last object.
        """
        facts = Facts(
            (
                ("file", self.path),
                ("size", size_text(self.file_size) + (", gzip" if self.is_gzip else "")),
                ("keys", count_text(len(self.content))),
            )
        )
        shown = self.content if most is None else {key: _abbreviate(value) for key, value in self.content.items()}
        return Report(f"metadata of {self.table}", (facts, Document(shown)))


def check_has_file(reader: TableReader) -> None:
    """Refuse a table whose metadata file only the catalog's server can read.

    Raises:
        UnsupportedFeatureError: Only the catalog's server can read the metadata file.
    """
    if has_no_file(reader.metadata_location):
        raise UnsupportedFeatureError(
            f"only the catalog's server reads the metadata file of {reader.full_name}: it sends the content, and no location of the file",
            table=reader.full_name,
            next_step="set the catalog property snapshot-loading-mode to all, with which some servers name it",
        )


def metadata(reader: TableReader) -> MetadataFile:
    """Return the metadata file with which the table was loaded.

    Args:
        reader: The table.

    Returns:
        The location, the stored size and the parsed JSON of the file.

    Raises:
        NoSuchFileError: The file has been deleted since.
        UnsupportedFeatureError: Only the catalog's server can read the file.
    """
    check_has_file(reader)
    stored = reader.io.read(reader.metadata_location)
    is_gzip = stored.startswith(GZIP_MAGIC)
    return MetadataFile(
        table=reader.full_name,
        path=reader.metadata_location,
        file_size=len(stored),
        is_gzip=is_gzip,
        content=parse_json(inflate(stored, reader.metadata_location), reader.metadata_location),
    )


# A longer list of objects is cut to its first and last object.
_LONGEST_LIST = 2
# A schema with more columns is cut to its first columns.
_MOST_FIELDS = 12


def _abbreviate(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _abbreviate(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        if "required" in value[0]:
            # The fields of a schema: one line each.
            lines = [f"{field.get('id')}: {field.get('name')} {_type_name(field.get('type'))}" for field in value]
            return lines if len(lines) <= _MOST_FIELDS else [*lines[: _MOST_FIELDS - 1], f"… {len(lines) - _MOST_FIELDS + 1} more"]
        if len(value) > _LONGEST_LIST:
            return [_abbreviate(value[0]), f"… {len(value) - 2} more", _abbreviate(value[-1])]
        return [_abbreviate(item) for item in value]
    return value


def _type_name(kind: Any) -> str:
    return str(kind.get("type")) if isinstance(kind, dict) else str(kind)
