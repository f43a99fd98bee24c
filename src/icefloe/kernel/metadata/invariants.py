"""Rules that metadata keeps, each a function of its own that yields what breaks it: about one version, and about a step from one version to the next.

They look at ids and the few values in use, never at every snapshot, so that they run at every read and every commit. What single keys may be is in
`document.py`. Floor: kernel.metadata. Spec: Table Metadata Fields; Snapshot References; Sequence Numbers.
"""

from collections.abc import Iterator

from icefloe.errors import InvalidInputError, Problem
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_metadata import TableMetadata

# Clocks of writers may differ a little. JAVA: TableMetadata.ONE_MINUTE.
CLOCK_TOLERANCE_MS = 60_000


def current_schema_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """`current-schema-id` names one of `schemas`."""
    if metadata.schemas.position(metadata.current_schema_id) is None:
        yield Problem(where="$.current-schema-id", what=f"there is no schema {metadata.current_schema_id} in schemas")


def default_spec_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """`default-spec-id` names one of `partition-specs`."""
    if metadata.partition_specs.position(metadata.default_spec_id) is None:
        yield Problem(where="$.default-spec-id", what=f"there is no partition spec {metadata.default_spec_id} in partition-specs")


def default_sort_order_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """`default-sort-order-id` names one of `sort-orders`."""
    if metadata.sort_orders.position(metadata.default_sort_order_id) is None:
        yield Problem(where="$.default-sort-order-id", what=f"there is no sort order {metadata.default_sort_order_id} in sort-orders")


def last_column_id_covers_the_schema(metadata: TableMetadata) -> Iterator[Problem]:
    """No column of the current schema has an id above `last-column-id`: the next new column would get it a second time."""
    schema = metadata.schemas.get(metadata.current_schema_id)
    if schema is not None and schema.highest_field_id > metadata.last_column_id:
        yield Problem(where="$.last-column-id", what=f"is {metadata.last_column_id}, below the field id {schema.highest_field_id} in use")


def current_snapshot_is_there(metadata: TableMetadata) -> Iterator[Problem]:
    """`current-snapshot-id` names one of `snapshots`."""
    if metadata.current_snapshot_id is not None and metadata.snapshots.position(metadata.current_snapshot_id) is None:
        yield Problem(where="$.current-snapshot-id", what=f"there is no snapshot {metadata.current_snapshot_id} in snapshots")


def main_is_the_current_snapshot(metadata: TableMetadata) -> Iterator[Problem]:
    """`refs.main` and `current-snapshot-id` say the same. Spec: Snapshot References."""
    main = metadata.refs.get(MAIN)
    if main is None and metadata.current_snapshot_id is not None:
        yield Problem(where="$.refs", what=f"there is no branch main, and the current snapshot is {metadata.current_snapshot_id}")
    if main is not None and main.snapshot_id != metadata.current_snapshot_id:
        yield Problem(where="$.refs.main", what=f"names snapshot {main.snapshot_id}, and the current one is {metadata.current_snapshot_id}")
    if main is not None and not main.is_branch:
        yield Problem(where="$.refs.main", what="is a tag; main is always a branch")


def references_name_snapshots(metadata: TableMetadata) -> Iterator[Problem]:
    """Every branch and tag names one of `snapshots`."""
    for name, ref in metadata.refs.items():
        if metadata.snapshots.position(ref.snapshot_id) is None:
            yield Problem(where=f"$.refs.{name}", what=f"there is no snapshot {ref.snapshot_id} in snapshots")


def version_2_has_a_uuid(metadata: TableMetadata) -> Iterator[Problem]:
    """From v2 on a table has an identity."""
    if metadata.format_version > 1 and metadata.table_uuid is None:
        yield Problem(where="$.table-uuid", what="is required from format version 2 on; assign one first")


def row_ids_are_below_the_next(metadata: TableMetadata) -> Iterator[Problem]:
    """`next-row-id` is above every id that the current snapshot gave. Spec: Table Metadata Fields (`next-row-id`)."""
    if metadata.next_row_id < 0:
        yield Problem(where="$.next-row-id", what=f"is {metadata.next_row_id}, below 0")
    current = metadata.current_snapshot()
    if current is not None and metadata.format_version > 2:
        end = (current.first_row_id or 0) + (current.added_rows or 0)
        if metadata.next_row_id < end:
            yield Problem(where="$.next-row-id", what=f"is {metadata.next_row_id}, and the current snapshot gave row ids up to {end - 1}")


def numbers_only_grow(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """The counters that ids are taken from never go back, nor does the format version."""
    for key, old, new in (
        ("format-version", before.format_version, after.format_version),
        ("last-sequence-number", before.last_sequence_number, after.last_sequence_number),
        ("last-column-id", before.last_column_id, after.last_column_id),
        ("last-partition-id", before.last_partition_id, after.last_partition_id),
        ("next-row-id", before.next_row_id, after.next_row_id),
    ):
        if new < old:
            yield Problem(where=f"$.{key}", what=f"goes back from {old} to {new}")


def the_uuid_stays(before: TableMetadata, after: TableMetadata) -> Iterator[Problem]:
    """A table keeps its identity; a v1 table without one may be given one."""
    if before.table_uuid is not None and before.table_uuid != after.table_uuid:
        yield Problem(where="$.table-uuid", what=f"changes from {before.table_uuid} to {after.table_uuid}: that is another table")


ALWAYS = (
    current_schema_is_there,
    default_spec_is_there,
    default_sort_order_is_there,
    last_column_id_covers_the_schema,
    current_snapshot_is_there,
    main_is_the_current_snapshot,
    references_name_snapshots,
    version_2_has_a_uuid,
    row_ids_are_below_the_next,
)
BETWEEN_VERSIONS = (numbers_only_grow, the_uuid_stays)


def problems_of(metadata: TableMetadata) -> list[Problem]:
    """What one version breaks; empty where all is well."""
    return [problem for rule in ALWAYS for problem in rule(metadata)]


def check_change(before: TableMetadata | None, after: TableMetadata) -> None:
    """Looks at the version to be written and the step to it.

    Raises:
        InvalidInputError: the updates would break a rule; every one is listed.
    """
    problems = problems_of(after)
    if before is not None:
        problems += [problem for rule in BETWEEN_VERSIONS for problem in rule(before, after)]
    if problems:
        raise InvalidInputError("the change would make metadata that breaks the rules of the format", problems=problems)
