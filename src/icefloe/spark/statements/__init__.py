"""SQL statements that Spark does not parse, or cannot run on the catalogs of others: their parsers, and the functions that run them."""
