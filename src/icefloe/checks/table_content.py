"""`TableContent`: the readable parts of a metadata file, even if many others are wrong, and the findings about the parts that cannot be read.

The reader of tables (`spec.metadata.metadata_reader`) refuses a file that has a wrong value. Here each entry is decoded by itself: an entry that cannot be
decoded is a finding, and the others are still validated. Spec: Table Metadata Fields; Appendix C.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.rule import Level, Rule, value_text
from icefloe.checks.schema_id_rules import field_id_findings, field_ids_of
from icefloe.errors import IcefloeError, InvalidPartitionSpecError, Problem
from icefloe.spec.metadata.document_validation import LATEST_SUPPORTED_VERSION, keys_of
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.metadata.snapshot import SNAPSHOTS, Snapshot
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef, snapshot_ref_from_json
from icefloe.spec.metadata.statistics_file import PARTITION_STATISTICS, STATISTICS, PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.table_history import METADATA_LOG, SNAPSHOT_LOG, MetadataLogEntry, SnapshotLogEntry
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec, fields_from_json, partition_type
from icefloe.spec.partitioning.sort_order import SortOrder
from icefloe.spec.schema.json_shape import is_missing, kind_of, object_problems
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import DoubleType, FloatType, ListType, MapType, StructType

_RESTORE = "restore an earlier metadata file of the table, or let the writer of the table write a new one"

REQUIRED_FIELD = Rule(
    id="required-field",
    level=Level.METADATA,
    severity=Severity.ERROR,
    title="Every field of the metadata file that the format version requires is there.",
    section="Table Metadata Fields",
    harm="Java, PyIceberg and every engine on them refuse to load the table.",
    next_step=_RESTORE,
)
FIELD_TYPE = Rule(
    id="field-type",
    level=Level.METADATA,
    severity=Severity.ERROR,
    title="Every field of the metadata file has a JSON value of its type.",
    section="Appendix C",
    harm="Java, PyIceberg and every engine on them refuse to load the table.",
    next_step=_RESTORE,
)
SCHEMA_INVALID = Rule(
    id="schema-invalid",
    level=Level.METADATA,
    severity=Severity.ERROR,
    title="Every schema has known types, unique field names, defaults of their types, and identifier fields that are required and primitive.",
    section="Schemas and Data Types",
    harm="The table cannot be loaded, or snapshots with this schema cannot be read.",
    next_step=_RESTORE,
)
SPEC_INVALID = Rule(
    id="partition-spec-invalid",
    level=Level.METADATA,
    severity=Severity.ERROR,
    title="Every partition spec is a list of fields, each with a source, a name and a transform.",
    section="Appendix C, Partition Specs",
    harm="The table cannot be loaded, or manifests of this spec cannot be read.",
    next_step=_RESTORE,
)
SORT_ORDER_INVALID = Rule(
    id="sort-order-invalid",
    level=Level.METADATA,
    severity=Severity.ERROR,
    title="Every sort order is a list of fields, each with a source, a transform, a direction and an order of nulls.",
    section="Appendix C, Sort Orders",
    harm="Java and PyIceberg refuse to load the table.",
    next_step=_RESTORE,
)
DUPLICATE_ID = Rule(
    id="duplicate-id",
    level=Level.METADATA,
    severity=Severity.ERROR,
    title="The ids of schemas, partition specs, sort orders and snapshots are unique.",
    section="Table Metadata Fields",
    harm="Engines choose different ones of the entries, and read other columns, partitions or rows.",
    next_step=_RESTORE,
)
RULES = (REQUIRED_FIELD, FIELD_TYPE, SCHEMA_INVALID, SPEC_INVALID, SORT_ORDER_INVALID, DUPLICATE_ID)

# The rule that an entry of each list violates if it cannot be decoded although no field is missing.
_RULE_OF = {SCHEMAS.key: SCHEMA_INVALID, PARTITION_SPECS.key: SPEC_INVALID, SORT_ORDERS.key: SORT_ORDER_INVALID}
# The most problems of one entry that become findings.
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContent:
    """The readable entries of a metadata file, by id. If several entries have the same id, the first is kept.

    Attributes:
        metadata_location: The location of the metadata file.
        document: The parsed JSON of the file.
        format_version: The format version; if the file has none, the version is derived from the fields that it has.
    """

    metadata_location: str
    document: Mapping[str, Any]
    format_version: int
    schemas: Mapping[int, Schema]
    specs: Mapping[int, PartitionSpec]
    sort_orders: Mapping[int, SortOrder]
    snapshots: Mapping[int, Snapshot]
    snapshot_positions: Mapping[int, int]  # the index of each snapshot in the list of the file
    refs: Mapping[str, SnapshotRef]
    snapshot_log: tuple[SnapshotLogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    statistics: tuple[StatisticsFile, ...]
    partition_statistics: tuple[PartitionStatisticsFile, ...]

    def number(self, key: str) -> int | None:
        """Return a top-level number of the file; None if it is missing or is not a number."""
        value = self.document.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        """Return a top-level text of the file; None if it is missing or is not a text."""
        value = self.document.get(key)
        return value if isinstance(value, str) else None

    def ids(self, kind: EntryKind[Any]) -> list[int]:
        """Return the ids of all entries of a list, including entries that cannot be decoded."""
        entries = self.document.get(kind.key)
        ids = [_id_of(entry, kind) for entry in (entries if isinstance(entries, list) else ())]
        return [entry_id for entry_id in ids if entry_id is not None]

    @property
    def field_ids(self) -> set[int]:
        """The field ids of all schemas, including schemas that cannot be decoded."""
        listed = self.document.get(SCHEMAS.key)
        schemas = [*(listed if isinstance(listed, list) else ()), self.document.get("schema")]
        return {field_id for schema in schemas for field_id in field_ids_of(schema)}

    @property
    def keyless_field_ids(self) -> frozenset[int]:
        """The field ids of columns that cannot be in the key of equality deletes: floating-point numbers, and columns inside of lists and maps."""
        ids: set[int] = set()
        for schema in self.schemas.values():
            floats = {field.field_id for _, field in walk(schema.fields) if isinstance(field.field_type, FloatType | DoubleType)}
            ids |= ids_inside_of_lists_and_maps(schema) | floats
        return frozenset(ids)

    @property
    def spec_ids(self) -> frozenset[int]:
        """The ids of all partition specs, including specs that cannot be decoded."""
        return frozenset((*self.ids(PARTITION_SPECS), *self.specs))

    @property
    def sequence_numbers(self) -> dict[int, int]:
        """The sequence numbers of snapshots by id. Snapshots that share a sequence number are left out."""
        counts = Counter(snapshot.sequence_number for snapshot in self.snapshots.values())
        return {
            snapshot.snapshot_id: snapshot.sequence_number for snapshot in self.snapshots.values() if counts[snapshot.sequence_number] == 1
        }

    @property
    def current_snapshot_id(self) -> int | None:
        """The id of the current snapshot; None if there is none."""
        snapshot_id = self.number("current-snapshot-id")
        return None if snapshot_id == -1 else snapshot_id

    @property
    def current_schema(self) -> Schema | None:
        """The current schema; None if it is missing or cannot be read."""
        return self.schemas.get(self.current_schema_id)

    @property
    def current_schema_id(self) -> int:
        """The id of the current schema; 0 if a file of version 1 has only the field `schema`."""
        return self.number("current-schema-id") or 0

    def name_mapping(self) -> NameMapping | None:
        """Return the name mapping of the table's properties; None if there is none, or it cannot be read."""
        properties = self.document.get("properties")
        text = properties.get(NAME_MAPPING.name) if isinstance(properties, Mapping) else None
        try:
            return NAME_MAPPING.read({NAME_MAPPING.name: text}) if isinstance(text, str) else None
        except IcefloeError:
            return None

    def partition_types(self) -> dict[int, StructType]:
        """Return the type of the partition tuples by spec id. Specs with a repeated field id, or a source column that no readable schema has, are left out."""
        schemas = list(self.schemas.values())
        current = self.current_schema
        if current is not None:
            schemas.insert(0, current)
        types = {}
        for spec_id, spec in self.specs.items():
            if len({field.field_id for field in spec.fields}) < len(spec.fields):
                continue
            try:
                types[spec_id] = partition_type(spec, schemas[0] if schemas else Schema(), schemas[1:])
            except (InvalidPartitionSpecError, IcefloeError):
                continue
        return types


