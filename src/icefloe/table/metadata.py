"""Table metadata under the module name of PyIceberg: `from icefloe.table.metadata import TableMetadataUtil`."""

import json
from collections.abc import Mapping
from typing import Any

from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata

__all__ = ["TableMetadata", "TableMetadataUtil"]


class TableMetadataUtil:
    """Parsers of table metadata."""

    @staticmethod
    def parse_raw(data: str) -> TableMetadata:
        """Return the metadata of the JSON text of a metadata file.

        Args:
            data: the text.

        Raises:
            MetadataFormatError: the text violates the format; every problem is listed.
        """
        return read_table_metadata(data.encode(), "the given text")

    @staticmethod
    def parse_obj(data: Mapping[str, Any]) -> TableMetadata:
        """Return the metadata of a parsed metadata file.

        Args:
            data: the JSON object of the file.

        Raises:
            MetadataFormatError: the object violates the format; every problem is listed.
        """
        return read_table_metadata(json.dumps(data).encode(), "the given object")
