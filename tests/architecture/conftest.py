"""Rules about sources run in one process, which reads and walks the trees of all files once."""

import pytest
from tests.architecture import sources


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of modules that use trees of sources as one group of `--dist loadgroup`."""
    shared = (sources.tree_of, sources.nodes_of)
    for item in items:
        if isinstance(item, pytest.Function) and any(value in shared for value in vars(item.module).values() if callable(value)):
            item.add_marker(pytest.mark.xdist_group("sources"))
