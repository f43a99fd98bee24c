"""The invariants of table metadata, of one version and of the change from one version to the next. Each is a function that yields the violations.

Except for those of the full check, they read only ids and the few values in use, never all snapshots, so that they can run at every read and every commit.
`document_validation.py` has the rules for single keys. Spec: Table Metadata Fields; Snapshot References; Sequence Numbers.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from icefloe.errors import InvalidInputError, Problem
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata

# Clocks of writers may differ a little. JAVA: TableMetadata.ONE_MINUTE.
CLOCK_TOLERANCE_MS = 60_000


def current_schema_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that `current-schema-id` is the id of one of `schemas`."""
    if metadata.schemas.position(metadata.current_schema_id) is None:
        yield Problem(where="$.current-schema-id", what=f"there is no schema {metadata.current_schema_id} in schemas")


def default_spec_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that `default-spec-id` is the id of one of `partition-specs`."""
    if metadata.partition_specs.position(metadata.default_spec_id) is None:
        yield Problem(where="$.default-spec-id", what=f"there is no partition spec {metadata.default_spec_id} in partition-specs")


def default_sort_order_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that `default-sort-order-id` is the id of one of `sort-orders`."""
    if metadata.sort_orders.position(metadata.default_sort_order_id) is None:
        yield Problem(where="$.default-sort-order-id", what=f"there is no sort order {metadata.default_sort_order_id} in sort-orders")


