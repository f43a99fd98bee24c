"""`ViewVersion`: one version of a view's definition, in one or several SQL dialects. Versions never change.

`view_metadata.py` has the current version of a view.
Spec: View spec, Versions; View spec, Summary; View spec, Representations; View spec, SQL representation; View spec, Version log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_array, an_int, array_of, object_problems, refuse, strings_by_name

_VERSION_KEYS = (
    Key("version-id", an_int),
    Key("schema-id", an_int),
    Key("timestamp-ms", a_long),
    Key("summary", strings_by_name),
    Key("representations", an_array),
    Key("default-catalog", a_string, required=False),
    Key("default-namespace", array_of(a_string)),
)
_SQL_KEYS = (Key("type", a_string), Key("sql", a_string), Key("dialect", a_string))
_LOG_KEYS = (Key("timestamp-ms", a_long), Key("version-id", an_int))
SQL = "sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLViewRepresentation:
    """A SELECT statement in one dialect, such as `spark` or `trino`. The type is always `sql`."""

    sql: str
    dialect: str
    type: str = SQL


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownViewRepresentation:
    """A representation of an unknown type, which is kept for other engines. `content` is the whole JSON object."""

    type: str
    content: Mapping[str, Any]


ViewRepresentation = SQLViewRepresentation | UnknownViewRepresentation


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewVersion:
    """One version of a view.

    `timestamp_ms` is the time of creation, in milliseconds since 1970-01-01 UTC. Names in the SQL without a namespace are in `default_namespace` of
    `default_catalog`. If `default_catalog` is None, it is the catalog of the view.
    """

    version_id: int = 1
    schema_id: int = 0
    timestamp_ms: int = 0
    summary: Mapping[str, str] = field(default_factory=dict)
    representations: tuple[ViewRepresentation, ...] = ()
    default_catalog: str | None = None
    default_namespace: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "representations", tuple(self.representations))
        object.__setattr__(self, "default_namespace", tuple(self.default_namespace))

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects of the SQL representations, in lower case because their letter case is ignored."""
        return tuple(sql.dialect.lower() for sql in self.representations if isinstance(sql, SQLViewRepresentation))

    def sql_for(self, dialect: str) -> str | None:
        """Return the SELECT statement in a dialect, or None."""
        queries = (query for query in self.representations if isinstance(query, SQLViewRepresentation))
        return next((query.sql for query in queries if query.dialect.lower() == dialect.lower()), None)

    def is_same_as(self, other: "ViewVersion") -> bool:
        """Return True if the versions are equal, apart from id and timestamp."""
        return _definition(self) == _definition(other)


@dataclass(frozen=True, slots=True)
class VersionLogEntry:
    """The time at which a version became the current one, in milliseconds since 1970-01-01 UTC."""

    timestamp_ms: int
    version_id: int


def view_version_to_json(version: ViewVersion) -> dict[str, Any]:
    """Return a version as a JSON object.

    Spec: View spec, Versions.
    """
    document: dict[str, Any] = {
        "version-id": version.version_id,
        "timestamp-ms": version.timestamp_ms,
        "schema-id": version.schema_id,
        "summary": dict(version.summary),
    }
    if version.default_catalog is not None:
        document["default-catalog"] = version.default_catalog
    document["default-namespace"] = list(version.default_namespace)
    document["representations"] = [_representation_to_json(representation) for representation in version.representations]
    return document


def view_version_from_json(value: Any, path: str = "$") -> ViewVersion:
    """Return the version that parsed JSON describes.

    Raises:
        MetadataFormatError: Every problem is listed with its JSON path, starting with `path`.
    """
    problems = list(object_problems(value, path, _VERSION_KEYS))
    representations = value.get("representations") if isinstance(value, Mapping) else None
    for position, representation in enumerate(representations if isinstance(representations, list | tuple) else ()):
        is_sql = isinstance(representation, Mapping) and representation.get("type") == SQL
        problems += object_problems(representation, f"{path}.representations[{position}]", _SQL_KEYS if is_sql else _SQL_KEYS[:1])
    refuse(problems, "the view version")
    return ViewVersion(
        version_id=value["version-id"],
        schema_id=value["schema-id"],
        timestamp_ms=value["timestamp-ms"],
        summary=value["summary"],
        representations=tuple(_representation(item) for item in value["representations"]),
        default_catalog=value.get("default-catalog"),
        default_namespace=tuple(value["default-namespace"]),
    )


def _definition(version: ViewVersion) -> tuple[object, ...]:
    return (
        version.schema_id,
        version.summary,
        version.representations,
        version.default_catalog,
        version.default_namespace,
    )


def _representation(value: Mapping[str, Any]) -> ViewRepresentation:
    if value["type"] == SQL:
        return SQLViewRepresentation(sql=value["sql"], dialect=value["dialect"])
    return UnknownViewRepresentation(type=value["type"], content=dict(value))


def _representation_to_json(representation: ViewRepresentation) -> dict[str, Any]:
    if isinstance(representation, SQLViewRepresentation):
        return {"type": SQL, "sql": representation.sql, "dialect": representation.dialect}
    return dict(representation.content)


def _log_entry(value: Any, path: str) -> VersionLogEntry:
    refuse(list(object_problems(value, path, _LOG_KEYS)), "the version log")
    return VersionLogEntry(value["timestamp-ms"], value["version-id"])


def _log_entry_to_json(entry: VersionLogEntry) -> dict[str, Any]:
    return {"timestamp-ms": entry.timestamp_ms, "version-id": entry.version_id}


VERSIONS = EntryKind("versions", view_version_from_json, view_version_to_json, id_key="version-id")
VERSION_LOG = EntryKind("version-log", _log_entry, _log_entry_to_json)
