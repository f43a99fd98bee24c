"""The two tables of the SQL catalog, as the Java and Python implementations share them.

A catalog made before views existed (V0) lacks `iceberg_type` and is used as it is.
"""

from sqlalchemy import Column, MetaData, String, Table

# The values of `iceberg_type`; null means a table.
TABLE_TYPE = "TABLE"
VIEW_TYPE = "VIEW"
# The property of a namespace without properties. Origin: Java's JDBC catalog.
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

NAMESPACE_PROPERTIES = Table(
    "iceberg_namespace_properties",
    TABLES,
    Column("catalog_name", String(255), primary_key=True, nullable=False),
    Column("namespace", String(255), primary_key=True, nullable=False),
    Column("property_key", String(255), primary_key=True, nullable=False),
    Column("property_value", String(1000), nullable=False),
)
