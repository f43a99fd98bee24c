"""Rules about sources run in one process, which reads and walks the trees of all files once."""

from collections.abc import Generator
from functools import cache
from types import ModuleType

import pytest
from tests.architecture import sources


def uses_trees(item: pytest.Item) -> bool:
    """Return whether the module of a test uses trees of sources."""
    return isinstance(item, pytest.Function) and has_trees(item.module)


@cache
def has_trees(module: ModuleType) -> bool:
    """Return whether a module has a function that returns trees of sources."""
    shared = (sources.tree_of, sources.nodes_of)
    return any(value in shared for value in vars(module).values() if callable(value))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of modules that use trees of sources as one group of `--dist loadgroup`."""
    for item in items:
        if uses_trees(item):
            item.add_marker(pytest.mark.xdist_group("sources"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Free the trees after the last of these tests, which may be in another folder."""
    last = next((item for item in reversed(session.items) if uses_trees(item)), None)
    session.config.pluginmanager.register(FreeTrees(last))


class FreeTrees:
    """A plugin that frees the trees after a test."""

    def __init__(self, last: pytest.Item | None) -> None:
        self.last = last

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        """Free the trees after the test."""
        yield
        if item is self.last:
            sources.forget_trees()
