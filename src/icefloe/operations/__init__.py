"""What is done with one table: scans, writes of rows, changes of metadata and of files, expiry of snapshots, and the commit loop.

`loaded_table.py` has the value that all tools work on; `icefloe.table` is the public table above them.
"""
