"""Procedures: operations on tables that are called by name, with the names, arguments and result columns of Java's Iceberg.

In SQL: `CALL lake.system.expire_snapshots('db.t')`. In Python: `call(catalog, "expire_snapshots", table="db.t")`. A procedure is written as a function; the
decorator in `procedure.py` turns it into a `Procedure`, with its parameters and result columns for SQL.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.procedures.procedure_registry import call as call
    from icefloe.procedures.procedure_registry import procedure_named as procedure_named
    from icefloe.procedures.procedure_registry import procedure_names as procedure_names
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.procedures.procedure_registry": "call, procedure_named, procedure_names",
        },
    )
