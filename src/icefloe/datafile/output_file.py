"""The one door to writing a data file of any format: the form of a table's files, and a file between its first rows and its footer.

`parquet_output.py`, `orc_output.py` and `avro_output.py` are behind it; which rows go into which file is `write.py`.
Spec: Appendix A; Data File Fields.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from icefloe.datafile.avro.avro_output import avro_form
from icefloe.datafile.orc.orc_output import orc_form
from icefloe.datafile.parquet.parquet_output import parquet_form
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_properties import DEFAULT_FILE_FORMAT
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.schema import Schema


class OpenOutput(Protocol):
    """A data file being written. Whoever opens it deletes it where that, or anything after it, fails."""

    location: str

    @property
    def length(self) -> int:
        """Bytes written so far, as near as the format can tell."""

    def write_row_group(self, table: Any) -> None:
        """Writes an Arrow table of the form's `rows` schema, in the format's unit where it has one."""

    def close(self, partition: tuple[Any, ...], *, sort_order_id: int | None, spec_id: int) -> DataFile:
        """Writes what ends the file and describes it."""

    def abandon(self) -> None:
        """Closes what is open, so that the file can be deleted."""


class FileForm(Protocol):
    """How the files of one table are written: `rows` is the Arrow schema that rows come in, sizes are in bytes."""

    @property
    def rows(self) -> Any: ...

    @property
    def extension(self) -> str:
        """What file names end in, without the dot."""

    @property
    def row_group_bytes(self) -> int: ...

    @property
    def target_file_bytes(self) -> int: ...

    def open(self, io: FileIO, location: str, sample: Any) -> OpenOutput:
        """A new file; `sample` is the first table that will be written to it."""


_FORMS: Mapping[str, Callable[[Schema, Mapping[str, str], SortOrder], FileForm]] = {
    "parquet": parquet_form,
    "orc": orc_form,
    "avro": avro_form,
}


def file_form(schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER) -> FileForm:
    """The form of a table's data files, from its schema, sort order and properties, of which `write.format.default` names the format.

    Raises:
        InvalidPropertyError: a property of the writer has a value it cannot have.
        UnsupportedTypeError: the format cannot hold a column of the schema.
    """
    return _FORMS[DEFAULT_FILE_FORMAT.read(properties)](schema, properties, sort_order)
