"""`ViewDefinition`: the queries and columns of a view; and the updates that replace, edit or roll back the definition, or change properties.

Queries are not parsed, because each is in a different SQL dialect.
Spec: View spec, Versions; View spec, Representations; View spec, SQL representation.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.errors import InvalidInputError, Problem
from icefloe.spec.metadata.layout_updates import LAST_ADDED, AddSchema
from icefloe.spec.metadata.table_updates import RemoveProperties, SetLocation, SetProperties
from icefloe.spec.schema.schema import Schema
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_updates import AddViewVersion, SetCurrentViewVersion, ViewUpdate, new_schema_id, same_schema_of
from icefloe.spec.view.view_version import SQLViewRepresentation, ViewRepresentation, ViewVersion

FIRST_VERSION_ID = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """The definition of a view: a SELECT statement for each dialect, the columns, and the defaults for names without a catalog or namespace.

    If `default_catalog` is None, it is the catalog of the view.
    """

    queries: Mapping[str, str]
    schema: Schema
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)

    def version(self, *, version_id: int, schema_id: int, now_ms: int) -> ViewVersion:
        """Return the definition as a new version, created at the time `now_ms`.

        Raises:
            InvalidInputError: As in `check_queries`.
        """
        check_queries(self.queries)
        return ViewVersion(
            version_id=version_id,
            schema_id=schema_id,
            timestamp_ms=now_ms,
            summary=dict(self.summary),
            representations=tuple(SQLViewRepresentation(sql=sql, dialect=dialect) for dialect, sql in self.queries.items()),
            default_catalog=self.default_catalog,
            default_namespace=self.default_namespace,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewEdit:
    """Changes of a view's current version. Attributes that are None or empty change nothing. The default catalog changes only if `keeps_catalog` is False."""

    queries: Mapping[str, str] = field(default_factory=dict)  # new and changed queries, by dialect
    dropped: frozenset[str] = frozenset()  # dialects, in lower case
    schema: Schema | None = None
    default_namespace: tuple[str, ...] | None = None
    default_catalog: str | None = None
    keeps_catalog: bool = True
    summary: Mapping[str, str] = field(default_factory=dict)


def check_queries(queries: Mapping[str, str]) -> None:
    """Check the queries of a view.

    Raises:
        InvalidInputError: There is no query, a dialect is repeated or has an empty name, or a query is empty or not a SELECT. Every problem is listed.
    """
    problems = list(_query_problems(queries))
    if problems:
        raise InvalidInputError(
            "the queries of the view are invalid", problems=problems, next_step="give one SELECT statement for each dialect"
        )


def definition_updates(base: ViewMetadata, definition: ViewDefinition, now_ms: int) -> tuple[ViewUpdate, ...]:
    """Return the updates that replace the view's definition. Dialects that are not in `definition` are removed, see `replace.drop-dialect.allowed`."""
    version = definition.version(version_id=_next_version_id(base), schema_id=LAST_ADDED, now_ms=now_ms)
    return _version_updates(base, definition.schema, version)


def edit_updates(base: ViewMetadata, edit: ViewEdit, now_ms: int) -> tuple[ViewUpdate, ...]:
    """Return the updates that create a new version from the current version and the edit, or no updates if nothing changes.

    Raises:
        InvalidInputError: A dialect to drop does not exist, or a query is invalid.
    """
    if edit == ViewEdit(summary=edit.summary):
        return ()
    if edit.queries:
        check_queries(edit.queries)
    current = base.version()
    unknown = edit.dropped - set(current.dialects)
    if unknown:
        dialects = ", ".join(current.dialects) or "none"
        raise InvalidInputError(f"the view has no SQL in dialect {', '.join(sorted(unknown))}", next_step=f"it has {dialects}")
    version = replace(
        current,
        version_id=_next_version_id(base),
        schema_id=LAST_ADDED,
        timestamp_ms=now_ms,
        summary=dict(edit.summary),
        representations=_edit_queries(current.representations, edit.queries, edit.dropped),
        default_namespace=current.default_namespace if edit.default_namespace is None else edit.default_namespace,
        default_catalog=current.default_catalog if edit.keeps_catalog else edit.default_catalog,
    )
    return _version_updates(base, base.schema() if edit.schema is None else edit.schema, version)


