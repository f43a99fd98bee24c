"""The keys of a metadata file, and the full validation, which lists every problem of a file with its JSON path.

`metadata_reader.py` decodes quickly, and runs this validation only if decoding fails; the validation of a table always runs it. Rules that relate several keys
are in `invariants.py`.
Spec: Table Metadata Fields; Appendix C.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.errors import IcefloeError, Problem
from icefloe.spec.metadata.encrypted_key import ENCRYPTION_KEYS
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.metadata.snapshot import SNAPSHOTS
from icefloe.spec.metadata.snapshot_ref import snapshot_ref_from_json
from icefloe.spec.metadata.statistics_file import PARTITION_STATISTICS, STATISTICS
from icefloe.spec.metadata.table_history import METADATA_LOG, SNAPSHOT_LOG
from icefloe.spec.partitioning.partition_spec import fields_from_json
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_array, an_int, an_object, kind_of, object_problems, strings_by_name

_ALL_VERSIONS = (
    Key("format-version", an_int),
    Key("location", a_string),
    Key("last-updated-ms", a_long),
    Key("last-column-id", an_int),
    Key("properties", strings_by_name, required=False),
    Key("current-snapshot-id", a_long, required=False),
    Key("snapshots", an_array, required=False),
    Key("snapshot-log", an_array, required=False),
    Key("metadata-log", an_array, required=False),
    Key("refs", an_object, required=False),
    Key("statistics", an_array, required=False),
    Key("partition-statistics", an_array, required=False),
    # Keys that the specification has from version 3 on. Java reads and writes them in every version, and values that it wrote must not be lost.
    Key("encryption-keys", an_array, required=False),
)
_SINCE_VERSION_2 = (
    ("table-uuid", a_string),
    ("last-sequence-number", a_long),
    ("schemas", an_array),
    ("current-schema-id", an_int),
    ("partition-specs", an_array),
    ("default-spec-id", an_int),
    ("last-partition-id", an_int),
    ("sort-orders", an_array),
    ("default-sort-order-id", an_int),
)
_VERSION_1 = (
    *_ALL_VERSIONS,
    *(Key(name, check, required=False) for name, check in _SINCE_VERSION_2),
    Key("schema", an_object, required=False),  # required by the specification, but redundant with `schemas` and `current-schema-id`
    Key("partition-spec", an_array, required=False),
)
_VERSION_2 = (*_ALL_VERSIONS, *(Key(name, check) for name, check in _SINCE_VERSION_2))
_VERSION_3 = (*_VERSION_2, Key("next-row-id", a_long))
_KEYS = {1: _VERSION_1, 2: _VERSION_2, 3: _VERSION_3}

# Java writes -1 if a version 1 or 2 table has no current snapshot.
NO_SNAPSHOT_ID = -1

LATEST_SUPPORTED_VERSION = max(_KEYS)
DRAFT_VERSION = 4  # described by the specification, but not adopted yet. Spec: Format Versioning, Version 4

# The keys that a reader understands, by format version. Any other key is kept as it is, also the two keys of version 1 in a file of a later version.
KNOWN_KEYS = {version: frozenset(key.name for key in keys) for version, keys in _KEYS.items()}

LISTS: tuple[EntryKind[Any], ...] = (
    SCHEMAS,
    PARTITION_SPECS,
    SORT_ORDERS,
    SNAPSHOTS,
    SNAPSHOT_LOG,
    METADATA_LOG,
    STATISTICS,
    PARTITION_STATISTICS,
    ENCRYPTION_KEYS,
)
_IDS_MAY_REPEAT = (SNAPSHOT_LOG, STATISTICS, PARTITION_STATISTICS)


def keys_of(version: int) -> tuple[Key, ...]:
    """Return the keys of a metadata file of this format version, 1 to 3."""
    return _KEYS[version]


def document_problems(document: object) -> list[Problem]:
    """Return every problem of parsed metadata JSON, in the order of the keys. Every entry of every list is decoded."""
    version = document.get("format-version") if isinstance(document, Mapping) else None
    keys = _KEYS.get(version, _VERSION_3) if isinstance(version, int) else _VERSION_3
    problems = list(object_problems(document, "$", keys))
    if not isinstance(document, Mapping):
        return problems
    if version == 1:
        problems += _version_1_problems(document)
    for kind in LISTS:
        problems += list_problems(document.get(kind.key), kind)
    problems += _refs_problems(document.get("refs"))
    problems += _reference_problems(document)
    return problems


def _version_1_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    has_schemas = document.get("schemas") is not None and document.get("current-schema-id") is not None
    if not has_schemas:
        if document.get("schema") is None:
            yield Problem(where="$.schema", what="is required, and is missing; schemas with current-schema-id can replace it")
        else:
            yield from _decoding_problems(SCHEMAS, document["schema"], "$.schema")
    if document.get("partition-specs") is None:
        if document.get("partition-spec") is None:
            yield Problem(where="$.partition-spec", what="is required, and is missing; partition-specs can replace it")
        else:
            try:
                fields_from_json(document["partition-spec"], where="$.partition-spec")
            except IcefloeError as error:
                yield from error.problems or (Problem(where="$.partition-spec", what=error.message),)


def list_problems(entries: object, kind: EntryKind[Any]) -> Iterator[Problem]:
    """Yield every problem of one list of parsed metadata JSON: problems of its entries, and ids that occur twice."""
    seen: set[int] = set()
    for position, entry in enumerate(entries if isinstance(entries, list) else ()):
        path = f"$.{kind.key}[{position}]"
        yield from _decoding_problems(kind, entry, path)
        entry_id = entry.get(kind.id_key, kind.default_id) if kind.id_key is not None and isinstance(entry, Mapping) else None
        if isinstance(entry_id, int) and kind not in _IDS_MAY_REPEAT:
            if entry_id in seen:
                yield Problem(where=f"{path}.{kind.id_key}", what=f"{entry_id} occurs twice")
            seen.add(entry_id)


def _decoding_problems(kind: EntryKind[Any], entry: object, path: str) -> Iterator[Problem]:
    try:
        kind.decode(entry, path)
    except IcefloeError as error:
        yield from error.problems or (Problem(where=path, what=error.message),)


def _refs_problems(refs: object) -> Iterator[Problem]:
    for name, ref in refs.items() if isinstance(refs, Mapping) else ():
        try:
            snapshot_ref_from_json(ref, f"$.refs.{name}")
        except IcefloeError as error:
            yield from error.problems or (Problem(where=f"$.refs.{name}", what=f"found {kind_of(ref)}"),)


# For each top-level key with an id, the list that must have an entry with this id.
_ID_REFERENCES = (
    ("current-schema-id", SCHEMAS),
    ("default-spec-id", PARTITION_SPECS),
    ("default-sort-order-id", SORT_ORDERS),
    ("current-snapshot-id", SNAPSHOTS),
)


def _reference_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each referenced id that no entry has. `invariants.py` has the same rules for decoded metadata."""
    for key, kind in _ID_REFERENCES:
        entry_id, entries = document.get(key), document.get(kind.key)
        if not isinstance(entry_id, int) or not isinstance(entries, list) or (kind is SNAPSHOTS and entry_id == NO_SNAPSHOT_ID):
            continue
        if not any(isinstance(entry, Mapping) and entry.get(kind.id_key or "", kind.default_id) == entry_id for entry in entries):
            yield Problem(where=f"$.{key}", what=f"there is no entry with {kind.id_key} {entry_id} in {kind.key}")
