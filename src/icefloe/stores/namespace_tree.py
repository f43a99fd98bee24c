"""`namespaces_below`: all namespaces below a namespace, with a limit for servers whose listing never ends.

Spec: REST catalog, listNamespaces.
"""

from collections.abc import Callable, Iterator, Sequence

from icefloe.errors import MetadataFormatError
from icefloe.spec.identifier import Identifier, dotted

# The maximum of levels, and of namespaces in one namespace; with more, the listing counts as endless.
MOST_LEVELS, MOST_NAMESPACES = 64, 100_000


def namespaces_below(list_namespaces: Callable[[Identifier], Sequence[Identifier]], parent: Identifier = ()) -> Iterator[Identifier]:
    """Yield all namespaces below a namespace, each before the namespaces inside it.

    Args:
        list_namespaces: Returns the namespaces directly inside a namespace.
        parent: The namespace; empty for the whole catalog.

    Raises:
        NoSuchNamespaceError, StorageError: Errors of `list_namespaces`.
        MetadataFormatError: The listing exceeds the limits.
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
