"""`TableSelection`: a table with the state (snapshot, branch, tag or time) or the metadata table that a query selects.

The name in SQL, a time travel clause or options of a read select them. If a table exists whose name looks like a selector, the name means this table.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError, NoSuchNamespaceError, NoSuchTableError
from icefloe.formatting import short_text
from icefloe.metadata_tables.metadata_table_registry import METADATA_TABLES
from icefloe.operations.data_scan import DataScan
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.table import Table

_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_SELECTOR = re.compile(r"(?P<kind>branch|tag|snapshot_id|at_timestamp)_(?P<value>.+)", re.IGNORECASE)

# Options of a read that select a range of snapshots.
RANGE_OPTIONS = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
SELECTING_OPTIONS = {"snapshot-id": "snapshot_id", "branch": "branch", "tag": "tag", "as-of-timestamp": "as_of_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSelection:
    """A table and the state of it that is read or written; by default its current snapshot.

    Attributes:
        table: The table.
        branch: The branch that is read or written.
        tag: The tag that is read.
        snapshot_id: The snapshot that is read.
        as_of_ms: The time whose current snapshot is read, in milliseconds since 1970-01-01 UTC.
        metadata_table: The metadata table that is read, a name in `METADATA_TABLES`; None for the rows of the table.
        appended_after: The id of a snapshot; if set, only rows that were appended after it are read.
    """

    table: Table
    branch: str | None = None
    tag: str | None = None
    snapshot_id: int | None = None
    as_of_ms: int | None = None
    metadata_table: str | None = None
    appended_after: int | None = None

    @property
    def is_past(self) -> bool:
        """Whether the selection is read-only, because it is of a tag, a snapshot or a time."""
        return self.tag is not None or self.snapshot_id is not None or self.as_of_ms is not None

    @property
    def is_part(self) -> bool:
        """Whether the selection is not the whole table in its current state, but of a branch, tag, snapshot, time or metadata table."""
        return self.is_past or self.branch is not None or self.metadata_table is not None

    @property
    def write_branch(self) -> str:
        """The branch that a write commits to; `main` if no branch is selected."""
        return self.branch or MAIN

    def scan(self) -> DataScan:
        """Return a scan of the selected state.

        Raises:
            NoSuchSnapshotError: The snapshot, branch or tag does not exist.
        """
        scan = self.table.scan(snapshot_id=self.snapshot_id)
        ref = self.branch or self.tag
        if ref is not None:
            scan = scan.use_ref(ref)
        scan = scan if self.as_of_ms is None else scan.as_of(self.as_of_ms)
        return scan if self.appended_after is None else scan.appended_after(self.appended_after)

    def selected_snapshot_id(self) -> int | None:
        """Return the id of the selected snapshot; None if none is selected, or the selected branch has no snapshot. Raises the errors of `scan`."""
        if not self.is_past and self.branch is None:
            return None
        snapshot = self.scan().snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    def text(self) -> str:
        """Return a text that is different for each selection of the same table, for keys of caches."""
        # Names are quoted to distinguish a branch `None` from no branch, and a `/` in a name from the separator.
        return repr((self.branch, self.tag, self.snapshot_id, self.as_of_ms, self.metadata_table, self.appended_after))


def shown_in(catalog_name: str, table: Table) -> Table:
    """Return a table under the name that statements have for its catalog, which is in errors, EXPLAIN and Spark's UI then."""
    handle = replace(table.handle, shown_catalog=catalog_name)
    return Table(handle, LoadedMetadata(metadata=table.metadata, location=table.metadata_location))


def select(catalog: Catalog, name: Sequence[str], catalog_name: str) -> TableSelection:
    """Resolve the name of a table in SQL, with an optional selector (`branch_b`) and metadata table (`files`) at its end.

    Args:
        catalog: The catalog.
        name: The namespace and the table's name, optionally followed by a selector and a metadata table: `db.t.branch_b.files`.
        catalog_name: The name that statements have for the catalog.

    Raises:
        NoSuchTableError: The table does not exist; the name may be a view.
        NoSuchSnapshotError: The table exists, but not the branch, tag, snapshot or time.
    """
    parts = tuple(name)
    if len(parts) < 2:
        raise NoSuchTableError(f"the name {'.'.join(parts)} has no namespace", next_step="write it as namespace.table")
    try:
        return TableSelection(table=shown_in(catalog_name, catalog.load_table(parts)))
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        selection = _by_selector(catalog, parts, catalog_name)
        if selection is None:
            raise NoSuchTableError(
                f"there is no table {'.'.join(parts)}", next_step=f"SHOW TABLES IN {'.'.join(parts[:-1])} lists the tables"
            ) from error
        return selection


