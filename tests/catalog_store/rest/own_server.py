"""`icefloe serve` in a thread of this process, for an empty SQL catalog."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.server.application import application
from icefloe.server.served_locations import strict_properties
from icefloe.server.server_settings import ServerLimits, ServerSettings


@contextmanager
def own_server(folder: Path) -> Iterator[str]:
    """Serve a catalog whose database and warehouse `lake` are in a folder, and yield the address."""
    warehouse = folder / "lake"
    warehouse.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(warehouse))
    catalog.properties = strict_properties(catalog.properties, ())
    limits = ServerLimits(requests_per_second=0, refused_per_second=0)
    app = application(ServerSettings(catalog=catalog, users=None, limits=limits, key=b"k" * 32))
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
    catalog.close()
