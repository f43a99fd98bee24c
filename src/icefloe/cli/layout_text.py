"""The schema, partition fields and sort keys of a new table, parsed from the options of a command.

`column_text.py` parses columns.
"""

import json
import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from icefloe.datafile.parquet.parquet_footer import open_parquet_for_rows
from icefloe.errors import DataFileFormatError, InvalidInputError, InvalidPartitionSpecError, MetadataFormatError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import qualify
from icefloe.spec.partitioning.partition_spec import partition_spec_from_text
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder
from icefloe.spec.schema.arrow_schema import to_schema
from icefloe.spec.schema.column_text import columns_from_text
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json

_COMMA = re.compile(r",(?![^()]*\))")
_SORT_KEY = re.compile(r"(?P<term>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE | re.DOTALL)
_PARQUET = b"PAR1"


def schema_from_options(columns: str | None, file: str | None, properties: Mapping[str, str]) -> Schema:
    """Return the schema that `--schema` or `--schema-file` defines.

    Args:
        columns: The columns as text; None if not given.
        file: The path or location of a Parquet file, of a schema in the format's JSON, or of a table's metadata file; None if not given.
        properties: The properties of the catalog, which give access to its storage.

    Raises:
        InvalidInputError: Neither or both are given.
        InvalidSchemaError: The text is not a list of columns.
        NoSuchFileError, DataFileFormatError, MetadataFormatError: The file does not exist or is damaged.
    """
    if (columns is None) == (file is None):
        raise InvalidInputError(
            "the columns of the table are needed, once",
            next_step='pass --schema "id long, name string", or --schema-file with a Parquet file or a schema in JSON',
        )
    return columns_from_text(columns) if columns is not None else _schema_of_file(str(file), properties)


def comma_separated(texts: Iterable[str] | None) -> list[str]:
    """Split the values of a repeated option at commas outside of parentheses."""
    return [part.strip() for text in texts or () for part in _COMMA.split(text) if part.strip()]


def sort_order_from_texts(schema: Schema, texts: Iterable[str]) -> SortOrder:
    """Parse sort keys such as `time desc`, `bucket(16, id)` or `name asc nulls last`. Without keys the order is unsorted.

    Raises:
        InvalidInputError: A key cannot be parsed, or names a column or transform that does not exist.
    """
    return SortOrder(*(_sort_field(schema, text) for text in texts))


def _sort_field(schema: Schema, text: str) -> SortField:
    key = _SORT_KEY.fullmatch(text.strip())
    if key is None:
        raise InvalidInputError(f"{text!r} is not a sort key", next_step='write a key as "time desc" or "name asc nulls last"')
    try:
        term = partition_spec_from_text(schema, [key["term"]]).fields[0]
    except InvalidPartitionSpecError as error:
        reason = error.message.rpartition(": ")[2]
        raise InvalidInputError(
            f"{text!r} is not a sort key: {reason}",
            problems=error.problems,
            next_step='write a key as "time desc", "name asc nulls last" or "bucket(16, id)"',
        ) from error
    nulls = None if key["nulls"] is None else NullOrder(f"nulls-{key['nulls'].lower()}")
    return SortField(term.source_id, term.transform, SortDirection((key["direction"] or "asc").lower()), nulls)


def _schema_of_file(file: str, properties: Mapping[str, str]) -> Schema:
    location = qualify(file)
    io = load_file_io(properties, location, is_trusted=True)
    with io.open_input(location) as source:
        if source.read(len(_PARQUET)) == _PARQUET:
            try:
                return to_schema(open_parquet_for_rows(source, location)[0].schema_arrow)
            except (pa.ArrowException, OSError) as error:
                raise DataFileFormatError(
                    f"the columns of the Parquet file cannot be read: {error}", path=location, next_step="name a whole Parquet file"
                ) from error
    return _schema_of_json(io.read(location), location)


def _schema_of_json(content: bytes, location: str) -> Schema:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MetadataFormatError(
            "the file is neither Parquet nor JSON",
            path=location,
            next_step="name a Parquet file, or a file that `icefloe schema show TABLE --json` printed",
        ) from error
    if isinstance(document, dict) and isinstance(document.get("schemas"), list):
        # The file is a table's metadata file.
        current = [
            item for item in document["schemas"] if isinstance(item, dict) and item.get("schema-id") == document.get("current-schema-id")
        ]
        if not current:
            raise MetadataFormatError("the metadata file has no current schema", path=location, next_step="name a file with a schema")
        document = current[0]
    try:
        return schema_from_json(document)
    except MetadataFormatError as error:
        raise MetadataFormatError(error.message, path=location, problems=error.problems, next_step=error.next_step) from error