def _by_selector(catalog: Catalog, parts: tuple[str, ...], catalog_name: str) -> TableSelection | None:
    """Resolve a name whose last part is a selector or a metadata table; return None if it is neither, or if no table has the rest of the name."""
    last = parts[-1]
    selector = _SELECTOR.fullmatch(last)
    is_metadata = last.lower() in METADATA_TABLES
    if len(parts) < 3 or not (selector or is_metadata):
        return None
    try:
        base = select(catalog, parts[:-1], catalog_name)
    except NoSuchTableError:
        return None
    if is_metadata:
        return None if base.metadata_table is not None else replace(base, metadata_table=last.lower())
    if selector is None or base.metadata_table is not None or base.is_past or base.branch is not None:
        return None
    kind, value = selector["kind"].lower(), selector["value"]
    if kind == "branch":
        selection = replace(base, branch=value)
    elif kind == "tag":
        selection = replace(base, tag=value)
    elif not _WHOLE_NUMBER.fullmatch(value):
        return None
    else:
        selection = replace(base, snapshot_id=int(value)) if kind == "snapshot_id" else replace(base, as_of_ms=int(value))
    selection.scan().snapshot()  # raises the error here, where the selector is known
    return selection


def at_version(selected: TableSelection, version: str) -> TableSelection:
    """Apply `VERSION AS OF` with the id of a snapshot, or the name of a branch or tag. If it may be an id or a name, it is an id.

    Raises:
        NoSuchSnapshotError: No snapshot, branch or tag matches.
        InvalidInputError: The table's name already has a selector.
    """
    _check_bare(selected, "VERSION AS OF")
    refs = selected.table.refs()
    snapshot_id = int(version) if _WHOLE_NUMBER.fullmatch(version) else None
    # Spark does not distinguish the number 7 from the text '7'. JAVA: TimeTravel.AsOfVersion treats both as the id of a snapshot.
    if snapshot_id is not None and (version not in refs or selected.table.metadata.snapshot_by_id(snapshot_id) is not None):
        selection = replace(selected, snapshot_id=snapshot_id)
    elif version in refs and refs[version].is_branch:
        selection = replace(selected, branch=version)
    else:
        selection = replace(selected, tag=version)
    selection.scan().snapshot()
    return selection


