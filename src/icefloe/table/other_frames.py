"""The rows of a scan in other libraries: polars, DuckDB, Ray, Daft, Bodo, DataFusion. Each is imported when its method is called."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from icefloe.errors import InvalidInputError
from icefloe.kernel.temporal_arrays import has_python_years
from icefloe.lazy_imports import lazy_module
from icefloe.optional_packages import optional_module

if TYPE_CHECKING:
    from icefloe.table import scan_dataset
else:
    scan_dataset = lazy_module("icefloe.table.scan_dataset")


def pandas_frame(rows: Any, **options: Any) -> Any:
    """Return Arrow rows as a `pandas.DataFrame`; dates as pandas' own type, not as Python's, if there is one outside of the years 1 to 9999.

    Raises:
        InvalidInputError: such a date or timestamp is inside a list, map or struct, whose values are objects of Python.
    """
    optional_module("pandas", extra="pandas", feature="to_pandas()")
    try:
        return rows.to_pandas(**options)
    except (OverflowError, ValueError) as error:
        far = [name for name, column in zip(rows.column_names, rows.columns, strict=True) if not has_python_years(column)]
        if not far:
            raise
        if "date_as_object" not in options:
            return pandas_frame(rows, date_as_object=False, **options)
        raise InvalidInputError(
            f"Python has no date of the year of a value of {', '.join(far)}, which pandas needs: {error}",
            next_step="read with to_arrow(), or pass types_mapper=pandas.ArrowDtype",
        ) from error


def polars_frame(scan: Any) -> Any:
    """Return the rows as a `polars.DataFrame`."""
    return optional_module("polars", extra="polars", feature="to_polars()").from_arrow(scan.to_arrow())


def polars_lazy_frame(scan: Any) -> Any:
    """Return a `polars.LazyFrame`: a query plans the files when it is collected, and reads only the columns and the number of rows that it needs."""
    polars = optional_module("polars", extra="polars", feature="to_polars()")
    plugins = optional_module("polars.io.plugins", extra="polars", feature="to_polars()")

    def rows(columns: list[str] | None, predicate: Any, limit: int | None, _batch_rows: int | None) -> Iterator[Any]:
        narrow = scan if columns is None else scan.select(*columns)
        # A predicate of polars is applied to the rows; the limit is on the rows that match it.
        frame = (narrow if limit is None or predicate is not None else replace(narrow, limit=limit)).to_polars()
        if predicate is not None:
            frame = frame.filter(predicate)
        yield frame if limit is None else frame.head(limit)

    return plugins.register_io_source(rows, schema=polars.from_arrow(scan.projection().as_arrow().empty_table()).schema)


def duckdb_connection(scan: Any, table_name: str, connection: Any) -> Any:
    """Register the rows as a table of a DuckDB connection, of a new one in memory if `connection` is None, and return the connection."""
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
    """Return the table as a capsule that DataFusion registers. DataFusion takes providers of Rust only; this one is of iceberg-rust, which reads the files."""
    core = optional_module("pyiceberg_core.datafusion", extra="datafusion", feature="DataFusion")
    provider = core.IcebergDataFusionTable(
        identifier=table.name(), metadata_location=table.metadata_location, file_io_properties=dict(getattr(table.io, "properties", {}))
    )
    return provider.__datafusion_table_provider__(session)


def datafusion_table(table: Any) -> Any:
    """Return the table as DataFusion's own object where iceberg-rust cannot read it or may read it wrongly, else None; Icefloe reads the rows.

    iceberg-rust resolves locations as URLs, supports no deletion vectors, and reads columns by the schema of the newest snapshot.
    """
    metadata = table.metadata
    if "://" in table.metadata_location and "://" in metadata.location and metadata.format_version < 3 and len(metadata.schemas) == 1:
        return None
    datafusion = optional_module("datafusion", extra="datafusion", feature="DataFusion")
    return datafusion.Table(scan_dataset.ScanDataset(table.scan()))._inner
