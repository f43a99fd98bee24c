"""Procedures: what is done to a table by one call, under Java's names, with Java's arguments and columns: `CALL lake.system.expire_snapshots('db.t')` in SQL,
`call(catalog, "expire_snapshots", table="db.t")` in Python.

A procedure is a function; `procedure.py` makes it one that SQL can find.
"""

from icefloe.procedures.procedure_registry import call as call
from icefloe.procedures.procedure_registry import procedure_named as procedure_named
from icefloe.procedures.procedure_registry import procedure_names as procedure_names
