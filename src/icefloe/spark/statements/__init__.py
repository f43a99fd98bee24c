"""SQL statements that Spark does not parse, or parses and cannot run on the catalog of another vendor: parsers and what they run."""