def last_column_id_covers_the_schema(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that no column of the current schema has an id above `last-column-id`, because the next new column would get the same id."""
    schema = metadata.schemas.get(metadata.current_schema_id)
    if schema is not None and schema.highest_field_id > metadata.last_column_id:
        yield Problem(where="$.last-column-id", what=f"is {metadata.last_column_id}, below the field id {schema.highest_field_id} in use")


def current_snapshot_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that `current-snapshot-id` is the id of one of `snapshots`."""
    if metadata.current_snapshot_id is not None and metadata.snapshots.position(metadata.current_snapshot_id) is None:
        yield Problem(where="$.current-snapshot-id", what=f"there is no snapshot {metadata.current_snapshot_id} in snapshots")


def main_is_the_current_snapshot(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that `refs.main` and `current-snapshot-id` refer to the same snapshot. Spec: Snapshot References."""
    main = metadata.refs.get(MAIN)
    if main is None and metadata.current_snapshot_id is not None:
        yield Problem(where="$.refs", what=f"there is no branch main, and the current snapshot is {metadata.current_snapshot_id}")
    if main is not None and main.snapshot_id != metadata.current_snapshot_id:
        yield Problem(where="$.refs.main", what=f"names snapshot {main.snapshot_id}, and the current one is {metadata.current_snapshot_id}")
    if main is not None and not main.is_branch:
        yield Problem(where="$.refs.main", what="is a tag; main is always a branch")


def references_name_snapshots(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that every branch and tag refers to one of `snapshots`."""
    for name, ref in metadata.refs.items():
        if metadata.snapshots.position(ref.snapshot_id) is None:
            yield Problem(where=f"$.refs.{name}", what=f"there is no snapshot {ref.snapshot_id} in snapshots")


def version_2_has_a_uuid(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that a table of version 2 or above has a uuid."""
    if metadata.format_version > 1 and metadata.table_uuid is None:
        yield Problem(where="$.table-uuid", what="is required from format version 2 on; assign one first")


def row_ids_are_below_the_next(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that `next-row-id` is above every row id of the current snapshot. Spec: Table Metadata Fields (`next-row-id`)."""
    current = metadata.current_snapshot()
    if current is not None:
        yield from _row_id_problems(metadata, current)


def last_sequence_number_covers_the_current_snapshot(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that the current snapshot's sequence number is not above `last-sequence-number`. Spec: Sequence Numbers."""
    current = metadata.current_snapshot()
    if current is not None:
        yield from _sequence_number_problems(metadata, current)


def the_logs_end_in_order(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that the last entry of each log is neither before its predecessor nor after the last change. JAVA: TableMetadata refuses such a file."""
    for key, log in (("snapshot-log", metadata.snapshot_log), ("metadata-log", metadata.metadata_log)):
        times = [entry.timestamp_ms for entry in log[-2:]]
        yield from _order_problems(f"$.{key}", [*times, metadata.last_updated_ms] if times else [])


def no_snapshot_has_two_statistics_files(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that a snapshot has at most one file of each kind of statistics. Spec: Partition Statistics; REST catalog, SetStatistics."""
    for key, files in (("statistics", metadata.statistics), ("partition-statistics", metadata.partition_statistics)):
        if len(files.ids()) < len(files):
            yield Problem(where=f"$.{key}", what=f"has {len(files)} files for {len(files.ids())} snapshots; a snapshot has one")


def every_snapshot_was_numbered_by_the_table(metadata: TableMetadata) -> Iterator[Problem]:
    """Check the sequence number and the row ids of every snapshot, not only of the current one. Decodes all snapshots."""
    for position, snapshot in enumerate(metadata.snapshots):
        where = f"$.snapshots[{position}]"
        yield from _sequence_number_problems(metadata, snapshot, where)
        yield from _row_id_problems(metadata, snapshot, where)
        if (snapshot.first_row_id is None) != (snapshot.added_rows is None):
            yield Problem(where=where, what="has one of first-row-id and added-rows; they go together")
        if snapshot.manifest_list is None and snapshot.manifest_paths is None:
            yield Problem(where=where, what="has neither manifest-list nor manifests")


def the_snapshot_log_is_in_order(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that the times of the snapshot log ascend. Decodes the whole log. Spec: Table Metadata Fields (`snapshot-log`)."""
    yield from _order_problems("$.snapshot-log", [entry.timestamp_ms for entry in metadata.snapshot_log])


def statistics_are_of_known_snapshots(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that every statistics file belongs to one of `snapshots`. Spec: Table Statistics."""
    for key, files in (("statistics", metadata.statistics), ("partition-statistics", metadata.partition_statistics)):
        for snapshot_id in files.ids() - metadata.snapshots.ids():
            yield Problem(where=f"$.{key}", what=f"has a file of snapshot {snapshot_id}, which is not in snapshots")


def key_ids_are_known(metadata: TableMetadata) -> Iterator[Problem]:
    """Check that every key of an encrypted manifest list is one of `encryption-keys`. Spec: Snapshots (`key-id`)."""
    key_ids = {key.key_id for key in metadata.encryption_keys}
    for position, snapshot in enumerate(metadata.snapshots):
        if snapshot.key_id is not None and snapshot.key_id not in key_ids:
            yield Problem(where=f"$.snapshots[{position}].key-id", what=f"there is no key {snapshot.key_id!r} in encryption-keys")


def numbers_only_grow(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """Check that neither the format version nor a counter of ids decreases."""
    for key, old, new in (
        ("format-version", before.format_version, after.format_version),
        ("last-sequence-number", before.last_sequence_number, after.last_sequence_number),
        ("last-column-id", before.last_column_id, after.last_column_id),
        ("last-partition-id", before.last_partition_id, after.last_partition_id),
        ("next-row-id", before.next_row_id, after.next_row_id),
    ):
        if new < old:
            yield Problem(where=f"$.{key}", what=f"decreases from {old} to {new}")


def the_uuid_stays(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """Check that the table keeps its uuid. A version 1 table without a uuid may get one."""
    if before.table_uuid is not None and before.table_uuid != after.table_uuid:
        yield Problem(where="$.table-uuid", what=f"changes from {before.table_uuid} to {after.table_uuid}: that is another table")


def new_snapshots_are_numbered_on(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """Check that a new snapshot has a new sequence number and new row ids. Spec: Sequence Numbers; Snapshot Row IDs.

    The rules of the previous format version apply, because a commit may first add a snapshot and then upgrade the table.
    """
    if after.snapshots is before.snapshots:
        return
    for position in after.snapshots.only_here(before.snapshots):
        snapshot = after.snapshots[position]
        if before.snapshots.position(snapshot.snapshot_id) is not None:
            continue
        where = f"$.snapshots (snapshot {snapshot.snapshot_id})"
        yield from _sequence_number_problems(after, snapshot, where)
        yield from _row_id_problems(after, snapshot, where)
        is_given = before.format_version > 1 and snapshot.sequence_number <= before.last_sequence_number
        if is_given and snapshot.parent_snapshot_id is not None:  # see `snapshot_updates.has_stale_sequence_number`
            yield Problem(where=where, what=f"has sequence number {snapshot.sequence_number}, which was given before")
        if before.format_version < ROW_LINEAGE_VERSION:
            continue
        if snapshot.first_row_id is None or snapshot.added_rows is None:
            yield Problem(where=where, what="has no first-row-id or no added-rows")
        elif snapshot.first_row_id < before.next_row_id:
            yield Problem(where=where, what=f"gives row ids from {snapshot.first_row_id} on, which were given before")


def snapshots_never_change(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """Check that existing snapshots do not change. Entries that share their bytes with the previous version are skipped."""
    if after.snapshots is before.snapshots:
        return
    for position in after.snapshots.only_here(before.snapshots):
        snapshot = after.snapshots[position]
        previous = before.snapshots.get(snapshot.snapshot_id)
        if previous is not None and previous != snapshot:
            yield Problem(where=f"$.snapshots[{position}]", what=f"changes snapshot {snapshot.snapshot_id}, which is immutable")


def statistics_go_with_their_snapshots(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """Check that no statistics file is added for an unknown snapshot, and that no statistics file remains after its snapshot is removed."""
    has_removed = after.snapshots is not before.snapshots and before.snapshots.only_here(after.snapshots)
    removed_ids = before.snapshots.ids() - after.snapshots.ids() if has_removed else set()
    for key, old, new in (
        ("statistics", before.statistics, after.statistics),
        ("partition-statistics", before.partition_statistics, after.partition_statistics),
    ):
        unknown_ids = (new.ids() - old.ids()) - after.snapshots.ids() if len(new) else set()
        for snapshot_id in sorted(unknown_ids | (new.ids() & removed_ids)):
            yield Problem(where=f"$.{key}", what=f"has a file of snapshot {snapshot_id}, which is not in snapshots")


def _row_id_problems(metadata: TableMetadata, snapshot: Snapshot, where: str = "$.next-row-id") -> Iterator[Problem]:
    if metadata.format_version < ROW_LINEAGE_VERSION or snapshot.first_row_id is None:
        return
    if snapshot.first_row_id < 0 or (snapshot.added_rows or 0) < 0:
        yield Problem(
            where=where, what=f"snapshot {snapshot.snapshot_id} gives {snapshot.added_rows} row ids from {snapshot.first_row_id} on"
        )
    end = snapshot.first_row_id + (snapshot.added_rows or 0)
    if metadata.next_row_id < end:
        yield Problem(
            where=where, what=f"snapshot {snapshot.snapshot_id} gives row ids below {end}, and next-row-id is {metadata.next_row_id}"
        )


def _sequence_number_problems(metadata: TableMetadata, snapshot: Snapshot, where: str = "$.last-sequence-number") -> Iterator[Problem]:
    if metadata.format_version > 1 and snapshot.sequence_number > metadata.last_sequence_number:
        yield Problem(
            where=where,
            what=f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, and the last is {metadata.last_sequence_number}",
        )


def _order_problems(where: str, times_ms: Sequence[int]) -> Iterator[Problem]:
    for earlier, later in pairwise(times_ms):
        if later < earlier - CLOCK_TOLERANCE_MS:
            yield Problem(where=where, what=f"falls from {earlier} ms to {later} ms, by more than a minute")


# The invariants of which a violation prevents reading a file.
ALWAYS = (
    current_schema_is_there,
    default_spec_is_there,
    default_sort_order_is_there,
    last_column_id_covers_the_schema,
    current_snapshot_is_there,
    main_is_the_current_snapshot,
    references_name_snapshots,
    version_2_has_a_uuid,
)
# Further invariants that are checked before a version is written, and by the full check. A table that violates one can still be read.
WHEN_WRITTEN = (
    row_ids_are_below_the_next,
    last_sequence_number_covers_the_current_snapshot,
    the_logs_end_in_order,
    no_snapshot_has_two_statistics_files,
)
# The invariants that only the full check tests, because each needs every entry of a list.
IN_FULL = (
    every_snapshot_was_numbered_by_the_table,
    the_snapshot_log_is_in_order,
    statistics_are_of_known_snapshots,
    key_ids_are_known,
)
BETWEEN_VERSIONS = (
    numbers_only_grow,
    the_uuid_stays,
    new_snapshots_are_numbered_on,
    snapshots_never_change,
    statistics_go_with_their_snapshots,
)


def problems_of(metadata: TableMetadata) -> list[Problem]:
    """Return the violations that prevent reading a version."""
    return [problem for rule in ALWAYS for problem in rule(metadata)]


def every_problem_of(metadata: TableMetadata) -> list[Problem]:
    """Return every violation of one version. Every entry is decoded.

    Raises:
        MetadataFormatError: an entry cannot be decoded.
    """
    return [problem for rule in (*ALWAYS, *WHEN_WRITTEN, *IN_FULL) for problem in rule(metadata)]


def check_change(before: TableMetadata | None, after: TableMetadata) -> None:
    """Check a version before it is written, and the change from the previous version.

    Args:
        before: The version that is replaced; None for a new table.
        after: The version to be written.

    Raises:
        InvalidInputError: the updates would violate an invariant; the error lists every violation.
    """
    problems = problems_of(after) or [problem for rule in WHEN_WRITTEN for problem in rule(after)]
    if before is not None:
        problems += [problem for rule in BETWEEN_VERSIONS for problem in rule(before, after)]
    if problems:
        raise InvalidInputError("the change would make metadata that violates the rules of the format", problems=problems)
