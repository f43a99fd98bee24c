"""`FileAppender` and `FileAppenderFactory`: the interface by which a data file of any format is written.

`parquet_appender.py`, `orc_appender.py` and `avro_appender.py` implement it; `data_file_writer.py` decides which rows are written to which file.
Spec: Appendix A; Data File Fields.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from icefloe.datafile.avro.avro_appender import avro_appender_factory
from icefloe.datafile.orc.orc_appender import orc_appender_factory
from icefloe.datafile.parquet.parquet_appender import parquet_appender_factory
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_properties import DEFAULT_FILE_FORMAT
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.schema import Schema


class FileAppender(Protocol):
    """A data file that is being written. If opening, writing or closing it fails, the caller that opened it deletes it."""

    location: str

    @property
    def length(self) -> int:
        """Return the bytes written so far; an estimate, if the format buffers rows."""

    def write_row_group(self, table: Any) -> None:
        """Write an Arrow table of the factory's `arrow_schema`: one row group, if the format has them."""

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Write the end of the file, and return its manifest fields."""

    def abandon(self) -> None:
        """Close the file without completing it, so that it can be deleted."""


class FileAppenderFactory(Protocol):
    """The format, schema and writer options of one table's data files. Sizes are in bytes."""

    @property
    def arrow_schema(self) -> Any:
        """Return the Arrow schema of the rows that are written."""

    @property
    def extension(self) -> str:
        """Return the extension of file names, without the dot."""

    @property
    def row_group_bytes(self) -> int:
        """Return the bytes of Arrow memory that one row group may have."""

    @property
    def target_file_bytes(self) -> int:
        """Return the size at which a file is closed and the next one opened."""

    def new_appender(self, io: FileIO, location: str, sample: Any) -> FileAppender:
        """Create a file; `sample` is the first table that will be written to it."""


_FACTORIES: Mapping[str, Callable[[Schema, Mapping[str, str], SortOrder], FileAppenderFactory]] = {
    "parquet": parquet_appender_factory,
    "orc": orc_appender_factory,
    "avro": avro_appender_factory,
}


def appender_factory(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> FileAppenderFactory:
    """Return the appender factory of a table for the format in its property `write.format.default`.

    Raises:
        InvalidPropertyError: A writer property has an invalid value.
        UnsupportedTypeError: The format cannot store a column of the schema.
    """
    return _FACTORIES[DEFAULT_FILE_FORMAT.read(properties)](schema, properties, sort_order)