def read_content(document: Mapping[str, Any], metadata_location: str) -> tuple[TableContent, list[Finding]]:
    """Decode parsed metadata JSON as far as possible.

    Args:
        document: The parsed JSON of the metadata file.
        metadata_location: The location of the file, for the findings.

    Returns:
        The decoded entries, and the findings about those that cannot be decoded.
    """
    reader = _ContentReader(document, metadata_location)
    return reader.content(), reader.findings


class _ContentReader:
    """Decodes the entries of a metadata file one by one, and collects findings about those that cannot be decoded."""

    def __init__(self, document: Mapping[str, Any], path: str) -> None:
        self._document = document
        self._path = path
        self.findings: list[Finding] = []
        version = document.get("format-version")
        self._version = version if is_known_version(version) else _likely_version(document)

    def content(self) -> TableContent:
        document = self._document
        for problem in object_problems(document, "$", keys_of(self._version)):
            self._report(problem, FIELD_TYPE)
        schemas = self._by_id(SCHEMAS)
        specs = self._by_id(PARTITION_SPECS)
        if self._version == 1:
            self._version_1(schemas, specs)
        snapshots = self._by_id(SNAPSHOTS)
        return TableContent(
            metadata_location=self._path,
            document=document,
            format_version=self._version,
            schemas={entry_id: schema for entry_id, (_, schema) in schemas.items()},
            specs={entry_id: spec for entry_id, (_, spec) in specs.items()},
            sort_orders={entry_id: order for entry_id, (_, order) in self._by_id(SORT_ORDERS).items()},
            snapshots={entry_id: snapshot for entry_id, (_, snapshot) in snapshots.items()},
            snapshot_positions={entry_id: position for entry_id, (position, _) in snapshots.items()},
            refs=self._refs(),
            snapshot_log=tuple(entry for _, entry in self._entries(SNAPSHOT_LOG)),
            metadata_log=tuple(entry for _, entry in self._entries(METADATA_LOG)),
            statistics=tuple(entry for _, entry in self._entries(STATISTICS)),
            partition_statistics=tuple(entry for _, entry in self._entries(PARTITION_STATISTICS)),
        )

    def _version_1(self, schemas: dict[int, tuple[int, Any]], specs: dict[int, tuple[int, Any]]) -> None:
        """Add the schema and the partition spec of the fields `schema` and `partition-spec` of version 1. Spec: Appendix E, Reading v1 Metadata."""
        document = self._document
        has_schemas = document.get("schemas") is not None and document.get("current-schema-id") is not None
        if document.get("schema") is not None and not schemas:
            for schema in self._decode(SCHEMAS, document["schema"], "$.schema"):
                schemas.setdefault(schema.schema_id, (0, schema))
        elif not has_schemas and document.get("schema") is None:
            self._report(Problem(where="$.schema", what="is required, and is missing"), FIELD_TYPE)
        if document.get("partition-specs") is not None:
            return
        if document.get("partition-spec") is None:
            self._report(Problem(where="$.partition-spec", what="is required, and is missing"), FIELD_TYPE)
            return
        try:
            specs.setdefault(0, (0, fields_from_json(document["partition-spec"], where="$.partition-spec")))
        except (IcefloeError, RecursionError) as error:
            self._report_error(error, "$.partition-spec", SPEC_INVALID)

    def _by_id(self, kind: EntryKind[Any]) -> dict[int, tuple[int, Any]]:
        """Return the readable entries of a list by id, each with its index in the list."""
        entries: dict[int, tuple[int, Any]] = {}
        raw = self._document.get(kind.key)
        for position, entry in self._entries(kind):
            entry_id = _id_of(raw[position] if isinstance(raw, list) else None, kind)
            if entry_id is None:
                continue
            if entry_id in entries:
                self.findings.append(
                    DUPLICATE_ID.finding(
                        f"{kind.key} has two entries with {kind.id_key} {entry_id}, at {entries[entry_id][0]} and {position}",
                        file=self._path,
                        where=f"$.{kind.key}[{position}].{kind.id_key}",
                        actual=entry_id,
                    )
                )
            entries.setdefault(entry_id, (position, entry))
        return entries

    def _entries(self, kind: EntryKind[Any]) -> Iterator[tuple[int, Any]]:
        listed = self._document.get(kind.key)
        for position, entry in enumerate(listed if isinstance(listed, list) else ()):
            for decoded in self._decode(kind, entry, f"$.{kind.key}[{position}]"):
                yield position, decoded

    def _decode(self, kind: EntryKind[Any], entry: Any, where: str) -> Iterator[Any]:
        """Yield the decoded entry, or nothing if it cannot be decoded."""
        repeated = list(field_id_findings(entry, where, self._path)) if kind is SCHEMAS else []
        self.findings += repeated
        try:
            yield kind.decode(entry, where)
        except (IcefloeError, RecursionError) as error:
            if repeated:
                return  # the findings about field ids explain why the schema cannot be decoded
            self._report_error(error, where, _RULE_OF.get(kind.key, FIELD_TYPE))

    def _refs(self) -> dict[str, SnapshotRef]:
        refs: dict[str, SnapshotRef] = {}
        stored = self._document.get("refs")
        for name, ref in stored.items() if isinstance(stored, Mapping) else ():
            where = f"$.refs.{value_text(name)}"
            try:
                refs[name] = snapshot_ref_from_json(ref, where)
            except IcefloeError as error:
                self._report_error(error, where, FIELD_TYPE)
        current = self._document.get("current-snapshot-id")
        if not stored and isinstance(current, int) and current != -1:
            refs[MAIN] = SnapshotRef(snapshot_id=current)  # older writers store no references
        return refs

    def _report_error(self, error: Exception, where: str, rule: Rule) -> None:
        problems: Iterable[Problem] = error.problems if isinstance(error, IcefloeError) else ()
        text = error.message if isinstance(error, IcefloeError) else "it is nested more deeply than any valid metadata"
        for problem in tuple(problems)[:_MOST_PROBLEMS] or (Problem(where=where, what=text),):
            self._report(problem, rule)

    def _report(self, problem: Problem, rule: Rule) -> None:
        chosen = REQUIRED_FIELD if is_missing(problem) else rule
        self.findings.append(
            chosen.finding(f"{value_text(problem.where)} {value_text(problem.what)}", file=self._path, where=problem.where)
        )


def ids_inside_of_lists_and_maps(schema: Schema) -> set[int]:
    """Return the field ids of list elements, map keys and map values, and of the fields inside of them."""
    nested = [field for _, field in walk(schema.fields) if isinstance(field.field_type, ListType | MapType)]
    return {inner.field_id for field in nested for _, inner in walk((field,)) if inner is not field}


def _id_of(entry: Any, kind: EntryKind[Any]) -> int | None:
    value = entry.get(kind.id_key, kind.default_id) if isinstance(entry, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_known_version(version: object) -> TypeGuard[int]:
    """Return whether a format version is 1, 2 or 3, which this release can read."""
    return isinstance(version, int) and not isinstance(version, bool) and 1 <= version <= LATEST_SUPPORTED_VERSION


def _likely_version(document: Mapping[str, Any]) -> int:
    """Derive the format version of a file that does not state it from the fields that each version introduced."""
    return 3 if "next-row-id" in document else 2 if "last-sequence-number" in document else 1


def json_value_text(value: Any) -> str:
    """Return a JSON value as text for a message."""
    return value_text(kind_of(value))
