"""SQL statements that Spark does not parse or cannot run on an Iceberg catalog."""
