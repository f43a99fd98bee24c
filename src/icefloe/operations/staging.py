"""Write-audit-publish (WAP): writes to a table are staged under an id, or written to a branch other than `main`, which reads then use too.

The table must allow it with the property `write.wap.enabled`.

    with write_audit_publish(branch="audit"):
        table.append(rows)               # writes to the branch, which is created from main if it does not exist
        table.scan("amount < 0").count() # reads the branch
    table.manage_snapshots().fast_forward("main", "audit").commit()

`manage_snapshots().publish_changes(wap_id)` publishes a staged snapshot; `commit/staged_snapshot.py` finds it by its id.
Spec: Snapshots; Appendix F, Other Fields (`wap.id`).
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icefloe.commit.staged_snapshot import WAP_ID
from icefloe.errors import InvalidInputError
from icefloe.lazy_imports import lazy_module
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import WAP_ENABLED

if TYPE_CHECKING:
    from icefloe.operations import available_engines
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    available_engines = lazy_module("icefloe.operations.available_engines")

# The names of the settings in the engine's session, as in Iceberg's Spark integration.
_ID_SETTING, _BRANCH_SETTING = "spark.wap.id", "spark.wap.branch"


@dataclass(frozen=True, slots=True)
class Staging:
    """The destination of a redirected write: staged under `wap_id`, or written to `branch`; never both. If both are None, the write is not redirected."""

    wap_id: str | None = None
    branch: str | None = None


_NOT_STAGED = Staging()
_STAGING: ContextVar[Staging] = ContextVar("icefloe_write_audit_publish", default=_NOT_STAGED)
_NAMES_BRANCH: ContextVar[bool] = ContextVar("icefloe_write_names_branch", default=False)


@contextmanager
def write_audit_publish(*, wap_id: str | None = None, branch: str | None = None) -> Iterator[None]:
    """Stage all writes of this thread in the `with` block under an id; or redirect its writes and reads of `main` to a branch.

    A write that names a branch explicitly is not redirected to the branch. A staged or redirected write to a table whose property `write.wap.enabled` is not
    true is refused. The settings `spark.wap.id` and `spark.wap.branch` of a Spark session do the same, but have no effect on tables without the property.

    Args:
        wap_id: the id under which writes are staged; None if `branch` is passed.
        branch: the branch to which writes and reads are redirected; the first write creates it from `main` if it does not exist. None if `wap_id` is passed.

    Raises:
        InvalidInputError: both or none of the two arguments are passed, or one is empty.
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
    """Set whether the writes of this thread in the `with` block name their branch explicitly. If they do, even a write to `main` is not redirected."""
    token = _NAMES_BRANCH.set(is_named)
    try:
        yield
    finally:
        _NAMES_BRANCH.reset(token)


def staging_of_write(metadata: TableMetadata, snapshot_properties: Mapping[str, str], branch: str, table_name: str) -> Staging:
    """Return how a write to `branch` is staged or redirected. As in Java, a write that names its branch explicitly is not redirected to another branch.

    Raises:
        InvalidInputError: the write is to be staged under an id and also redirected to a branch; or `write_audit_publish` or the snapshot property `wap.id`
            applies to the write, and the table's property `write.wap.enabled` is not true.
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
    """Return the branch to which reads of `main` are redirected, if the table has it; else None. The caller checks that `write.wap.enabled` is true."""
    branch = _STAGING.get().branch or _setting(_BRANCH_SETTING)
    return branch if branch is not None and branch in metadata.refs else None


def _setting(name: str) -> str | None:
    # A Spark Connect session has settings too, although Spark does not run in this process.
    return (available_engines.engine_named("spark") if "pyspark" in sys.modules else available_engines.IN_PROCESS).setting(name) or None
