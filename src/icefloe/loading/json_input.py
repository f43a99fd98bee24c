"""Reads the rows of JSON files: their columns, and their values converted to a table's types.

`json_records.py` finds the objects, and `json_types.py` converts their values.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from icefloe.errors import InvalidInputError
from icefloe.loading.bad_rows import BadRow, BadRowCollector
from icefloe.loading.input_files import InputFiles, open_bytes
from icefloe.loading.json_records import JsonRecords, has_objects_on_lines, read_json_records
from icefloe.loading.json_types import JsonTypes, column_of
from icefloe.loading.load_progress import ProgressCounter
from icefloe.loading.reader_options import ReaderOptions
from icefloe.loading.text_decoding import utf8_decoder
from icefloe.operations.upsert_source import lacking
from icefloe.spec.schema.arrow_types import field_to_arrow
from icefloe.spec.schema.schema import walk
from icefloe.spec.types import DecimalType, IcebergType, NestedField


class JsonInput:
    """Reads the rows of JSON files. A file is read once to infer the types of its columns, if `infer` is called, and then once for its rows."""

    def __init__(self, files: InputFiles, options: ReaderOptions, *, replaced: Sequence[NestedField] = ()) -> None:
        """Create a reader; no file is opened.

        Args:
            files: The files.
            options: The options of the reader.
            replaced: For an upsert, the columns of the table; else empty. An object that lacks one of these columns is a bad row, because the column would
                become null in the replaced row.
        """
        self._files, self._options, self._replaced = files, options, replaced
        # The fields of the objects are known only after all files are read.
        self.names: list[str] | None = None

    def infer(self, known: Mapping[str, IcebergType], progress: ProgressCounter) -> list[NestedField]:  # noqa: ARG002
        """Return the columns of all objects. The type of each column is inferred from all its values; `known` is not used.

        Raises:
            InvalidInputError: The files have no object with a field, or there are too many different fields.
        """
        types = JsonTypes()
        first_fault: str | None = None
        for path, records in self._records(progress):
            types.observe(records.rows)
            if first_fault is None and records.faults:
                first_fault = f"{path} line {records.faults[0].line}: {records.faults[0].reason}"
        columns = types.columns()
        if not columns:
            raise InvalidInputError(
                f"{self._files.described}: the files have no columns" + (f"; {first_fault}" if first_fault else ""),
                next_step="give files with objects in them",
            )
        return columns

    def batches(self, fields: Sequence[NestedField], bad_rows: BadRowCollector, progress: ProgressCounter) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files, with the columns and types of `fields`. Rows that cannot be read or converted are added to `bad_rows` instead."""
        schema = pa.schema([field_to_arrow(field).with_nullable(True) for field in fields])
        exact = any(isinstance(kind, DecimalType) for _, field in walk(fields) for kind in [field.field_type])
        for path, records in self._records(progress, exact=exact):
            wrong: dict[int, tuple[str, str]] = {}
            for number, row in enumerate(records.rows) if self._replaced else ():
                absent = next(lacking(row, self._replaced), None)
                if absent is not None:
                    wrong[number] = (absent, "has no such field, and an upsert would set the column to null")
            columns = []
            for field in fields:
                values = [row.get(field.name) for row in records.rows]

                def reject(row: int, reason: str, name: str = field.name, wrong: dict[int, tuple[str, str]] = wrong) -> None:
                    wrong.setdefault(row, (name, reason))

                columns.append(column_of(values, field, reject).cast(schema.field(field.name).type))
            faults: list[tuple[int, str | None, str, bytes]] = [(fault.line, None, fault.reason, fault.text) for fault in records.faults]
            faults += [(records.lines[row], name, reason, records.texts[row]) for row, (name, reason) in wrong.items()]
            for line, column, reason, text in sorted(faults, key=lambda fault: fault[0]):
                bad_rows.add(BadRow(file=path, line=line, column=column, reason=reason, text=text.decode(errors="replace")))
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            if wrong:
                keep = np.ones(len(records.rows), bool)
                keep[list(wrong)] = False
                batch = batch.filter(pa.array(keep))
            yield batch

    def has_objects_on_lines(self) -> bool:
        """Return whether each file has one object on each line, judging by the first block of the file."""
        for path in self._files.paths:
            with open_bytes(self._files.io, path, utf8_decoder(self._options.encoding, path)) as source:
                if not has_objects_on_lines(source.read()):
                    return False
        return True

    def _records(self, progress: ProgressCounter, *, exact: bool = False) -> Iterator[tuple[str, JsonRecords]]:
        for path in self._files.paths:
            with open_bytes(self._files.io, path, utf8_decoder(self._options.encoding, path)) as source:
                for records in read_json_records(source, exact=exact):
                    progress.advance(len(records.rows) + len(records.faults), source.position)
                    yield path, records
            progress.end_file()
