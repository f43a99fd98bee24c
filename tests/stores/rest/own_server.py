"""`icefloe serve` in a thread of this process, for a catalog of any kind."""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from tests.server.openapi import CheckedApplication

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.server.application import application
from icefloe.server.served_locations import strict_properties
from icefloe.server.server_settings import Delegation, ServerLimits, ServerSettings


@contextmanager
def own_server(
    folder: Path, *, warehouse: str = "", properties: Mapping[str, str] | None = None, delegation: Delegation | None = None, **limits: Any
) -> Iterator[str]:
    """Serve an empty SQL catalog, and yield the address.

    Args:
        folder: The folder of its database, and of its warehouse `lake` unless another one is given.
        warehouse: The location of the warehouse.
        properties: Properties of the catalog, such as the server's own keys to a store.
        delegation: How clients get access to files.
        **limits: Limits of the server.
    """
    if not warehouse:
        (folder / "lake").mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse or str(folder / "lake"), **(properties or {}))
    with serving(catalog, delegation=delegation, **limits) as address:
        yield address
    catalog.close()


@contextmanager
def serving(catalog: Catalog, *, delegation: Delegation | None = None, **limits: Any) -> Iterator[str]:
    """Serve a catalog, and yield the address. Responses are checked by the OpenAPI document where the environment names one.

    Args:
        catalog: The catalog.
        delegation: How clients get access to files.
        **limits: Limits of the server.
    """
    catalog.properties = strict_properties(catalog.properties, ())
    most = ServerLimits(requests_per_second=0, refused_per_second=0, **limits)
    settings = ServerSettings(catalog=catalog, users=None, limits=most, delegation=delegation or Delegation(), key=b"k" * 32)
    app = CheckedApplication(application(settings))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    listening.close()
    assert not app.problems, app.problems
