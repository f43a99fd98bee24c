"""`ScanDataset`: the rows of a table as a PyArrow dataset, which DataFusion can register. A query reads the columns that it needs, when it runs."""

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds


class ScanDataset(ds.Dataset):  # type: ignore[misc]  # PyArrow has no types
    """A scan with the part of the interface of PyArrow datasets that DataFusion uses: a schema, and a single fragment with all rows."""

    def __init__(self, scan: Any) -> None:
        self._scan = scan
        self._schema = scan.projection().as_arrow()

    @property
    def schema(self) -> Any:
        """The columns of the scan, as a `pyarrow.Schema`."""
        return self._schema

    def get_fragments(self, filter: Any = None) -> list["ScanDataset"]:  # noqa: ARG002  as PyArrow names it
        """Return the fragments to read. The only fragment is the whole scan, which reads its files in parallel."""
        return [self]

    def scanner(self, schema: Any = None, columns: list[str] | None = None, filter: Any = None, **_options: Any) -> Any:  # noqa: ARG002
        """Return a scanner for the rows. They are read when the scanner runs.

        Args:
            schema: not used.
            columns: the names of the columns to return; by default all.
            filter: a PyArrow expression that the returned rows match.
        """
        names = self._schema.names
        selected = names if columns is None else columns
        # An expression does not list its columns, so columns are searched by name in its text. A column that only seems to occur is read and not used.
        text = str(filter) if filter is not None else ""
        read = [name for name in names if name in selected or name in text] or names[:1]
        source = pa.RecordBatchReader.from_batches(pa.schema([self._schema.field(name) for name in read]), self._batches(read))
        return ds.Scanner.from_batches(source, columns=selected, filter=filter)

    def _batches(self, names: list[str]) -> Any:
        """Yield the rows of these columns in batches. The scan is planned when the first batch is requested."""
        yield from self._scan.select(*names).to_arrow_batch_reader()
