"""The comparison of two versions of a table, or of two tables: layout, history, files, partitions, column statistics and rows."""
