"""Changes of a view, which are collected and committed together at the end of a `with` block: `ReplaceViewVersion`, `UpdateViewProperties`.

`spec/view/view_definition.py` defines their effect on the metadata. Spec: View spec, Versions; View spec, View Metadata (`properties`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Self

from icefloe.errors import InvalidInputError
from icefloe.operations.pending_change import PendingChange
from icefloe.spec.identifier import to_identifier
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.spec.schema.arrow_schema import to_schema
from icefloe.spec.view.view_definition import ViewEdit, check_queries, edit_updates, property_updates
from icefloe.spec.view.view_properties import check_view_properties
from icefloe.view.view_commit import CommitView
from icefloe.view.view_handle import ENGINE


class ReplaceViewVersion(PendingChange):
    """A new version of a view, to be built by its methods and then committed. What is not set is copied from the current version, such as other dialects.

    `with view.replace_version() as update: update.with_query("trino", "SELECT ...").with_schema(schema)`
    """

    def __init__(self, commit: CommitView) -> None:
        self._commit = commit
        self._edit = ViewEdit(summary=ENGINE)
        self._properties_to_set: dict[str, str] = {}

    def with_query(self, dialect: str, sql: str) -> Self:
        """Set the SELECT statement of a dialect.

        Args:
            dialect: the dialect, such as `spark` or `trino`; upper and lower case are the same.
            sql: the statement; it replaces the view's present statement in this dialect, if there is one.

        Returns:
            This update.

        Raises:
            InvalidInputError: the statement or the dialect is empty, or the statement is not a SELECT.
        """
        check_queries({dialect: sql})
        others = {name: text for name, text in self._edit.queries.items() if name.lower() != dialect.lower()}
        self._edit = replace(self._edit, queries={**others, dialect: sql}, dropped=self._edit.dropped - {dialect.lower()})
        return self

    def without_dialect(self, dialect: str) -> Self:
        """Drop the statement of a dialect.

        The view property `replace.drop-dialect.allowed` must allow it; `commit` checks that.

        Args:
            dialect: the dialect; upper and lower case are the same.

        Returns:
            This update.
        """
        others = {name: text for name, text in self._edit.queries.items() if name.lower() != dialect.lower()}
        self._edit = replace(self._edit, queries=others, dropped=self._edit.dropped | {dialect.lower()})
        return self

    def with_schema(self, schema: object) -> Self:
        """Set the columns that the statements return.

        Args:
            schema: a `Schema` or an Arrow schema.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the columns violate a rule of the format.
            UnsupportedTypeError: a column has a type that Iceberg does not have.
        """
        self._edit = replace(self._edit, schema=to_schema(schema))
        return self

    def with_default_namespace(self, namespace: str | Iterable[str]) -> Self:
        """Set the namespace in which names without a namespace are resolved.

        Args:
            namespace: `"a.b"` or a tuple of levels.

        Returns:
            This update.

        Raises:
            InvalidIdentifierError: the namespace is empty, or has an empty level.
        """
        self._edit = replace(self._edit, default_namespace=to_identifier(namespace, of_server=True))
        return self

    def with_default_catalog(self, catalog: str | None) -> Self:
        """Set the catalog in which names without a catalog are resolved.

        Args:
            catalog: the catalog's name; None for the catalog that contains the view.

        Returns:
            This update.
        """
        self._edit = replace(self._edit, default_catalog=catalog, keeps_catalog=False)
        return self

    def with_properties(self, properties: Mapping[str, object]) -> Self:
        """Set view properties in the same commit; properties that are not named stay.

        Args:
            properties: values by name.

        Returns:
            This update.

        Raises:
            InvalidPropertyError: a property has a value that it cannot have.
        """
        texts = property_texts(properties, "view")
        check_view_properties(texts)
        self._properties_to_set |= texts
        return self

    def commit(self) -> None:
        """Commit the new version. If an existing version equals it, the existing version becomes the current one and no version is added.

        Raises:
            InvalidInputError: the new version lacks a dialect of the current version, which `replace.drop-dialect.allowed` forbids, or a dialect to drop does
                not exist.
            NoSuchViewError: the view was dropped, or another view has its name now.
            CommitConflictError: other writers won every retry, or changed the same thing.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        edit, properties = self._edit, self._properties_to_set
        self._commit(lambda base, now_ms: (*property_updates(base, properties, ()), *edit_updates(base, edit, now_ms)))


class UpdateViewProperties(PendingChange):
    """Changes of view properties, collected by its methods and then committed together.

    `with view.update_properties() as update: update.set("comment", "daily counts").remove("old")`
    """

    def __init__(self, commit: CommitView) -> None:
        self._commit = commit
        self._properties_to_set: dict[str, str] = {}
        self._removed: dict[str, None] = {}

    def set(self, name: str, value: object) -> Self:
        """Set a property.

        Args:
            name: the property.
            value: its value.

        Returns:
            This update.

        Raises:
            InvalidPropertyError: the property cannot have this value.
            InvalidInputError: the property is also removed.
        """
        if name in self._removed:
            raise InvalidInputError(f"the view property {name} is both set and removed", next_step="choose one")
        texts = property_texts({name: value}, "view")
        check_view_properties(texts)
        self._properties_to_set |= texts
        return self

    def remove(self, name: str) -> Self:
        """Remove a property. It is no error if the view does not have it.

        Args:
            name: the property.

        Returns:
            This update.

        Raises:
            InvalidInputError: the property is also set.
        """
        if name in self._properties_to_set:
            raise InvalidInputError(f"the view property {name} is both set and removed", next_step="choose one")
        self._removed[name] = None
        return self

    def commit(self) -> None:
        """Commit all changes; do nothing if none of them changes the view.

        Raises:
            NoSuchViewError: the view was dropped, or another view has its name now.
            CommitConflictError: other writers won every retry, or changed the same thing.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        self._commit(lambda base, _: property_updates(base, self._properties_to_set, tuple(self._removed)))
