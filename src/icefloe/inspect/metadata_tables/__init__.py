"""The metadata tables: what a table's metadata and manifests say, as Arrow tables with the names and columns of Java's. `registry.py` is the door.

Values made to be looked at by people are the modules beside this room.
"""