def at_timestamp(selected: TableSelection, micros: int) -> TableSelection:
    """Apply `TIMESTAMP AS OF`.

    Args:
        selected: The table.
        micros: Microseconds since 1970-01-01 UTC.

    Raises:
        NoSuchSnapshotError: The table had no snapshot at that time.
        InvalidInputError: The table's name already has a selector.
    """
    _check_bare(selected, "TIMESTAMP AS OF")
    selection = replace(selected, as_of_ms=micros // 1000)
    selection.scan()
    return selection


def _check_bare(selected: TableSelection, clause: str) -> None:
    if selected.is_past or selected.branch is not None:
        raise InvalidInputError(
            f"the name of {selected.table.full_name} selects a snapshot, branch or tag, and so does {clause}", next_step="use one of them"
        )


def with_options(selected: TableSelection, options: Mapping[str, str], *, takes_range: bool = False) -> TableSelection:
    """Apply options of a read that select a state: `snapshot-id`, `branch`, `tag`, `as-of-timestamp`, or a range of snapshots.

    Args:
        selected: The selection by the table's name and the time travel clause.
        options: The options of the read.
        takes_range: Whether the caller applies the options that select a range, so that this function ignores them.

    Raises:
        InvalidInputError: The options select several snapshots, or a snapshot although the name or clause already selects one; a value is not a number; or the
            range is not valid.
    """
    if not takes_range:
        selected = _with_range(selected, options)
    values = {SELECTING_OPTIONS[key.lower()]: value for key, value in options.items() if key.lower() in SELECTING_OPTIONS}
    if not values or values == {"branch": selected.branch}:
        return selected
    if len(values) > 1 or selected.is_past or selected.branch is not None:
        beside = " beside the selector of its name or clause" if len(values) == 1 else ""
        raise InvalidInputError(
            f"{selected.table.full_name} is read with {', '.join(sorted(key.lower() for key in options if key.lower() in SELECTING_OPTIONS))}{beside}; "
            "a read is of one snapshot",
            next_step="give one of snapshot-id, branch, tag and as-of-timestamp",
        )
    return replace(
        selected,
        branch=values.get("branch"),
        tag=values.get("tag"),
        snapshot_id=snapshot_id_of("snapshot-id", values["snapshot_id"]) if "snapshot_id" in values else None,
        as_of_ms=timestamp_ms(values["as_of_ms"]) if "as_of_ms" in values else None,
    )


def _with_range(selected: TableSelection, options: Mapping[str, str]) -> TableSelection:
    """Apply the options `start-snapshot-id` and `end-snapshot-id`: select the rows that were appended after the start, up to the end.

    Raises:
        InvalidInputError: The start is missing, the range is of times or of a metadata table, or a snapshot is selected too.
    """
    values = {key.lower(): value for key, value in options.items() if key.lower() in RANGE_OPTIONS}
    if not values:
        return selected
    name = selected.table.full_name
    if selected.metadata_table is not None:
        raise InvalidInputError(
            f"the metadata table {name}.{selected.metadata_table} cannot be read by {', '.join(sorted(values))}",
            table=name,
            next_step="read .changes, the only metadata table that takes these options",
        )
    times = sorted(values.keys() & {"start-timestamp", "end-timestamp"})
    if times:
        raise InvalidInputError(
            f"{name} is read with {' and '.join(times)}, options of its metadata table .changes",
            table=name,
            next_step="give start-snapshot-id and end-snapshot-id for appended rows; or read .changes for added and removed ones",
        )
    if "start-snapshot-id" not in values:
        raise InvalidInputError(
            f"{name} is read with end-snapshot-id but without start-snapshot-id",
            table=name,
            next_step="give start-snapshot-id too, or snapshot-id for one snapshot",
        )
    if selected.is_past or any(key.lower() in SELECTING_OPTIONS and key.lower() != "branch" for key in options):
        raise InvalidInputError(
            f"{name} is read with {', '.join(sorted(values))} beside a snapshot, a tag or a time", table=name, next_step="give one of them"
        )
    start = snapshot_id_of("start-snapshot-id", values["start-snapshot-id"])
    if "end-snapshot-id" not in values:
        return replace(selected, appended_after=start)
    if selected.branch is not None or any(key.lower() == "branch" for key in options):
        raise InvalidInputError(
            f"{name} is read with a branch and with end-snapshot-id",
            table=name,
            next_step="give one of them: each sets the end of the range",
        )
    return replace(selected, appended_after=start, snapshot_id=snapshot_id_of("end-snapshot-id", values["end-snapshot-id"]))


def snapshot_id_of(name: str, text: str) -> int:
    """Return the id of a snapshot in the value of an option. Raises `InvalidInputError` if it is not a whole number of 64 bits."""
    snapshot_id = _whole_number(text)
    if snapshot_id is None:
        raise InvalidInputError(
            f"the read option {name} is {short_text(text)!r}, not a whole number of 64 bits", next_step="give a snapshot's id"
        )
    return snapshot_id


def _whole_number(text: str) -> int | None:
    """Return the number that a text of ASCII digits is; None for every other text, and beyond 64 bits."""
    # `int` would take underscores, and fails for thousands of digits with an error of its own.
    number = int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def timestamp_ms(time: int | str | datetime) -> int:
    """Convert a time to milliseconds since 1970-01-01 UTC.

    Args:
        time: Milliseconds, as a number or text; or a time with a zone, as a `datetime` or ISO 8601 text.

    Raises:
        InvalidInputError: The value is not a number of 64 bits or a time, or the time has no zone.
    """
    milliseconds = None if isinstance(time, datetime) else _whole_number(str(time))
    if milliseconds is not None:
        return milliseconds
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(str(time))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInputError(
            f"{short_text(str(time))} is not a time with its zone",
            next_step="give milliseconds from 1970-01-01 UTC, or a time with its zone: 2026-01-31T12:00:00+00:00",
        )
    return int(moment.timestamp() * 1000)
