"""`CatalogBase`: the methods of a catalog that do not use its store: functions on names, with PyIceberg's signatures, and the `with` block."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from icefloe.errors import InvalidIdentifierError
from icefloe.spec.identifier import Identifier, to_identifier

Name = str | Iterable[str]


class CatalogBase:
    """Functions on names, which do not read the catalog, and the `with` block, which closes it."""

    # Whether a server stores the names. Names may contain dots and slashes then.
    has_names_of_server = False

    def levels(self, name: Name) -> Identifier:
        """Return the levels of a name. Raises `InvalidIdentifierError` for a name that the catalog cannot store."""
        return to_identifier(name, of_server=self.has_names_of_server)

    @staticmethod
    def identifier_to_tuple(identifier: Name) -> Identifier:
        """Return the levels of a name: `("db", "t")` of `"db.t"`.

        Args:
            identifier: the name, or its levels.
        """
        return to_identifier(identifier)

    @staticmethod
    def table_name_from(identifier: Name) -> str:
        """Return the last level of a table's name.

        Args:
            identifier: the name, or its levels.
        """
        return to_identifier(identifier)[-1]

    @staticmethod
    def namespace_from(identifier: Name) -> Identifier:
        """Return the namespace of a table's name: all levels but the last.

        Args:
            identifier: the name, or its levels.
        """
        return to_identifier(identifier)[:-1]

    @staticmethod
    def namespace_to_string(identifier: Name, err: type[Exception] = InvalidIdentifierError) -> str:
        """Return a namespace as text, its levels joined with dots.

        Args:
            identifier: the namespace, or its levels.
            err: the error to raise for a namespace without levels, or with an empty one.
        """
        levels = (identifier,) if isinstance(identifier, str) else tuple(identifier)
        if not levels or not all(level.strip() for level in levels):
            raise err("a namespace has at least one level, and no level is empty")
        return ".".join(level.strip() for level in levels)

    def close(self) -> None:
        """Close the catalog's connections; a catalog without connections does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
