"""`served_address`: the address of a process of `icefloe serve`, once it replies."""

import subprocess
import time
import urllib.request
from pathlib import Path

# Requests that no proxy of the environment sees.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
START_S = 60


def served_address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until a server replies, and return the address that it has written to its log. Raises RuntimeError if it ends before."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        address = next((line.partition(" at ")[2].split(" ")[0] for line in log.read_text().splitlines() if " at http" in line), None)
        if address is not None:
            try:
                DIRECT.open(f"{address}/health", timeout=5).close()
                return address
            except OSError:
                pass
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
