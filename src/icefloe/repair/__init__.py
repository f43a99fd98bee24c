"""Repair of stored tables that violate the specification: a plan first, then one commit, and one command that undoes it. A public package.

    from icefloe.repair import plan, undo

`plan(table)` or `plan(catalog, "db.t")` returns a plan, even for a table that cannot be loaded. `print` the plan, and commit it with `.apply()`.
`icefloe.checks` finds the violations.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.repair.repairs import plan as plan
    from icefloe.repair.repairs import undo as undo
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.repair.repairs": "plan, undo",
        },
    )
