"""`namespaces_below`: the namespaces in a namespace and in each other, of a catalog whose server may list them without end.

Spec: REST catalog, listNamespaces.
"""

from collections.abc import Callable, Iterator, Sequence

from icefloe.errors import MetadataFormatError
from icefloe.spec.identifier import Identifier, dotted

# Levels of a namespace, and namespaces in one, after which a catalog is taken for one that never ends.
MOST_LEVELS, MOST_NAMESPACES = 64, 100_000


def namespaces_below(list_namespaces: Callable[[Identifier], Sequence[Identifier]], parent: Identifier = ()) -> Iterator[Identifier]:
    """Yield the namespaces in a namespace, each before those in it.

    Args:
        list_namespaces: Returns the namespaces directly in one.
        parent: The namespace; empty for the whole catalog.

    Raises:
        NoSuchNamespaceError, StorageError: As `list_namespaces`.
        MetadataFormatError: They do not end.
    """
    waiting = [*reversed(list_namespaces(parent))]
    count = 0
    while waiting:
        namespace = waiting.pop()
        count += 1
        if len(namespace) > MOST_LEVELS or count + len(waiting) > MOST_NAMESPACES:
            raise MetadataFormatError(
                f"the catalog lists more than {MOST_NAMESPACES:,} namespaces, or namespaces of more than {MOST_LEVELS} levels, in each other without end: "
                f"{dotted(namespace)[:200]!r} is one",
                next_step="name a namespace; or report it to the server's maintainers",
            )
        yield namespace
        waiting += reversed(list_namespaces(namespace))
