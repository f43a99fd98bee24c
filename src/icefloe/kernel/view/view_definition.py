"""`ViewDefinition`: what a view is made from, and the updates that give a view a new definition, a changed one, an older one, or other properties.

Queries are texts here: nothing parses them, since each is of a dialect of its own.
Spec: View spec, Versions; View spec, Representations; View spec, SQL representation.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.errors import InvalidInputError, Problem
from icefloe.kernel.metadata.layout_updates import LAST_ADDED, AddSchema
from icefloe.kernel.metadata.table_updates import RemoveProperties, SetLocation, SetProperties
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.view.view_metadata import ViewMetadata
from icefloe.kernel.view.view_updates import AddViewVersion, SetCurrentViewVersion, ViewUpdate
from icefloe.kernel.view.view_version import SQLViewRepresentation, ViewRepresentation, ViewVersion

FIRST_VERSION_ID = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """A SELECT statement for each dialect, the columns that it gives, and where its names without a namespace or catalog are looked for.

    `default_catalog` None is the catalog that the view is in.
    """

    queries: Mapping[str, str]
    schema: Schema
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)

    def version(self, *, version_id: int, schema_id: int, now_ms: int) -> ViewVersion:
        """The definition as a version made now. Raises `InvalidInputError` as `check_queries` does."""
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
    """What of the current version becomes another; all else of it stays. None stands for what stays, except that `keeps_catalog` says it of the catalog."""

    queries: Mapping[str, str] = field(default_factory=dict)  # of dialects that come or change
    dropped: frozenset[str] = frozenset()  # dialects, in lower case
    schema: Schema | None = None
    default_namespace: tuple[str, ...] | None = None
    default_catalog: str | None = None
    keeps_catalog: bool = True
    summary: Mapping[str, str] = field(default_factory=dict)


def check_queries(queries: Mapping[str, str]) -> None:
    """Raises `InvalidInputError` that lists what is wrong: no query at all, a dialect twice or without a name, a query that is empty or no SELECT."""
    problems = list(_query_problems(queries))
    if problems:
        raise InvalidInputError(
            "the queries of a view are not what they may be", problems=problems, next_step="give one SELECT statement for each dialect"
        )


def definition_updates(base: ViewMetadata, definition: ViewDefinition, now_ms: int) -> tuple[ViewUpdate, ...]:
    """The updates that make this the view's definition. Dialects that it lacks are lost: see `replace.drop-dialect.allowed`."""
    version = definition.version(version_id=_next_version_id(base), schema_id=LAST_ADDED, now_ms=now_ms)
    return AddSchema(definition.schema), AddViewVersion(version), SetCurrentViewVersion(LAST_ADDED)


def edit_updates(base: ViewMetadata, edit: ViewEdit, now_ms: int) -> tuple[ViewUpdate, ...]:
    """The updates that change the current version into a new one; none where nothing is edited.

    Raises:
        InvalidInputError: a dialect to drop is not there, or a query is wrong.
    """
    if edit == ViewEdit(summary=edit.summary):
        return ()
    if edit.queries:
        check_queries(edit.queries)
    current = base.version()
    unknown = edit.dropped - set(current.dialects)
    if unknown:
        known = ", ".join(current.dialects) or "none"
        raise InvalidInputError(f"the view has no SQL in dialect {', '.join(sorted(unknown))}", next_step=f"it has {known}")
    version = replace(
        current,
        version_id=_next_version_id(base),
        schema_id=LAST_ADDED,
        timestamp_ms=now_ms,
        summary=dict(edit.summary),
        representations=_edited(current.representations, edit.queries, edit.dropped),
        default_namespace=current.default_namespace if edit.default_namespace is None else edit.default_namespace,
        default_catalog=current.default_catalog if edit.keeps_catalog else edit.default_catalog,
    )
    return AddSchema(base.schema() if edit.schema is None else edit.schema), AddViewVersion(version), SetCurrentViewVersion(LAST_ADDED)


def rollback_updates(base: ViewMetadata, version_id: int) -> tuple[ViewUpdate, ...]:
    """The update that makes an older version the current one again. Raises `InvalidInputError` where the view does not have it any more."""
    if base.versions.position(version_id) is None:
        known = ", ".join(map(str, base.versions.ids()))
        raise InvalidInputError(f"the view has no version {version_id}", next_step=f"it has {known}; older ones are dropped in time")
    return (SetCurrentViewVersion(version_id),)


def property_updates(base: ViewMetadata, given: Mapping[str, str], removed: Collection[str]) -> tuple[ViewUpdate, ...]:
    """The updates that set and remove properties; those that are so already are left out."""
    changed = {name: text for name, text in given.items() if base.properties.get(name) != text}
    there = tuple(name for name in removed if name in base.properties)
    return (*((SetProperties(changed),) if changed else ()), *((RemoveProperties(there),) if there else ()))


def location_updates(base: ViewMetadata, location: str) -> tuple[ViewUpdate, ...]:
    """The update that moves the folder of later metadata files. Raises `InvalidInputError` for an empty location."""
    if not location.strip("/ "):
        raise InvalidInputError(f"{location!r} is no location for a view", next_step="pass a folder's path or URI")
    return () if location.rstrip("/") == base.location else (SetLocation(location),)


def _next_version_id(base: ViewMetadata) -> int:
    return max(base.versions.ids(), default=FIRST_VERSION_ID - 1) + 1


def _edited(shown: tuple[ViewRepresentation, ...], queries: Mapping[str, str], dropped: frozenset[str]) -> tuple[ViewRepresentation, ...]:
    """Changed queries in the place of the old ones, new ones behind; what is no SQL stays."""
    new = {dialect.lower(): SQLViewRepresentation(sql=sql, dialect=dialect) for dialect, sql in queries.items()}
    kept: list[ViewRepresentation] = []
    for one in shown:
        dialect = one.dialect.lower() if isinstance(one, SQLViewRepresentation) else None
        if dialect in new:
            kept.append(new.pop(dialect))
        elif dialect is None or dialect not in dropped:
            kept.append(one)
    return (*kept, *new.values())


def _query_problems(queries: Mapping[Any, Any]) -> Iterator[Problem]:
    if not queries:
        yield Problem(where="", what="there is no query: give the SELECT statement of at least one dialect")
    seen: set[str] = set()
    for dialect, sql in queries.items():
        if not isinstance(dialect, str) or not dialect.strip():
            yield Problem(where=repr(dialect), what="is no name of a dialect, such as spark or trino")
            continue
        if dialect.lower() in seen:
            yield Problem(where=dialect, what="stands twice; the case of a dialect's name does not matter")
        seen.add(dialect.lower())
        if not isinstance(sql, str) or not sql.strip():
            yield Problem(where=dialect, what="its SQL is empty")
        elif sql.split(None, 1)[0].upper() == "CREATE":
            yield Problem(where=dialect, what="its SQL is a CREATE statement; give the SELECT statement behind AS alone")
