"""Puts right what is wrong in stored tables: a plan first, then one commit, and one command that undoes it. A public package.

    from icefloe.repair import plan, undo

`plan(table)` or `plan(catalog, "db.t")` returns a plan, also of a table that cannot be loaded: `print` it, and commit it with `.apply()`.
What is wrong is found by `icefloe.checks`.
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
