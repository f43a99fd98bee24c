"""Changes of a view that are collected and committed together at the end of a `with` block: a new version, other properties.

What they make of the metadata is `kernel/view/view_definition.py`. Spec: View spec, Versions; View spec, View Metadata (`properties`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Self

from icefloe.catalog_store.identifier import to_identifier
from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata.table_properties import property_texts
from icefloe.kernel.schema.arrow_schema import to_schema
from icefloe.kernel.view.view_definition import ViewEdit, check_queries, edit_updates, property_updates
from icefloe.kernel.view.view_properties import check_view_properties
from icefloe.table.pending_change import PendingChange
from icefloe.view.view_commit import CommitView
from icefloe.view.view_handle import ENGINE


class ReplaceViewVersion(PendingChange):
    """A new version of a view: what is not named here stays as the current version has it, the other dialects too.

    `with view.replace_version() as update: update.with_query("trino", "SELECT ...").with_schema(schema)`
    """

    def __init__(self, commit: CommitView) -> None:
        self._commit = commit
        self._edit = ViewEdit(summary=ENGINE)
        self._given: dict[str, str] = {}

    def with_query(self, dialect: str, sql: str) -> Self:
        """The SELECT statement of a dialect, in place of the one it may have. Raises `InvalidInputError`."""
        check_queries({dialect: sql})
        others = {known: text for known, text in self._edit.queries.items() if known.lower() != dialect.lower()}
        self._edit = replace(self._edit, queries={**others, dialect: sql}, dropped=self._edit.dropped - {dialect.lower()})
        return self

    def without_dialect(self, dialect: str) -> Self:
        """Drops the statement of a dialect, which the view property `replace.drop-dialect.allowed` must allow."""
        others = {known: text for known, text in self._edit.queries.items() if known.lower() != dialect.lower()}
        self._edit = replace(self._edit, queries=others, dropped=self._edit.dropped | {dialect.lower()})
        return self

    def with_schema(self, schema: object) -> Self:
        """The columns that the statements give, as a `Schema` or an Arrow schema. Raises `InvalidSchemaError`, `UnsupportedTypeError`."""
        self._edit = replace(self._edit, schema=to_schema(schema))
        return self

    def with_default_namespace(self, namespace: str | Iterable[str]) -> Self:
        """Where names without a namespace are looked for. Raises `InvalidIdentifierError`."""
        self._edit = replace(self._edit, default_namespace=to_identifier(namespace))
        return self

    def with_default_catalog(self, catalog: str | None) -> Self:
        """Where names without a catalog are looked for; None is the catalog that the view is in."""
        self._edit = replace(self._edit, default_catalog=catalog, keeps_catalog=False)
        return self

    def with_properties(self, properties: Mapping[str, object]) -> Self:
        """View properties to set in the same commit; others stay. Raises `InvalidPropertyError`."""
        texts = property_texts(properties, "view")
        check_view_properties(texts)
        self._given |= texts
        return self

    def commit(self) -> None:
        """Commits the new version; none is made where it would say what a known one says.

        Raises:
            InvalidInputError: a dialect would be lost that the view may not lose, or one to drop is not there.
            CommitConflictError, CommitUnknownError, NoSuchViewError
        """
        edit, given = self._edit, self._given
        self._commit(lambda base, now_ms: (*property_updates(base, given, ()), *edit_updates(base, edit, now_ms)))


class UpdateViewProperties(PendingChange):
    """`with view.update_properties() as update: update.set("comment", "daily counts").remove("old")`"""

    def __init__(self, commit: CommitView) -> None:
        self._commit = commit
        self._given: dict[str, str] = {}
        self._removed: dict[str, None] = {}

    def set(self, name: str, value: object) -> Self:
        """Raises `InvalidPropertyError` for a value that is no text or not what its property may be, `InvalidInputError` for one that is removed too."""
        if name in self._removed:
            raise InvalidInputError(f"the view property {name} is both set and removed", next_step="choose one")
        texts = property_texts({name: value}, "view")
        check_view_properties(texts)
        self._given |= texts
        return self

    def remove(self, name: str) -> Self:
        """One that is not there is no error. Raises `InvalidInputError` for one that is set too."""
        if name in self._given:
            raise InvalidInputError(f"the view property {name} is both set and removed", next_step="choose one")
        self._removed[name] = None
        return self

    def commit(self) -> None:
        """Commits all of it, nothing where all is so already. Raises `CommitConflictError`, `CommitUnknownError`, `NoSuchViewError`."""
        self._commit(lambda base, _: property_updates(base, self._given, tuple(self._removed)))
