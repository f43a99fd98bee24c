"""`NewNamespace`: creates the namespace of a new table, and drops it again if the table is not created.

`icefloe create` and loads of files use it; transactions of a catalog do not create namespaces. Spec: Metastore Tables.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from icefloe.catalog.catalog import Catalog
from icefloe.errors import CommitUnknownError, NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchNamespaceError, in_one_line
from icefloe.spec.identifier import Identifier, dotted

T = TypeVar("T")
LOG = logging.getLogger(__name__)
# How often a call is tried if other writers drop its namespace again and again.
TRIES = 10


class NewNamespace:
    """Creates the levels of one namespace, and drops the levels that it created if the table is not created.

    If several writers create a level at once, one succeeds; only that writer drops the level. A level whose creation was interrupted is kept, because another
    writer may have created it.
    """

    def __init__(self, catalog: Catalog, name: Identifier) -> None:
        """Prepare to create a namespace; nothing is created yet.

        Args:
            catalog: the catalog.
            name: the levels of the namespace.
        """
        self._catalog = catalog
        self.name = name
        self._created: list[Identifier] = []

    @property
    def is_created(self) -> bool:
        """Whether this object created the namespace."""
        return self.name in self._created

    def create(self) -> None:
        """Create the namespace, and each level above it, unless it exists.

        Raises:
            IcefloeError: as for `Catalog.create_namespace`.
        """
        for level in (self.name[:depth] for depth in range(1, len(self.name) + 1)):
            try:
                self._catalog.create_namespace(level)
            except NamespaceAlreadyExistsError:
                continue
            if level not in self._created:
                self._created.append(level)

    def create_for(self, make: Callable[[], T]) -> T:
        """Create the namespace, then call a function that needs it.

        Args:
            make: the function. It is called again if it raises `NoSuchNamespaceError`: another writer may have created the namespace, and dropped it because
                its own table was not created.

        Returns:
            The result of `make`.
        """
        for _ in range(TRIES - 1):
            self.create()
            try:
                return make()
            except NoSuchNamespaceError:
                continue
        self.create()
        return make()

    @contextmanager
    def dropped_on_error(self) -> Iterator[None]:
        """Drop the levels that this object created if the block fails or is interrupted.

        A level that is not empty is kept: the table may have been committed before the error, or another writer uses the namespace. If a level cannot be
        dropped, that is logged, and the error of the block is raised.

        Raises:
            CommitUnknownError: the block raised it: the table may have been committed, so nothing is dropped.
        """
        try:
            yield
        except CommitUnknownError:
            raise
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        while self._created:
            level = self._created.pop()
            try:
                self._catalog.drop_namespace(level)
            except NoSuchNamespaceError:
                continue
            except NamespaceNotEmptyError:
                return
            except Exception as error:  # noqa: BLE001  the error of the block is the one to raise, whatever the catalog fails with
                LOG.warning(
                    "the new namespace %s could not be dropped and remains: %s", in_one_line(dotted(level)), in_one_line(str(error))
                )
                return
