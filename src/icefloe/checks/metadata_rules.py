"""Rules of the metadata file as a whole: ids refer to entries that exist, and counters are at least as high as every number that was assigned.

`table_content.py` checks the shape of the JSON, `layout_rules.py` schemas and specs, `snapshot_rules.py` snapshots.
Spec: Table Metadata Fields; Snapshot References; Table Statistics.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.rule import FindingPlace, Level, Rule, RuleGroup, has_relative_path, value_text
from icefloe.checks.table_content import TableContent, is_known_version, json_value_text
from icefloe.errors import IcefloeError, MetadataFormatError
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.invariants import CLOCK_TOLERANCE_MS
from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.metadata.snapshot import SNAPSHOTS
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.table_properties import NAME_MAPPING

_RESTORE = "restore an earlier metadata file of the table, or let the writer of the table write a new one"


_rule = RuleGroup(level=Level.METADATA, section="Table Metadata Fields", next_step=_RESTORE).rule


METADATA_MISSING = _rule(
    "metadata-missing",
    Severity.ERROR,
    "The metadata file of a table exists.",
    "No engine can load the table.",
    next_step="restore the file from a copy, or plan with icefloe repair what the table can continue from",
)
METADATA_DAMAGED = _rule(
    "metadata-damaged",
    Severity.ERROR,
    "The metadata file is whole JSON, or whole gzip of it.",
    "No engine can load the table.",
    section="Table Metadata",
    next_step="restore the file from a copy, or register the newest metadata file that is whole",
)
FORMAT_VERSION = _rule(
    "format-version",
    Severity.ERROR,
    "The format version is 1, 2 or 3.",
    "Engines refuse a version that they do not know, so that they never misread the table.",
    section="Format Versioning",
    next_step="read the table with the program that wrote it",
)
TABLE_UUID = _rule(
    "table-uuid",
    Severity.ERROR,
    "The table's uuid is a UUID.",
    "Java and REST catalogs compare the uuid at every refresh and commit; some refuse a text that is no UUID.",
)
TABLE_LOCATION = _rule(
    "table-location",
    Severity.ERROR,
    "The table's location is an absolute path or URI.",
    "Writers put new files into a folder that depends on where they run.",
)
CURRENT_SCHEMA = _rule(
    "current-schema-id",
    Severity.ERROR,
    "The current schema id is that of one of the schemas.",
    "Every engine fails to load the table; some report that it does not exist.",
)
DEFAULT_SPEC = _rule(
    "default-spec-id",
    Severity.ERROR,
    "The default spec id is that of one of the partition specs.",
    "Every engine fails to load the table or to write to it.",
)
DEFAULT_SORT_ORDER = _rule(
    "default-sort-order-id",
    Severity.ERROR,
    "The default sort order id is that of one of the sort orders.",
    "Java fails to load the table; other engines fail to write to it.",
)
CURRENT_SNAPSHOT = _rule(
    "current-snapshot-id",
    Severity.ERROR,
    "The current snapshot id is that of one of the snapshots.",
    "Engines fail to load the table, or read it as empty.",
)
MAIN_SNAPSHOT = _rule(
    "main-is-current",
    Severity.ERROR,
    "The branch main names the current snapshot.",
    "Engines that read the branch and engines that read the current snapshot see different rows; Java refuses the table.",
    section="Snapshot References",
)
REF_SNAPSHOT = _rule(
    "ref-without-snapshot",
    Severity.ERROR,
    "Every branch and tag names one of the snapshots.",
    "A query of the branch or tag fails; Java's expiry of snapshots fails.",
    section="Snapshot References",
    next_step="drop the branch or tag, or set it to a snapshot that exists",
)
REF_RETENTION = _rule(
    "ref-retention",
    Severity.WARNING,
    "Retention settings are above 0, and a tag has no settings of branches.",
    "Java refuses to load the table, and expiry may keep or remove other snapshots than intended.",
    section="Snapshot References",
    next_step="set the retention of the branch or tag again",
)
LAST_COLUMN_ID = _rule(
    "last-column-id",
    Severity.ERROR,
    "The last column id is not below any field id.",
    "The next column that is added gets the id of an existing one, and its rows are read as the other column's.",
)
LAST_PARTITION_ID = _rule(
    "last-partition-id",
    Severity.ERROR,
    "The last partition id is not below any partition field id.",
    "The next partition field that is added gets the id of an existing one, and files are matched to wrong partitions.",
)
LAST_SEQUENCE_NUMBER = _rule(
    "last-sequence-number",
    Severity.ERROR,
    "The last sequence number is not below that of any snapshot.",
    "The next commit gets a number that was given before, so that delete files apply to newer rows or not to older ones.",
    section="Sequence Numbers",
)
NEXT_ROW_ID = _rule(
    "next-row-id",
    Severity.ERROR,
    "The next row id is above every row id that a snapshot assigned.",
    "The next commit assigns ids that other rows have; changelogs and incremental views mix the rows up.",
    section="Row Lineage",
)
LAST_UPDATED = _rule(
    "last-updated-ms",
    Severity.WARNING,
    "The time of the last update is not before the newest snapshot or log entry by more than a minute.",
    "Java refuses to load the table, and readers by time see another state.",
)
SNAPSHOT_LOG_ORDER = _rule(
    "snapshot-log-order",
    Severity.WARNING,
    "The times of the snapshot log ascend, but for a minute of clock differences.",
    "Java refuses to load the table; time travel by timestamp reads another snapshot.",
)
SNAPSHOT_LOG_SNAPSHOT = _rule(
    "snapshot-log-snapshot",
    Severity.WARNING,
    "Every entry of the snapshot log names one of the snapshots, and the last one the current snapshot.",
    "Time travel by timestamp fails, or passes over a state that has expired.",
)
METADATA_LOG_ORDER = _rule(
    "metadata-log-order",
    Severity.WARNING,
    "The times of the metadata log ascend, but for a minute of clock differences.",
    "Java refuses to load the table.",
)
STATISTICS_SNAPSHOT = _rule(
    "statistics-snapshot",
    Severity.WARNING,
    "Every statistics file is of one of the snapshots.",
    "The files are never deleted with their snapshot; optimizers may use counts of another state.",
    section="Table Statistics",
    next_step="remove the entry with remove_statistics, or let expiry of snapshots do it",
)
STATISTICS_TWICE = _rule(
    "statistics-twice",
    Severity.WARNING,
    "A snapshot has at most one statistics file and one partition statistics file.",
    "Engines choose different ones of the files.",
    section="Partition Statistics",
    next_step="compute the statistics of the snapshot again",
)
NAME_MAPPING_INVALID = _rule(
    "name-mapping",
    Severity.ERROR,
    "The property schema.name-mapping.default is a valid name mapping.",
    "Files without field ids cannot be read.",
    section="Column Projection",
    next_step="set the property to a valid name mapping, or remove it",
)
RULES = (
    METADATA_MISSING,
    METADATA_DAMAGED,
    FORMAT_VERSION,
    TABLE_UUID,
    TABLE_LOCATION,
    CURRENT_SCHEMA,
    DEFAULT_SPEC,
    DEFAULT_SORT_ORDER,
    CURRENT_SNAPSHOT,
    MAIN_SNAPSHOT,
    REF_SNAPSHOT,
    REF_RETENTION,
    LAST_COLUMN_ID,
    LAST_PARTITION_ID,
    LAST_SEQUENCE_NUMBER,
    NEXT_ROW_ID,
    LAST_UPDATED,
    SNAPSHOT_LOG_ORDER,
    SNAPSHOT_LOG_SNAPSHOT,
    METADATA_LOG_ORDER,
    STATISTICS_SNAPSHOT,
    STATISTICS_TWICE,
    NAME_MAPPING_INVALID,
)


def unreadable_metadata(error: MetadataFormatError, path: str) -> Finding:
    """Return the finding about a metadata file that is not a JSON object."""
    what = "; ".join([error.message, *map(str, error.problems)])
    return METADATA_DAMAGED.finding(
        f"the metadata file cannot be read: {value_text(what)}", file=path, where=next((problem.where for problem in error.problems), None)
    )


def unknown_version(document: Mapping[str, Any], path: str) -> Finding | None:
    """Return the finding about a metadata file of an unknown format version; None for any other file."""
    version = document.get("format-version")
    if not isinstance(version, int) or is_known_version(version):
        return None
    return FORMAT_VERSION.finding(
        f"the format version is {version}", file=path, where="$.format-version", expected="1, 2 or 3", actual=version
    )


def metadata_findings(content: TableContent) -> Iterator[Finding]:
    """Yield the violations of the rules of this module in one metadata file."""
    for check in (_identity, _current_entries, _refs, _counters, _times, _logs, _statistics, _name_mapping):
        yield from check(content)


def _identity(content: TableContent) -> Iterator[Finding]:
    path = content.metadata_location
    table_uuid = content.text("table-uuid")
    if table_uuid is not None and not _is_uuid(table_uuid):
        yield TABLE_UUID.finding(f"table-uuid is {json_value_text(table_uuid)}", file=path, where="$.table-uuid", actual=table_uuid)
    location = content.text("location")
    if location is not None and (not location or has_relative_path(location)):
        yield TABLE_LOCATION.finding(f"location is {json_value_text(location)}", file=path, where="$.location", actual=location)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _current_entries(content: TableContent) -> Iterator[Finding]:
    # The ids of entries that cannot be decoded count as well: another rule reports these entries.
    kinds: tuple[tuple[Rule, str, EntryKind[Any]], ...] = (
        (CURRENT_SCHEMA, "current-schema-id", SCHEMAS),
        (DEFAULT_SPEC, "default-spec-id", PARTITION_SPECS),
        (DEFAULT_SORT_ORDER, "default-sort-order-id", SORT_ORDERS),
        (CURRENT_SNAPSHOT, "current-snapshot-id", SNAPSHOTS),
    )
    for rule, key, kind in kinds:
        number, entries = content.number(key), content.document.get(kind.key)
        if number is None or (rule is CURRENT_SNAPSHOT and number == -1):
            continue
        if entries is None and rule is not CURRENT_SNAPSHOT:
            continue  # in version 1 the list may be missing; otherwise its absence is a finding
        known_ids = content.ids(kind)
        if number not in known_ids and not (rule is DEFAULT_SORT_ORDER and number == 0 and not entries):
            yield rule.finding(
                f"{key} is {number}, and {kind.key} has {_ids_text(known_ids)}",
                file=content.metadata_location,
                where=f"$.{key}",
                expected=_ids_text(known_ids),
                actual=number,
            )


def _ids_text(ids: list[int]) -> str:
    """Return the last five of a list of ids as text."""
    return ("… " if len(ids) > 5 else "") + (", ".join(map(str, ids[-5:])) or "none")


def _refs(content: TableContent) -> Iterator[Finding]:
    path, current = content.metadata_location, content.current_snapshot_id
    snapshot_ids = set(content.ids(SNAPSHOTS))
    main = content.refs.get(MAIN)
    if main is not None and (main.snapshot_id != current or not main.is_branch):
        kind = "" if main.is_branch else "a tag, "
        yield MAIN_SNAPSHOT.finding(
            f"main is {kind}at snapshot {main.snapshot_id}, and current-snapshot-id is {current}",
            file=path,
            where="$.refs.main",
            snapshot_id=current,
            expected=current,
            actual=main.snapshot_id,
        )
    if main is None and current is not None and content.document.get("refs"):
        yield MAIN_SNAPSHOT.finding(
            f"there is no branch main, and current-snapshot-id is {current}",
            file=path,
            where="$.refs",
            snapshot_id=current,
            expected=current,
        )
    for name, ref in content.refs.items():
        where = f"$.refs.{value_text(name)}"
        # If main and the current snapshot name the same missing snapshot, CURRENT_SNAPSHOT reports it.
        if ref.snapshot_id not in snapshot_ids and not (name == MAIN and ref.snapshot_id == current):
            yield REF_SNAPSHOT.finding(
                f"the {ref.type} {value_text(name)} names snapshot {ref.snapshot_id}, which is not in snapshots",
                file=path,
                where=where,
                actual=ref.snapshot_id,
            )
        settings = {
            "min-snapshots-to-keep": ref.min_snapshots_to_keep,
            "max-snapshot-age-ms": ref.max_snapshot_age_ms,
            "max-ref-age-ms": ref.max_ref_age_ms,
        }
        for key, value in settings.items():
            if value is not None and (value <= 0 or (not ref.is_branch and key != "max-ref-age-ms")):
                yield REF_RETENTION.finding(
                    f"the {ref.type} {value_text(name)} has {key} {value}", file=path, where=f"{where}.{key}", actual=value
                )


def _counters(content: TableContent) -> Iterator[Finding]:
    highest = max((schema.highest_field_id for schema in content.schemas.values()), default=0)
    yield from _behind(content, LAST_COLUMN_ID, "last-column-id", highest, f"a schema has field id {highest}", field_id=highest)
    highest = max((spec.last_assigned_field_id for spec in content.specs.values() if spec.fields), default=0)
    yield from _behind(
        content, LAST_PARTITION_ID, "last-partition-id", highest, f"a partition spec has field id {highest}", field_id=highest
    )
    if content.format_version > 1:
        newest = max(content.snapshots.values(), key=lambda snapshot: snapshot.sequence_number, default=None)
        if newest is not None:
            number, snapshot_id = newest.sequence_number, newest.snapshot_id
            holder = f"snapshot {snapshot_id} has {number}"
            yield from _behind(content, LAST_SEQUENCE_NUMBER, "last-sequence-number", number, holder, snapshot_id=snapshot_id)
    if content.format_version > 2:
        with_ids = [snapshot for snapshot in content.snapshots.values() if snapshot.first_row_id is not None]
        ends = [((snapshot.first_row_id or 0) + (snapshot.added_rows or 0), snapshot.snapshot_id) for snapshot in with_ids]
        end, snapshot_id = max(ends, default=(0, 0))
        holder = f"snapshot {snapshot_id} assigned row ids below {end}"
        yield from _behind(content, NEXT_ROW_ID, "next-row-id", max(end, 0), holder, snapshot_id=snapshot_id)


def _behind(
    content: TableContent, rule: Rule, key: str, least: int, holder: str, field_id: int | None = None, snapshot_id: int | None = None
) -> Iterator[Finding]:
    """Yield a finding if a counter is lower than a number that was assigned already.

    Args:
        content: The metadata file.
        rule: The rule of the finding.
        key: The name of the counter.
        least: The least value that the counter may have.
        holder: What has the assigned number, as text for the message.
        field_id: The field id that was assigned, if the counter is one of field ids.
        snapshot_id: The snapshot that has the assigned number, if a snapshot has it.
    """
    number = content.number(key)
    if number is not None and number < least:
        yield rule.finding(
            f"{key} is {number}, and {holder}",
            file=content.metadata_location,
            where=f"$.{key}",
            field_id=field_id,
            snapshot_id=snapshot_id,
            expected=least,
            actual=number,
        )


def _times(content: TableContent) -> Iterator[Finding]:
    updated = content.number("last-updated-ms")
    newest = max((snapshot.timestamp_ms for snapshot in content.snapshots.values()), default=None)
    logged = max((log[-1].timestamp_ms for log in (content.snapshot_log, content.metadata_log) if log), default=None)
    latest = max((time for time in (newest, logged) if time is not None), default=None)
    if updated is not None and latest is not None and updated < latest - CLOCK_TOLERANCE_MS:
        yield LAST_UPDATED.finding(
            f"last-updated-ms is {updated}, and the newest snapshot or log entry is of {latest}",
            file=content.metadata_location,
            where="$.last-updated-ms",
            expected=latest,
            actual=updated,
        )


def _logs(content: TableContent) -> Iterator[Finding]:
    path = content.metadata_location
    for rule, key, times in (
        (SNAPSHOT_LOG_ORDER, "snapshot-log", [entry.timestamp_ms for entry in content.snapshot_log]),
        (METADATA_LOG_ORDER, "metadata-log", [entry.timestamp_ms for entry in content.metadata_log]),
    ):
        for position in range(1, len(times)):
            if times[position] < times[position - 1] - CLOCK_TOLERANCE_MS:
                yield rule.finding(
                    f"entry {position} of {key} is of {times[position]} ms, and the entry before it of {times[position - 1]} ms",
                    file=path,
                    where=f"$.{key}[{position}]",
                    entry=position,
                    expected=times[position - 1],
                    actual=times[position],
                )
    snapshot_ids = set(content.ids(SNAPSHOTS))
    current = content.current_snapshot_id
    for position, entry in enumerate(content.snapshot_log):
        is_last = position == len(content.snapshot_log) - 1
        if is_last and current is not None and entry.snapshot_id != current:
            yield SNAPSHOT_LOG_SNAPSHOT.finding(
                f"the last entry of snapshot-log names snapshot {entry.snapshot_id}, and the current one is {current}",
                file=path,
                where=f"$.snapshot-log[{position}]",
                entry=position,
                snapshot_id=entry.snapshot_id,
                expected=current,
                actual=entry.snapshot_id,
            )
        elif entry.snapshot_id not in snapshot_ids and entry.snapshot_id != current:
            yield SNAPSHOT_LOG_SNAPSHOT.finding(
                f"entry {position} of snapshot-log names snapshot {entry.snapshot_id}, which is not in snapshots",
                file=path,
                where=f"$.snapshot-log[{position}]",
                entry=position,
                snapshot_id=entry.snapshot_id,
                actual=entry.snapshot_id,
            )


def _statistics(content: TableContent) -> Iterator[Finding]:
    snapshot_ids = set(content.ids(SNAPSHOTS))
    lists: tuple[tuple[str, Sequence[StatisticsFile | PartitionStatisticsFile]], ...] = (
        ("statistics", content.statistics),
        ("partition-statistics", content.partition_statistics),
    )
    for key, files in lists:
        seen: set[int] = set()
        for position, file in enumerate(files):
            place = FindingPlace(file=content.metadata_location, entry=position, path=file.statistics_path, snapshot_id=file.snapshot_id)
            where = f"$.{key}[{position}]"
            if file.snapshot_id not in snapshot_ids:
                text = f"{key} has a file of snapshot {file.snapshot_id}, which is not in snapshots"
                yield STATISTICS_SNAPSHOT.finding(text, where=where, **place)
            if file.snapshot_id in seen:
                yield STATISTICS_TWICE.finding(f"{key} has two files of snapshot {file.snapshot_id}", where=where, **place)
            seen.add(file.snapshot_id)


def _name_mapping(content: TableContent) -> Iterator[Finding]:
    properties = content.document.get("properties")
    text = properties.get(NAME_MAPPING.name) if isinstance(properties, dict) else None
    if isinstance(text, str):
        try:
            NAME_MAPPING.read({NAME_MAPPING.name: text})
        except (IcefloeError, RecursionError) as error:
            yield NAME_MAPPING_INVALID.finding(
                f"{NAME_MAPPING.name} cannot be read: {value_text(error.message if isinstance(error, IcefloeError) else 'it is nested too deeply')}",
                file=content.metadata_location,
                where=f"$.properties.{NAME_MAPPING.name}",
                actual=text,
            )
