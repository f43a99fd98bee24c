"""Write, audit, publish as a writer asks for it: where a table allows it, its writes are staged under an id, or go to a branch that is not `main`.

    with write_audit_publish(branch="audit"):
        table.append(rows)               # to the branch, which is made from main where it is not there
        table.scan("amount < 0").count() # of the branch
    table.manage_snapshots().fast_forward("main", "audit").commit()

A staged snapshot is published with `manage_snapshots().publish_changes(wap_id)`; what is written down is `kernel/commit/staged_snapshot.py`.
Spec: Appendix F, Other Fields (`wap.id`).
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.staged_snapshot import WAP_ID
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_properties import WAP_ENABLED
from icefloe.table.find_engine import IN_PROCESS, engine_named

# Settings of the running engine, under the names that Spark's users know.
_ID_SETTING, _BRANCH_SETTING = "spark.wap.id", "spark.wap.branch"


@dataclass(frozen=True, slots=True)
class Staging:
    """Where writes go: staged under `wap_id`, to `branch`, or neither. Never both."""

    wap_id: str | None = None
    branch: str | None = None


_NOT_STAGED = Staging()
_ASKED: ContextVar[Staging] = ContextVar("icefloe_write_audit_publish", default=_NOT_STAGED)
_NAMES_BRANCH: ContextVar[bool] = ContextVar("icefloe_write_names_branch", default=False)


@contextmanager
def write_audit_publish(*, wap_id: str | None = None, branch: str | None = None) -> Iterator[None]:
    """Within the block, in this thread: every write is staged under `wap_id`, or every write to `main` goes to `branch`, and reads come from it.

    A write that names another branch goes to that branch. Only tables whose property `write.wap.enabled` is true take such writes. In a Spark session its
    settings `spark.wap.id` and `spark.wap.branch` do the same.

    Raises:
        InvalidInputError: not exactly one of the two is given.
    """
    if (wap_id is None) == (branch is None) or "" in (wap_id, branch):
        raise InvalidInputError(
            f"writes are staged under one id or go to one branch, and the id is {wap_id!r} and the branch {branch!r}",
            next_step="pass one of them",
        )
    token = _ASKED.set(Staging(wap_id, branch))
    try:
        yield
    finally:
        _ASKED.reset(token)


@contextmanager
def branch_named(*, is_named: bool) -> Iterator[None]:
    """Within the block, in this thread: whether writes name their branch themselves, so that `main` means `main` also where a branch for writes is set."""
    token = _NAMES_BRANCH.set(is_named)
    try:
        yield
    finally:
        _NAMES_BRANCH.reset(token)


def staging_of_write(metadata: TableMetadata, snapshot_properties: Mapping[str, str], branch: str, table_name: str) -> Staging:
    """Where a write that its caller sends to `branch` goes. A branch that the write names comes before the one that is set, as in Java.

    Raises:
        InvalidInputError: both an id and a branch are set and the write names no branch, or the table does not take staged writes.
    """
    asked, given_id = _ASKED.get(), snapshot_properties.get(WAP_ID)
    is_named = branch != MAIN or _NAMES_BRANCH.get()
    if is_named:
        asked = replace(asked, branch=None)
    if not WAP_ENABLED.read(metadata.properties):
        if asked == _NOT_STAGED and given_id is None:
            return _NOT_STAGED
        wanted = f"to the branch {asked.branch!r}" if asked.branch else f"under the wap id {given_id or asked.wap_id!r}"
        raise InvalidInputError(
            f"this write was to be staged {wanted}, and {table_name} does not take staged writes: its property {WAP_ENABLED.name} is not true",
            table=table_name,
            next_step=f'allow them with table.set_properties({{"{WAP_ENABLED.name}": "true"}}), or write without staging',
        )
    found = Staging(given_id or asked.wap_id or _setting(_ID_SETTING), asked.branch or (None if is_named else _setting(_BRANCH_SETTING)))
    if found.wap_id is not None and found.branch is not None:
        raise InvalidInputError(
            f"a write is staged under an id or goes to a branch, and both are set: the wap id {found.wap_id!r} and the branch {found.branch!r}",
            table=table_name,
            next_step="unset one of them",
        )
    return found


def branch_to_read(metadata: TableMetadata) -> str | None:
    """The branch that reads of the table come from where none is named: the one that writes go to, if it is there."""
    if not WAP_ENABLED.read(metadata.properties):
        return None
    branch = _ASKED.get().branch or _setting(_BRANCH_SETTING)
    return branch if branch is not None and branch in metadata.refs else None


def _setting(name: str) -> str | None:
    # A client of Spark Connect has settings, and is no engine that runs in this process.
    return (engine_named("spark") if "pyspark" in sys.modules else IN_PROCESS).setting(name) or None
