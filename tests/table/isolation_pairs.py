"""Every pair of concurrent operations: one reads a table and is planned, another commits, then the planned one is committed or refused.

`test_isolation_table.py` compares the outcomes with the table in docs/commits.md; the oracle test runs the same pairs with the Java implementation. The table
is partitioned by `name`: the data files `old` and `other` are in partition `a`, `elsewhere` is in `b`. Every operation changes partition `a`.
"""

import itertools
import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from tests.commit.made_up_table import BY_NAME, MadeUpTable, equality_deletes, position_deletes, rows, vector

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action
from icefloe.commit.change_properties import property_requirements, set_property_updates
from icefloe.commit.metadata_change import MetadataChange
from icefloe.errors import CommitConflictError, CommitInvalidatedError, IcefloeError
from icefloe.operations.changes.update_partitioning import UpdateSpec
from icefloe.operations.changes.update_schema import UpdateSchema
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.pending_change import MutationContext
from icefloe.operations.table_handle import TableHandle
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue, EqualTo
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.layout_updates import SetDefaultSpec
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.requirement import AssertTableUUID
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshots
from icefloe.spec.types import LongType

LEVELS = ("serializable", "snapshot")
IN_A = EqualTo("name", "a")
OLD, OTHER, ELSEWHERE = rows("old", name="a"), rows("other", name="a"), rows("elsewhere", name="b")


class _Store:
    name = "pairs"


class _Ids:
    def __init__(self) -> None:
        self._random = random.Random(4)

    def uuid(self) -> str:
        return f"{self._random.getrandbits(64):x}"

    def snapshot_id(self) -> int:
        return self._random.getrandbits(62)


_IDS = _Ids()


@dataclass(frozen=True)
class Planning:
    """The state for planning an operation; `who` distinguishes its added files from those of the other operation."""

    table: MadeUpTable
    level: str
    who: str
    taken: list[Action]

    @property
    def update(self) -> UpdateSnapshot:
        handle = TableHandle(identifier=("db", "t"), store=_Store(), io=None, ids=_IDS)  # type: ignore[arg-type]
        return UpdateSnapshot(MutationContext(handle=handle, metadata=self.table.metadata), self.taken.append)

    @property
    def since(self) -> int:
        snapshot = self.table.metadata.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    @property
    def is_serializable(self) -> bool:
        return self.level == "serializable"

    def new(self) -> DataFile:
        return rows(f"new-{self.who}", name="a")


def _append(plan: Planning, kind: str) -> None:
    getattr(plan.update, kind)().append_file(plan.new()).commit()


def _checked(plan: Planning, change: Any, data: str, deletes: str) -> Any:
    change.validate_from_snapshot(plan.since)
    if plan.is_serializable:
        getattr(change, data)()
    getattr(change, deletes)()
    return change


def _overwrite_files(plan: Planning) -> None:
    change = plan.update.overwrite().delete_file(OLD).add_file(plan.new()).conflict_detection_filter(IN_A)
    _checked(plan, change, "validate_no_conflicting_data", "validate_no_conflicting_deletes").commit()


def _overwrite_filter(plan: Planning) -> None:
    change = plan.update.overwrite().overwrite_by_row_filter(IN_A).add_file(plan.new())
    _checked(plan, change, "validate_no_conflicting_data", "validate_no_conflicting_deletes").commit()


def _replace_partitions(plan: Planning) -> None:
    change = plan.update.replace_partitions().add_file(plan.new())
    _checked(plan, change, "validate_no_conflicting_data", "validate_no_conflicting_deletes").commit()


def _delete_filter(plan: Planning) -> None:
    plan.update.delete_files().delete_from_row_filter(IN_A).commit()


def _delete_file(plan: Planning) -> None:
    plan.update.delete_files().delete_file(OLD.file_path).validate_files_exist().commit()


def _row_delta(plan: Planning) -> Any:
    change = plan.update.row_delta().conflict_detection_filter(IN_A)
    return _checked(plan, change, "validate_no_conflicting_data_files", "validate_no_conflicting_delete_files")


def _delta_data(plan: Planning) -> None:
    _row_delta(plan).add_rows(plan.new()).commit()


def _delta_positions(plan: Planning) -> None:
    deletes = (
        vector(f"marks-{plan.who}", OLD)
        if plan.table.metadata.format_version > 2
        else position_deletes(f"marks-{plan.who}", OLD, target="old")
    )
    _row_delta(plan).add_deletes(deletes).validate_data_files_exist(["old"]).validate_deleted_files().commit()


def _delta_keys(plan: Planning) -> None:
    _row_delta(plan).add_deletes(equality_deletes(f"keys-{plan.who}", OLD)).commit()


def _rewrite(plan: Planning, *, keeps_age: bool) -> None:
    change = plan.update.rewrite_files().delete_file(OLD).add_file(plan.new()).validate_from_snapshot(plan.since)
    (change.data_sequence_number(1) if keeps_age else change).commit()