def _version_updates(base: ViewMetadata, schema: Schema, version: ViewVersion) -> tuple[ViewUpdate, ...]:
    """Return the updates that make a version with this schema the current version.

    If the view already has the schema or the version, the updates contain its id. A REST catalog interprets the id -1 as the schema or version that the same
    commit added, so -1 is only used for these.
    """
    same_schema = same_schema_of(base, schema)
    if same_schema is None:
        added = Schema(*schema.fields, schema_id=new_schema_id(base), identifier_field_ids=schema.identifier_field_ids)
        return AddSchema(added, added.highest_field_id), AddViewVersion(version), SetCurrentViewVersion(LAST_ADDED)
    version = replace(version, schema_id=same_schema.schema_id)
    same_version = next((existing for existing in base.versions if existing.is_same_as(version)), None)
    if same_version is not None:
        return (SetCurrentViewVersion(same_version.version_id),)
    return AddViewVersion(version), SetCurrentViewVersion(LAST_ADDED)


def rollback_updates(base: ViewMetadata, version_id: int) -> tuple[ViewUpdate, ...]:
    """Return the update that makes an older version the current version.

    Raises:
        InvalidInputError: The view does not have the version, or no longer has it.
    """
    if base.versions.position(version_id) is None:
        version_ids = ", ".join(map(str, base.versions.ids()))
        raise InvalidInputError(f"the view has no version {version_id}", next_step=f"it has {version_ids}; the oldest versions are dropped")
    return (SetCurrentViewVersion(version_id),)


def property_updates(base: ViewMetadata, updates: Mapping[str, str], removals: Collection[str]) -> tuple[ViewUpdate, ...]:
    """Return the updates that set and remove properties. Properties that already have the value are left out."""
    changed = {name: text for name, text in updates.items() if base.properties.get(name) != text}
    removed = tuple(name for name in removals if name in base.properties)
    return (*((SetProperties(changed),) if changed else ()), *((RemoveProperties(removed),) if removed else ()))


def location_updates(base: ViewMetadata, location: str) -> tuple[ViewUpdate, ...]:
    """Return the update that changes the folder of later metadata files.

    Raises:
        InvalidInputError: The location is empty.
    """
    if not location.strip("/ "):
        raise InvalidInputError(f"{location!r} is not a location for a view", next_step="pass a folder's path or URI")
    return () if location.rstrip("/") == base.location else (SetLocation(location),)


def _next_version_id(base: ViewMetadata) -> int:
    return max(base.versions.ids(), default=FIRST_VERSION_ID - 1) + 1


def _edit_queries(
    representations: tuple[ViewRepresentation, ...], queries: Mapping[str, str], dropped: frozenset[str]
) -> tuple[ViewRepresentation, ...]:
    """Return the representations with changed queries at the same positions, and with new queries at the end. Other representations than SQL are kept."""
    new = {dialect.lower(): SQLViewRepresentation(sql=sql, dialect=dialect) for dialect, sql in queries.items()}
    edited: list[ViewRepresentation] = []
    for representation in representations:
        dialect = representation.dialect.lower() if isinstance(representation, SQLViewRepresentation) else None
        if dialect in new:
            edited.append(new.pop(dialect))
        elif dialect is None or dialect not in dropped:
            edited.append(representation)
    return (*edited, *new.values())


def _query_problems(queries: Mapping[Any, Any]) -> Iterator[Problem]:
    if not queries:
        yield Problem(where="", what="there is no query: give the SELECT statement of at least one dialect")
    seen: set[str] = set()
    for dialect, sql in queries.items():
        if not isinstance(dialect, str) or not dialect.strip():
            yield Problem(where=repr(dialect), what="is not the name of a dialect, such as spark or trino")
            continue
        if dialect.lower() in seen:
            yield Problem(where=dialect, what="is repeated; the letter case of a dialect is ignored")
        seen.add(dialect.lower())
        if not isinstance(sql, str) or not sql.strip():
            yield Problem(where=dialect, what="its SQL is empty")
        elif sql.split(None, 1)[0].upper() == "CREATE":
            yield Problem(where=dialect, what="its SQL is a CREATE statement; pass only the SELECT statement after AS")
