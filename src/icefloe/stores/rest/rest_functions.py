"""Functions in a REST catalog: their names and definitions, read-only. Icefloe does not run their SQL.

Spec: REST catalog, listFunctions, loadFunction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from icefloe.errors import NoSuchNamespaceError, NotFoundError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.rest.http_reply import NOT_FOUND
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint


class _Names(msgspec.Struct):
    identifiers: list[list[str]] | None = None


class _LoadFunctionResult(msgspec.Struct, rename="kebab"):
    metadata: dict[str, Any]
    metadata_location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFunction:
    """A function of a catalog.

    Attributes:
        identifier: The name of the function.
        metadata_location: The location of its metadata file, if the server sends it.
        metadata: Its metadata as JSON: `function-uuid`, `format-version`, `definitions` with all overloads, `definition-log`.
    """

    identifier: Identifier
    metadata_location: str | None
    metadata: Mapping[str, Any] = field(repr=False)

    @property
    def doc(self) -> str:
        """The description; empty if there is none."""
        return str(self.metadata.get("doc") or "")

    @property
    def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """The overloads as JSON, each with `parameters`, `return-type` and `versions`."""
        definitions = self.metadata.get("definitions")
        return tuple(definition for definition in definitions if isinstance(definition, dict)) if isinstance(definitions, list) else ()


def list_functions(connection: RestConnection, namespace: Identifier) -> list[Identifier]:
    """Return the functions of a namespace, sorted.

    Raises:
        NoSuchNamespaceError: the namespace does not exist.
        UnsupportedFeatureError: the server does not support functions.
    """
    names: list[Identifier] = []
    for reply in connection.pages(Endpoint.LIST_FUNCTIONS, namespace):
        if reply.status == NOT_FOUND:
            raise NoSuchNamespaceError(f"namespace {dotted(namespace)!r} does not exist in catalog {connection.name!r}")
        if not reply.is_success:
            raise reply.error(f"the functions of {dotted(namespace)!r} could not be listed")
        names += [tuple(levels) for levels in reply.parse(_Names).identifiers or ()]
    return sorted(names)


def load_function(connection: RestConnection, identifier: Identifier) -> CatalogFunction:
    """Return a function with all its overloads.

    Raises:
        NotFoundError: the function does not exist.
        UnsupportedFeatureError: the server does not support functions.
    """
    reply = connection.request(Endpoint.LOAD_FUNCTION, identifier)
    if reply.status == NOT_FOUND:
        raise NotFoundError(
            f"function {dotted(identifier)!r} does not exist in catalog {connection.name!r}",
            next_step=f"look at the functions of the namespace {dotted(identifier[:-1])!r}",
        )
    if not reply.is_success:
        raise reply.error(f"the function {dotted(identifier)!r} could not be loaded")
    result = reply.parse(_LoadFunctionResult)
    return CatalogFunction(identifier=identifier, metadata_location=result.metadata_location, metadata=result.metadata)
