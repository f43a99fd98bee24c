"""Child process that serves the page of a table and opens its pages one after another: `exploring_child.py icefloe METADATA`.

It prints seconds until the first page is there, seconds until each page is complete, and its bytes.
"""

import json
import socket
import sys
import threading
import time
import urllib.request
from importlib import import_module

from planning_child import megabytes

# Seconds between two tries of a page that is not complete.
AGAIN_S = 0.05


def main(_engine: str, metadata: str) -> None:
    """Open the overview, and then every other page; importing and starting the server are not measured."""
    server = import_module("icefloe.explorer.server")
    sections = import_module("icefloe.explorer.page").SECTIONS
    uvicorn = import_module("uvicorn")
    static_table = import_module("icefloe.table.static_table").StaticTable
    listening = socket.create_server(("127.0.0.1", 0))
    application = server.application(server.OneTable(lambda: static_table.from_metadata(metadata)), typed=metadata)
    running = uvicorn.Server(uvicorn.Config(application, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    started = time.perf_counter()
    with opener.open(f"{address}/") as response:  # leads to the overview
        response.read()
        base = response.url.rpartition("/")[0]
    opened = time.perf_counter() - started
    complete, sizes = {}, {}
    queries = {"query": "?where=id+%3D+17", "contents": "?kind=manifest&manifest=1"}
    for section in sections:
        page, begun = (
            f"{base}/{section.name}{queries.get(section.name, '')}",
            started if section.name == "overview" else time.perf_counter(),
        )
        while True:
            with opener.open(page) as response:
                content, again = response.read(), response.headers.get("Refresh")
            if again is None:
                break
            time.sleep(AGAIN_S)
        complete[section.name], sizes[section.name] = time.perf_counter() - begun, len(content)
    running.should_exit = True
    thread.join(timeout=10)
    print(json.dumps({"opened": opened, "complete": complete, "bytes": sizes, "peak": megabytes("VmHWM")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
