"""`Selected`: what a name in SQL means: a table, perhaps at a branch, a tag, a snapshot or a time; or one of its metadata tables.

A table whose name looks like a selector wins over it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError, NoSuchNamespaceError, NoSuchTableError
from icefloe.inspect.metadata_tables.metadata_table_registry import METADATA_TABLES
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.table.data_scan import DataScan
from icefloe.table.table import Table

_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_SELECTOR = re.compile(r"(?P<kind>branch|tag|snapshot_id|at_timestamp)_(?P<value>.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A table and what of it is meant; without any choice, its current snapshot. `metadata_table` is a name of `METADATA_TABLES`."""

    table: Table
    branch: str | None = None
    tag: str | None = None
    snapshot_id: int | None = None
    as_of_ms: int | None = None
    metadata_table: str | None = None
    appended_after: int | None = None  # of an incremental read: the id of the snapshot whose rows are the last that are not read

    @property
    def is_past(self) -> bool:
        """Whether it cannot be written: anything but a branch."""
        return self.tag is not None or self.snapshot_id is not None or self.as_of_ms is not None

    @property
    def is_part(self) -> bool:
        """Whether it is less than the table."""
        return self.is_past or self.branch is not None or self.metadata_table is not None

    @property
    def write_branch(self) -> str:
        """The branch that a write is for."""
        return self.branch or MAIN

    def scan(self) -> DataScan:
        """A scan of what is selected. Raises `NoSuchSnapshotError`."""
        found = self.table.scan(snapshot_id=self.snapshot_id)
        ref = self.branch or self.tag
        if ref is not None:
            found = found.use_ref(ref)
        found = found if self.as_of_ms is None else found.as_of(self.as_of_ms)
        return found if self.appended_after is None else found.appended_after(self.appended_after)

    def text(self) -> str:
        """What is selected, to be told from other selections."""
        return f"{self.branch}/{self.tag}/{self.snapshot_id}/{self.as_of_ms}/{self.metadata_table}/{self.appended_after}"


def select(catalog: Catalog, name: Sequence[str]) -> Selected:
    """What a name of two parts or more means.

    Raises:
        NoSuchTableError: nothing; the name may be a view's.
        NoSuchSnapshotError: the table is there, and the branch, tag, snapshot or time is not.
    """
    parts = tuple(name)
    if len(parts) < 2:
        raise NoSuchTableError(f"there is no table {'.'.join(parts)} outside of namespaces", next_step="write it as namespace.table")
    try:
        return Selected(table=catalog.load_table(parts))
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        found = _by_selector(catalog, parts)
        if found is None:
            raise NoSuchTableError(f"there is no table {'.'.join(parts)}", next_step="see SHOW TABLES") from error
        return found


def _by_selector(catalog: Catalog, parts: tuple[str, ...]) -> Selected | None:
    """A selector is the last part; a metadata table may have one before it: `db.t.branch_b.files`."""
    last = parts[-1]
    selector = _SELECTOR.fullmatch(last)
    is_metadata = last.lower() in METADATA_TABLES
    if len(parts) < 3 or not (selector or is_metadata):
        return None
    try:
        base = select(catalog, parts[:-1])
    except NoSuchTableError:
        return None
    if is_metadata:
        return None if base.metadata_table is not None else replace(base, metadata_table=last.lower())
    if selector is None or base.metadata_table is not None or base.is_past or base.branch is not None:
        return None
    kind, value = selector["kind"].lower(), selector["value"]
    if kind == "branch":
        chosen = replace(base, branch=value)
    elif kind == "tag":
        chosen = replace(base, tag=value)
    elif not _WHOLE_NUMBER.fullmatch(value):
        return None
    else:
        chosen = replace(base, snapshot_id=int(value)) if kind == "snapshot_id" else replace(base, as_of_ms=int(value))
    chosen.scan().snapshot()  # a wrong one is refused where it is named
    return chosen


def at_version(selected: Selected, version: str) -> Selected:
    """`VERSION AS OF`: a snapshot's id, or the name of a branch or tag; the id wins over a name. Raises `NoSuchSnapshotError`."""
    _check_bare(selected, "VERSION AS OF")
    refs = selected.table.refs()
    snapshot_id = int(version) if _WHOLE_NUMBER.fullmatch(version) else None
    # Spark passes the number 7 and the text '7' alike. JAVA: TimeTravel.AsOfVersion takes both for a snapshot's id.
    if snapshot_id is not None and (version not in refs or selected.table.metadata.snapshot_by_id(snapshot_id) is not None):
        chosen = replace(selected, snapshot_id=snapshot_id)
    elif version in refs and refs[version].is_branch:
        chosen = replace(selected, branch=version)
    else:
        chosen = replace(selected, tag=version)
    chosen.scan().snapshot()
    return chosen


def at_timestamp(selected: Selected, micros: int) -> Selected:
    """`TIMESTAMP AS OF`, in microseconds since 1970. Raises `NoSuchSnapshotError`."""
    _check_bare(selected, "TIMESTAMP AS OF")
    chosen = replace(selected, as_of_ms=micros // 1000)
    chosen.scan()
    return chosen


def _check_bare(selected: Selected, words: str) -> None:
    if selected.is_past or selected.branch is not None:
        raise InvalidInputError(
            f"{selected.table.full_name} is named with a snapshot, branch or tag and with {words} too", next_step="use one of them"
        )