def _properties(plan: Planning) -> None:
    key = f"key-{plan.who}"
    plan.taken.append(
        MetadataChange(lambda base: set_property_updates(base, {key: "1"}, "6a1d"), property_requirements(plan.table.metadata))
    )


def _schema(plan: Planning) -> None:
    UpdateSchema(plan.table.metadata, plan.taken.append).add_column(f"column_{plan.who}", LongType()).commit()


def _spec(plan: Planning) -> None:
    UpdateSpec(plan.table.metadata, plan.taken.append).add_field("id", "bucket[4]", f"bucket_{plan.who}").commit()


def _expire(plan: Planning) -> None:
    """Expire the first snapshot. As the first of a pair, expire all snapshots at the time of the plan, and one more."""
    gone = [101]
    if plan.who == "first":
        contexts = [plan.table.context() for _ in range(2)]
        plan.taken.extend(Append([rows(f"unrelated-{index}", name="b")], context) for index, context in enumerate(contexts))
        gone += [plan.since, contexts[0].snapshot_id]
    plan.taken.append(MetadataChange(lambda _: (RemoveSnapshots(tuple(gone)),), (AssertTableUUID(plan.table.metadata.table_uuid),)))


# In the order of the table in docs/commits.md, with its names as keys.
OPERATIONS: dict[str, Callable[[Planning], None]] = {
    "fast append": lambda plan: _append(plan, "fast_append"),
    "merge append": lambda plan: _append(plan, "merge_append"),
    "overwrite by files": _overwrite_files,
    "overwrite by filter": _overwrite_filter,
    "replace partitions": _replace_partitions,
    "delete by filter": _delete_filter,
    "delete files": _delete_file,
    "row delta: rows": _delta_data,
    "row delta: positions": _delta_positions,
    "row delta: keys": _delta_keys,
    "rewrite": lambda plan: _rewrite(plan, keeps_age=False),
    "rewrite, age kept": lambda plan: _rewrite(plan, keeps_age=True),
    "properties": _properties,
    "schema": _schema,
    "partition spec": _spec,
    "expire": _expire,
}
# The operations that are planned with the checks of an isolation level.
CHECKED = tuple(name for name in OPERATIONS if name.startswith(("overwrite", "replace", "row delta")))
# The start of the rule in an error, and its short form in the table.
_REASONS = {
    "no added data files": "new rows",
    "no removed data files": "rows gone",
    "no added deletes": "new deletes",
    "no added position deletes": "new deletes",
    "the data files that this commit relies on": "file gone",
    "current schema": "schema",
    "last column id": "schema",
    "last partition field id": "spec",
    "default partition spec": "spec",
    "snapshot ": "expired",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a pair. `refused` is the short reason; empty where both are committed. `files` are the live data files, each with its deletes."""

    refused: str
    files: tuple[tuple[str, tuple[str, ...]], ...]
    error: IcefloeError | None = None


def base_table(version: int) -> MadeUpTable:
    made = MadeUpTable(version)
    made.metadata = apply_updates(made.metadata, [SetDefaultSpec(BY_NAME)], 0)
    made.commit(Append([OLD, ELSEWHERE], made.context()))
    made.commit(Append([OTHER], made.context()))
    return made


def run_pair(base: MadeUpTable, planned: str, first: str, level: str) -> Outcome:
    """Return the outcome of `planned` where `first` is committed after it was planned. `base` is not changed."""
    table = copy(base)
    table.files = dict(base.files)
    table._snapshot_ids = itertools.count(301)
    action = _planned(table, planned, level, "second")
    for winner in _planned(table, first, level, "first"):
        _commit(table, winner)
    try:
        for one in action:
            _commit(table, one)
    except (CommitInvalidatedError, CommitConflictError) as error:
        return Outcome(_reason(error), live(table), error)
    return Outcome("", live(table))


def _planned(table: MadeUpTable, name: str, level: str, who: str) -> list[Action]:
    taken: list[Action] = []
    OPERATIONS[name](Planning(table, level, who, taken))
    return taken


def _commit(table: MadeUpTable, action: Action) -> None:
    table.now_ms += 1
    attempt = action.attempt(table.metadata, number=0, now_ms=table.now_ms, read=table.read)
    if attempt is None:
        return  # the action has nothing to commit
    table.files.update((file.location, file.content) for file in (*attempt.manifest_files, *attempt.manifest_lists))
    for requirement in attempt.requirements:
        requirement.check(table.metadata)
    table.metadata = apply_updates(table.metadata, attempt.updates, table.now_ms)


def _reason(error: IcefloeError) -> str:
    rule = error.problems[0].what
    if rule.endswith("is live on main"):
        return "file gone"
    return next(short for start, short in _REASONS.items() if rule.startswith(start))


def live(table: MadeUpTable) -> tuple[tuple[str, tuple[str, ...]], ...]:
    plan = plan_scan(table.metadata, table.metadata.current_snapshot(), AlwaysTrue(), table.read)
    return tuple(sorted((task.file.file_path, tuple(sorted(file.file_path for file in task.delete_files))) for task in plan.tasks()))
