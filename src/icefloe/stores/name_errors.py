"""Errors about names of namespaces and tables, with the same wording for every store."""

from collections.abc import Callable, Iterable

from icefloe.errors import (
    IcefloeError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from icefloe.spec.identifier import Identifier, dotted

# The maximum of names in an error, of tables or of a namespace's content.
_SHOWN_TABLES, _SHOWN_CONTENT = 10, 5


def namespace_missing(catalog: str, namespace: Identifier, existing: Iterable[Identifier] | None = None) -> NoSuchNamespaceError:
    """Return the error for a namespace that does not exist. It lists `existing`, the namespaces that do."""
    message = f"namespace {dotted(namespace)!r} does not exist in catalog {catalog!r}"
    if existing is None:
        return NoSuchNamespaceError(message, next_step=f"create it with create_namespace({dotted(namespace)!r})")
    return NoSuchNamespaceError(
        f"namespace {dotted(namespace)!r} does not exist in catalog {catalog!r}",
        next_step=f"create it with create_namespace({dotted(namespace)!r}); there are: {', '.join(sorted(map(dotted, existing))) or 'none yet'}",
    )


def namespace_exists(catalog: str, namespace: Identifier) -> NamespaceAlreadyExistsError:
    """Return the error for a namespace that exists already."""
    return NamespaceAlreadyExistsError(f"namespace {dotted(namespace)!r} already exists in catalog {catalog!r}")


def namespace_not_empty(namespace: Identifier, content: Iterable[str]) -> NamespaceNotEmptyError:
    """Return the error for a namespace that cannot be dropped, which lists some of its content."""
    names = ", ".join(sorted(content)[:_SHOWN_CONTENT])
    return NamespaceNotEmptyError(f"namespace {dotted(namespace)!r} is not empty: it holds {names}", next_step="drop these first")


def table_missing(
    catalog: str, identifier: Identifier, list_tables: Callable[[Identifier], Iterable[Identifier]], why: str = ""
) -> NoSuchTableError:
    """Return the error for a table that does not exist. It lists the tables of the namespace, and gives the reason `why`."""
    return NoSuchTableError(
        f"table {dotted(identifier)!r} does not exist in catalog {catalog!r}{f': {why}' if why else ''}",
        next_step=_tables_hint(identifier[:-1], list_tables),
    )


def table_exists(catalog: str, identifier: Identifier) -> TableAlreadyExistsError:
    """Return the error for a name that an existing table has."""
    return TableAlreadyExistsError(
        f"table {dotted(identifier)!r} already exists in catalog {catalog!r}", next_step="load it, drop it, or choose another name"
    )


def _tables_hint(namespace: Identifier, list_tables: Callable[[Identifier], Iterable[Identifier]]) -> str:
    try:
        return f"the namespace holds {', '.join([*map(dotted, list_tables(namespace))][:_SHOWN_TABLES]) or 'no table'}"
    except IcefloeError as error:
        return error.next_step or error.message
