"""The two tables of the SQL catalog, which the Java and Python implementations share: their columns, and statements that create and inspect them.

A catalog from before views existed (V0) lacks `iceberg_type`, and is used without it. Spec: Metastore Tables.
"""

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, text

# The values of `iceberg_type`; null also means a table.
TABLE_TYPE = "TABLE"
VIEW_TYPE = "VIEW"
# The property of a namespace that has no other properties. Origin: Java's JDBC catalog.
NAMESPACE_EXISTS = "exists"

TABLES = MetaData()

ICEBERG_TABLES = Table(
    "iceberg_tables",
    TABLES,
    Column("catalog_name", String(255), primary_key=True, nullable=False),
    Column("table_namespace", String(255), primary_key=True, nullable=False),
    Column("table_name", String(255), primary_key=True, nullable=False),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)

# The columns that are read with a location: also the parts of the name, because a database may compare text without regard to case or accents.
LOCATION_COLUMNS = (
    ICEBERG_TABLES.c.metadata_location,
    ICEBERG_TABLES.c.previous_metadata_location,
    ICEBERG_TABLES.c.table_namespace,
    ICEBERG_TABLES.c.table_name,
)

NAMESPACE_PROPERTIES = Table(
    "iceberg_namespace_properties",
    TABLES,
    Column("catalog_name", String(255), primary_key=True, nullable=False),
    Column("namespace", String(255), primary_key=True, nullable=False),
    Column("property_key", String(255), primary_key=True, nullable=False),
    Column("property_value", String(1000), nullable=False),
)


def missing_tables(connection: Connection) -> list[str]:
    """Return the sorted names of the tables that the database lacks."""
    return sorted(set(TABLES.tables).difference(inspect(connection).get_table_names()))


def create_missing_tables(connection: Connection) -> None:
    """Create the tables that the database lacks."""
    missing = missing_tables(connection)
    TABLES.create_all(connection, tables=[table for table in TABLES.sorted_tables if table.name in missing])


def column_lengths(connection: Connection) -> dict[tuple[str, str], int | None]:
    """Return the greatest length of the texts in each column, by the names of the table and the column.

    It is None if the column has no such limit, for example because another implementation created the table.
    """
    inspector = inspect(connection)
    return {
        (table, column["name"]): getattr(column["type"], "length", None)
        for table in TABLES.tables
        for column in inspector.get_columns(table)
    }


def add_type_column(connection: Connection) -> None:
    """Add the column `iceberg_type`, which all catalogs in the database share."""
    column = ICEBERG_TABLES.c.iceberg_type
    kind = column.type.compile(connection.dialect)
    connection.execute(text(f"ALTER TABLE {ICEBERG_TABLES.name} ADD COLUMN {column.name} {kind}"))
