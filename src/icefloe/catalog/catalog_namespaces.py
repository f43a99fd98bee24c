"""`CatalogNamespaces`: the methods of a catalog about namespaces, a base class of `Catalog`.

Spec: Metastore Tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from icefloe.catalog.catalog_base import CatalogBase, Name
from icefloe.errors import InvalidInputError, NamespaceAlreadyExistsError, NoSuchNamespaceError
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.stores.catalog_store import CatalogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceChange:
    """The result of `update_namespace_properties`: the names of the properties that it removed, set, or should have removed but did not find."""

    removed: list[str]
    updated: list[str]
    missing: list[str]


class CatalogNamespaces(CatalogBase):
    """Namespaces by name. Names are `"a.b"` or a tuple of levels."""

    store: CatalogStore

    def create_namespace(self, namespace: Name, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.
            properties: its properties; `location` is the parent folder of its tables.

        Raises:
            NamespaceAlreadyExistsError: the namespace exists.
            NoSuchNamespaceError: the server of a REST catalog requires the parent, which does not exist.
            InvalidIdentifierError, InvalidPropertyError: the catalog cannot store the name, or the value of a property.
            UnsupportedFeatureError: the catalog lacks namespaces of several levels, or properties of namespaces.
        """
        self.store.create_namespace(self.levels(namespace), property_texts(properties or {}, "namespace"))

    def create_namespace_if_not_exists(self, namespace: Name, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace unless it exists.

        Args:
            namespace: its name.
            properties: its properties; those of an existing namespace do not change.
        """
        try:
            self.create_namespace(namespace, properties)
        except NamespaceAlreadyExistsError:
            return

    def namespace_exists(self, namespace: Name) -> bool:
        """Return whether a namespace exists.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.
        """
        try:
            self.store.namespace_properties(self.levels(namespace))
        except NoSuchNamespaceError:
            return False
        return True

    def list_namespaces(self, namespace: Name = ()) -> list[Identifier]:
        """Return the namespaces directly below a parent namespace, sorted.

        Args:
            namespace: the parent; the top level by default.

        Raises:
            NoSuchNamespaceError: the parent does not exist.
        """
        return self.store.list_namespaces(self.levels(namespace) if namespace else ())

    def load_namespace_properties(self, namespace: Name) -> dict[str, str]:
        """Return the properties of a namespace.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
        """
        return self.store.namespace_properties(self.levels(namespace))

    def update_namespace_properties(
        self, namespace: Name, removals: Iterable[str] = (), updates: Mapping[str, str] | None = None
    ) -> NamespaceChange:
        """Remove and set properties of a namespace.

        Args:
            namespace: its name.
            removals: properties to remove; those that are not set are returned as missing.
            updates: values by property.

        Returns:
            The properties removed, set and missing.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
            InvalidPropertyError: the catalog cannot store the value of a property.
            InvalidInputError: a property is both removed and set.
        """
        levels, new_properties = self.levels(namespace), property_texts(updates or {}, "namespace")
        removed_names = frozenset(property_texts(dict.fromkeys(removals or (), ""), "namespace"))
        if removed_names & new_properties.keys():
            raise InvalidInputError(
                f"{', '.join(sorted(removed_names & new_properties.keys()))}: both removed and updated", next_step="choose one"
            )
        properties = self.store.namespace_properties(levels)
        self.store.update_namespace(levels, removals=removed_names, updates=new_properties)
        return NamespaceChange(
            removed=sorted(removed_names & properties.keys()),
            updated=sorted(new_properties),
            missing=sorted(removed_names - properties.keys()),
        )

    def drop_namespace(self, namespace: Name) -> None:
        """Remove an empty namespace.

        Args:
            namespace: its name, `"a.b"` or a tuple of levels.

        Raises:
            NoSuchNamespaceError: the namespace does not exist.
            NamespaceNotEmptyError: it contains namespaces, tables or views.
        """
        self.store.drop_namespace(self.levels(namespace))
