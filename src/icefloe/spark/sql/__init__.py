"""What answers Spark SQL: catalogs, tables, scans and writes, each a few questions that the Java glue asks and Python decides. Floor: spark."""
