"""The rows of a scan as objects of other libraries: pandas, polars, DuckDB, Ray, Daft, Bodo, DataFusion. A library is imported when its function is called."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from icefloe.lazy_imports import lazy_module
from icefloe.optional_packages import optional_module
from icefloe.spec.temporal_arrays import converted_list, has_python_years

if TYPE_CHECKING:
    from icefloe.operations import scan_dataset
else:
    scan_dataset = lazy_module("icefloe.operations.scan_dataset")


class RowFrames(ABC):
    """A scan whose rows can be read into frames of other libraries. The subclass reads them as Arrow."""

    @abstractmethod
    def to_arrow(self) -> Any:
        """Return the rows as a `pyarrow.Table`."""

    def to_pandas(self, **options: Any) -> Any:
        """Read the rows in this process into pandas.

        Args:
            **options: options of `pyarrow.Table.to_pandas`.

        Returns:
            A `pandas.DataFrame`.

        Raises:
            NotInstalledError: pandas is not installed.
            IcefloeError: as for `to_arrow`.
        """
        return pandas_frame(self.to_arrow(), **options)

    def to_polars(self) -> Any:
        """Read the rows in this process into polars.

        Returns:
            A `polars.DataFrame`.

        Raises:
            NotInstalledError: polars is not installed.
            IcefloeError: as for `to_arrow`.
        """
        return polars_frame(self)

    def to_duckdb(self, table_name: str, connection: Any = None) -> Any:
        """Read the rows in this process into a table of DuckDB.

        Args:
            table_name: the name of the table.
            connection: a DuckDB connection; by default a new one, in memory.

        Returns:
            The connection.

        Raises:
            NotInstalledError: DuckDB is not installed.
            IcefloeError: as for `to_arrow`.
        """
        return duckdb_connection(self, table_name, connection)

    def to_ray(self) -> Any:
        """Read the rows in this process into Ray.

        Returns:
            A `ray.data.Dataset`.

        Raises:
            NotInstalledError: Ray is not installed.
            IcefloeError: as for `to_arrow`.
        """
        return ray_dataset(self)


def pandas_frame(rows: Any, **options: Any) -> Any:
    """Return Arrow rows as a `pandas.DataFrame`.

    If a date or timestamp has a year outside of 1 to 9999, date columns have pandas' own timestamps instead of Python's dates, and so do struct and map columns
    that contain such a value.
    """
    pandas = optional_module("pandas", extra="pandas", feature="to_pandas()")
    is_arrow_made = options.get("date_as_object", True) or "types_mapper" in options
    try:
        if is_arrow_made or not (far := _far_columns(rows)):
            return rows.to_pandas(**options)
    except (OverflowError, ValueError):
        far = _far_columns(rows)
        if not (far or any(not has_python_years(column) for column in rows.columns)):
            raise
    frame = rows.drop_columns(far).to_pandas(**{**options, "date_as_object": False})

    def timestamp(number: int, kind: Any) -> Any:
        time = pandas.Timestamp(np.datetime64(number, "D" if pa.types.is_date32(kind) else kind.unit))
        return time if pa.types.is_date32(kind) or kind.tz is None else time.tz_localize("UTC").tz_convert(kind.tz)

    for place, name in enumerate(rows.column_names):
        if name in far:
            frame.insert(place, name, pandas.Series(converted_list(rows[name], timestamp), index=frame.index, dtype=object))
    return frame


def _far_columns(rows: Any) -> list[str]:
    """Return the names of columns with a struct or map in which a value has a year outside of 1 to 9999. Python's classes do not support such years."""
    columns = zip(rows.column_names, rows.columns, strict=True)
    return [name for name, column in columns if _has_fields(column.type) and not has_python_years(column)]


def _has_fields(kind: Any) -> bool:
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return True
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)) and _has_fields(
        kind.value_type
    )


def polars_frame(scan: Any) -> Any:
    """Return the rows as a `polars.DataFrame`."""
    return optional_module("polars", extra="polars", feature="to_polars()").from_arrow(scan.to_arrow())


def polars_lazy_frame(scan: Any) -> Any:
    """Return a `polars.LazyFrame`. When a query is collected, the files are planned, and only the needed columns and number of rows are read."""
    polars = optional_module("polars", extra="polars", feature="to_polars()")
    plugins = optional_module("polars.io.plugins", extra="polars", feature="to_polars()")

    def rows(columns: list[str] | None, predicate: Any, limit: int | None, _batch_rows: int | None) -> Iterator[Any]:
        narrow = scan if columns is None else scan.select(*columns)
        # The predicate of polars is applied to the rows that were read; the limit counts the rows that match it.
        frame = (narrow if limit is None or predicate is not None else replace(narrow, limit=limit)).to_polars()
        if predicate is not None:
            frame = frame.filter(predicate)
        yield frame if limit is None else frame.head(limit)

    return plugins.register_io_source(rows, schema=polars.from_arrow(scan.projection().as_arrow().empty_table()).schema)


def duckdb_connection(scan: Any, table_name: str, connection: Any) -> Any:
    """Register the rows as a table in a DuckDB connection, and return the connection. If `connection` is None, a new connection in memory is created."""
    duckdb = optional_module("duckdb", extra="duckdb", feature="to_duckdb()")
    target = connection or duckdb.connect(database=":memory:")
    target.register(table_name, scan.to_arrow())
    return target


def ray_dataset(scan: Any) -> Any:
    """Return the rows as a Ray dataset."""
    return optional_module("ray.data", extra="ray", feature="to_ray()").from_arrow(scan.to_arrow())


def daft_frame(scan: Any) -> Any:
    """Return the rows as a Daft DataFrame."""
    return optional_module("daft", extra="daft", feature="to_daft()").from_arrow(scan.to_arrow())


def bodo_frame(scan: Any) -> Any:
    """Return the rows as a Bodo DataFrame."""
    return optional_module("bodo.pandas", extra="bodo", feature="to_bodo()").from_pandas(scan.to_pandas())


def datafusion_provider(table: Any, session: Any) -> Any:
    """Return a table provider (a PyCapsule) that DataFusion can register, and that reads the files with iceberg-rust.

    DataFusion requires a provider that is implemented in Rust.
    """
    core = optional_module("pyiceberg_core.datafusion", extra="datafusion", feature="DataFusion")
    provider = core.IcebergDataFusionTable(
        identifier=table.name(), metadata_location=table.metadata_location, file_io_properties=dict(getattr(table.io, "properties", {}))
    )
    return provider.__datafusion_table_provider__(session)


def datafusion_table(table: Any) -> Any:
    """Return a DataFusion object that reads the rows with Icefloe; None if iceberg-rust certainly reads the table correctly, so that it should do so.

    iceberg-rust resolves locations as URLs, does not support deletion vectors, and reads columns with the schema of the newest snapshot.
    """
    metadata = table.metadata
    if "datafusion" not in sys.modules:  # the attribute was requested by a library other than DataFusion
        return None
    if "://" in table.metadata_location and "://" in metadata.location and metadata.format_version < 3 and len(metadata.schemas) == 1:
        return None
    datafusion = optional_module("datafusion", extra="datafusion", feature="DataFusion")
    return datafusion.Table(scan_dataset.ScanDataset(table.scan()))._inner
