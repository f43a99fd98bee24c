"""A view of a catalog: its versions, its SQL by dialect, and when each version was current.

Spec: View spec, View Metadata; View spec, Versions; View spec, Version log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.catalog.catalog import Catalog
from icefloe.display.report import Column, Facts, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, time_text, within
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.schema.schema_json import type_to_json
from icefloe.spec.view.view_version import SQLViewRepresentation, ViewVersion
from icefloe.stores.namespace_tree import namespaces_below
from icefloe.view import view as stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """A column of the view's result; `type` is written as in metadata files."""

    name: str
    type: Any
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewVersionOverview:
    """One version of a view: its SQL by dialect, and the default namespace and catalog of unqualified names. A `default_catalog` of None is the view's own."""

    version_id: int
    timestamp_ms: int
    schema_id: int
    is_current: bool
    queries: Mapping[str, str]
    other_representations: tuple[str, ...]  # types of representations other than SQL
    default_catalog: str | None
    default_namespace: tuple[str, ...]
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLogLine:
    """One entry of the version log: a version and the time from which it was current."""

    timestamp_ms: int
    version_id: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ViewHistory(Reportable):
    """A view with its versions and its version log, both oldest first."""

    name: str
    uuid: str
    location: str
    metadata_location: str
    columns: tuple[ViewColumn, ...]  # the columns of the current version
    properties: Mapping[str, str]
    versions: tuple[ViewVersionOverview, ...]
    version_log: tuple[VersionLogLine, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        """Return the report, with the SQL of the current version.

        Args:
            most: The greatest number of lines of each list; None for all.
        """
        current = next(version for version in self.versions if version.is_current)
        facts = Facts(
            (
                ("location", self.location),
                ("metadata file", within(self.metadata_location, self.location)),
                ("names are looked for in", ".".join([current.default_catalog or "(the view's catalog)", *current.default_namespace])),
                *((f"property {name}", text) for name, text in sorted(self.properties.items())),
            )
        )
        columns = grid(
            f"columns ({len(self.columns)})",
            (Column("column", whole=True), Column("type"), Column("comment", rank=1)),
            [(column.name, str(column.type), column.doc or "") for column in self.columns],
            most,
        )
        queries = [
            part
            for dialect, sql in current.queries.items()
            for part in (Facts((), f"version {current.version_id} in {dialect}"), Prose(sql))
        ]
        versions = grid(
            f"versions ({len(self.versions):,}, oldest first)",
            (
                Column("version", is_number=True),
                Column("made", whole=True),
                Column("dialects", rank=2),
                Column("made by", rank=1),
                Column(""),
            ),
            [_version_row(version) for version in self.versions],
            most,
        )
        log = grid(
            "version log: which version was current from when",
            (Column("from", whole=True), Column("version", is_number=True)),
            [(time_text(line.timestamp_ms), str(line.version_id)) for line in self.version_log],
            most,
        )
        return Report(f"view {self.name}", (facts, columns, *queries, versions, log))


def view_history(source: stored.View) -> ViewHistory:
    """Return a view's versions, the SQL of each, and its version log, from its metadata alone.

    Args:
        source: The view.

    Returns:
        The versions and the version log, oldest first.
    """
    metadata = source.metadata
    return ViewHistory(
        name=source.full_name,
        uuid=metadata.view_uuid,
        location=metadata.location,
        metadata_location=source.metadata_location,
        columns=tuple(ViewColumn(name=field.name, type=type_to_json(field.field_type), doc=field.doc) for field in source.schema().fields),
        properties=dict(metadata.properties),
        versions=tuple(_overview(version, metadata.current_version_id) for version in metadata.versions),
        version_log=tuple(VersionLogLine(timestamp_ms=entry.timestamp_ms, version_id=entry.version_id) for entry in metadata.version_log),
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ViewListing(Reportable):
    """The full dotted names of the views of a catalog or namespace."""

    catalog: str
    views: tuple[str, ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        if not self.views:
            return Report("", (Prose(f"catalog {self.catalog} has no views"),))
        return Report("", (grid(f"views of {self.catalog}", (Column("view"),), [(name,) for name in self.views], most),))


def view_listing(source: Catalog, namespace: Identifier = ()) -> ViewListing:
    """Return the views of a namespace and of the namespaces below it; by default of the whole catalog.

    Args:
        source: The catalog.
        namespace: The levels of the namespace; empty for the whole catalog.

    Returns:
        The full dotted names of the views.

    Raises:
        NoSuchNamespaceError: The namespace does not exist.
        UnsupportedFeatureError: The catalog does not support views.
        StorageError: The catalog cannot be read.
    """
    return ViewListing(catalog=source.name, views=tuple(_names(source, namespace)))


def _names(source: Catalog, namespace: Identifier) -> list[str]:
    own = [dotted(name) for name in source.list_views(namespace)] if namespace else []
    below = namespaces_below(source.list_namespaces, namespace)
    return [*own, *(dotted(name) for inner in below for name in source.list_views(inner))]


def _overview(version: ViewVersion, current_id: int) -> ViewVersionOverview:
    shown = version.representations
    return ViewVersionOverview(
        version_id=version.version_id,
        timestamp_ms=version.timestamp_ms,
        schema_id=version.schema_id,
        is_current=version.version_id == current_id,
        queries={
            representation.dialect: representation.sql for representation in shown if isinstance(representation, SQLViewRepresentation)
        },
        other_representations=tuple(
            representation.type for representation in shown if not isinstance(representation, SQLViewRepresentation)
        ),
        default_catalog=version.default_catalog,
        default_namespace=version.default_namespace,
        summary=dict(version.summary),
    )


def _version_row(version: ViewVersionOverview) -> tuple[str, ...]:
    made_by = " ".join(version.summary[key] for key in ("engine-name", "engine-version") if key in version.summary)
    others = f" and {count_text(len(version.other_representations), 'other')}" if version.other_representations else ""
    return (
        str(version.version_id),
        time_text(version.timestamp_ms),
        ", ".join(version.queries) + others,
        made_by or "unknown",
        "current" if version.is_current else "",
    )
