"""Operations on one table: scans, writes of rows, changes of metadata and of files, expiry of snapshots, and the commit loop.

`loaded_table.py` has the table object that these operations work on; `icefloe.table` builds the public `Table` on it.
"""
