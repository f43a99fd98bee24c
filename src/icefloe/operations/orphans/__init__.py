"""The search for orphan files: files in a folder that no snapshot and no metadata of a table references.

Modules: `path_keys.py` compares locations, `referenced_files.py` finds the referenced files, `linked_files.py` the files behind symbolic links,
`path_database.py` compares listed and referenced files on the local disk, and `orphan_search.py` is the search. `icefloe.maintenance` determines what is
deleted and when.
"""
