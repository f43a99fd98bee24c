"""`RefMutations`: the changes of a table's branches and tags, and of which snapshot they are at.

Spec: Snapshot References.
"""

from icefloe.table.changes.manage_snapshots import ManageSnapshots
from icefloe.table.changes.mutation_context import TableMutations


class RefMutations(TableMutations):
    """Those of a `Table` are a commit of their own, those of a `Transaction` a part of one."""

    def manage_snapshots(self) -> ManageSnapshots:
        """Branches, tags, rollback and cherry-pick, committed together: `with table.manage_snapshots() as m: m.create_tag(tag_name="v1")`."""
        return ManageSnapshots(self._start(), self._commit)
