"""The search for orphan files: files of a folder that no snapshot and no metadata of a table reaches.

Modules: `path_keys.py` compares locations, `referenced_files.py` has the files that are reached, `linked_files.py` those behind symbolic links,
`path_database.py` compares both on the local disk, and `orphan_search.py` is the search. What is deleted and when is decided by `icefloe.maintenance`.
"""
