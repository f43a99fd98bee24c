from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores.rest.rest_double import OneTable, RestDouble, running

from icefloe.stores.rest import http_client


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RestDouble]:
    """A server whose responses the test writes; waits between tries are short."""
    monkeypatch.setattr(http_client, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(http_client, "LONGEST_RETRY_AFTER_S", 0.01)
    with running(RestDouble()) as double:
        yield double


@pytest.fixture
def stored(server: RestDouble, tmp_path: Path) -> OneTable:
    """The table `db.t` of the server."""
    return OneTable(server, str(tmp_path / "t"))
