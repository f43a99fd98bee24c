"""Write-audit-publish: where the writes of a table are staged, and which branch is read of it.

If a table allows it, its writes are staged under an id, or written to a branch other than `main`.

    with write_audit_publish(branch="audit"):
        table.append(rows)               # to the branch, which is created from main if it does not exist
        table.scan("amount < 0").count() # of the branch
    table.manage_snapshots().fast_forward("main", "audit").commit()

A staged snapshot is published with `manage_snapshots().publish_changes(wap_id)`; its properties are `commit/staged_snapshot.py`.
Spec: Snapshots; Appendix F, Other Fields (`wap.id`).
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from icefloe.commit.staged_snapshot import WAP_ID
from icefloe.errors import InvalidInputError
from icefloe.operations.available_engines import IN_PROCESS, engine_named
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import WAP_ENABLED

# Settings of the running engine; the names are those of Iceberg in Spark.
_ID_SETTING, _BRANCH_SETTING = "spark.wap.id", "spark.wap.branch"


@dataclass(frozen=True, slots=True)
class Staging:
    """The destination of writes: staged under `wap_id`, to `branch`, or neither. Never both."""

    wap_id: str | None = None
    branch: str | None = None


_NOT_STAGED = Staging()
_STAGING: ContextVar[Staging] = ContextVar("icefloe_write_audit_publish", default=_NOT_STAGED)
_NAMES_BRANCH: ContextVar[bool] = ContextVar("icefloe_write_names_branch", default=False)


@contextmanager
def write_audit_publish(*, wap_id: str | None = None, branch: str | None = None) -> Iterator[None]:
    """Stage every write of the block, in this thread, under an id; or send every write to `main` to a branch, and read from it.

    A write that names another branch is written to that branch. Only tables whose property `write.wap.enabled` is true take such writes. In a Spark
    session its settings `spark.wap.id` and `spark.wap.branch` do the same.

    Args:
        wap_id: the id; or
        branch: the branch, which is created from `main` if it does not exist.

    Raises:
        InvalidInputError: not exactly one of the two is given.
    """
    if (wap_id is None) == (branch is None) or "" in (wap_id, branch):
        raise InvalidInputError(
            f"writes are staged under one id or written to one branch, and the id is {wap_id!r} and the branch {branch!r}",
            next_step="pass one of them",
        )
    token = _STAGING.set(Staging(wap_id, branch))
    try:
        yield
    finally:
        _STAGING.reset(token)


@contextmanager
def branch_named(*, is_named: bool) -> Iterator[None]:
    """Set, for the block and this thread, whether writes name their branch: an explicit `main` is not redirected to the branch for writes."""
    token = _NAMES_BRANCH.set(is_named)
    try:
        yield
    finally:
        _NAMES_BRANCH.reset(token)


def staging_of_write(metadata: TableMetadata, snapshot_properties: Mapping[str, str], branch: str, table_name: str) -> Staging:
    """Return where a write to `branch` is written. A branch that the write names has precedence over the one that is set, as in Java.

    Raises:
        InvalidInputError: both an id and a branch are set and the write names no branch, or the table does not take staged writes.
    """
    staging, wap_id = _STAGING.get(), snapshot_properties.get(WAP_ID)
    is_named = branch != MAIN or _NAMES_BRANCH.get()
    if is_named:
        staging = replace(staging, branch=None)
    if not WAP_ENABLED.read(metadata.properties):
        if staging == _NOT_STAGED and wap_id is None:
            return _NOT_STAGED
        destination = f"to the branch {staging.branch!r}" if staging.branch else f"under the wap id {wap_id or staging.wap_id!r}"
        raise InvalidInputError(
            f"this write was to be staged {destination}, and {table_name} does not take staged writes: its property {WAP_ENABLED.name} is not true",
            table=table_name,
            next_step=f'allow them with table.set_properties({{"{WAP_ENABLED.name}": "true"}}), or write without staging',
        )
    staging = Staging(
        wap_id or staging.wap_id or _setting(_ID_SETTING), staging.branch or (None if is_named else _setting(_BRANCH_SETTING))
    )
    if staging.wap_id is not None and staging.branch is not None:
        raise InvalidInputError(
            f"a write is staged under an id or written to a branch, and both are set: the wap id {staging.wap_id!r} and the branch {staging.branch!r}",
            table=table_name,
            next_step="unset one of them",
        )
    return staging


def branch_to_read(metadata: TableMetadata) -> str | None:
    """Return the branch that is read of a table that takes staged writes, if none is named: the one that writes are sent to, if it exists."""
    branch = _STAGING.get().branch or _setting(_BRANCH_SETTING)
    return branch if branch is not None and branch in metadata.refs else None


def _setting(name: str) -> str | None:
    # A client of Spark Connect has settings although it is not an engine that runs in this process.
    return (engine_named("spark") if "pyspark" in sys.modules else IN_PROCESS).setting(name) or None
