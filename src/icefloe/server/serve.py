"""`serve`: runs the server until SIGTERM or Ctrl-C. Then running requests are finished, and no new ones are accepted."""

import secrets
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from icefloe.errors import InvalidInputError
from icefloe.server.application import ApplicationFactory
from icefloe.server.bounded_connection import BoundedConnection
from icefloe.server.request_log import log_settings
from icefloe.server.server_settings import ServerSettings

KEY_BYTES = 32
BACKLOG = 1024
# The seconds that a worker may take to start, and later to reply to its supervisor, before it is killed. uvicorn's 5 s are too short for the
# imports of a worker on a busy machine: it was killed and started again without end.
WORKER_REPLY_S = 60


def new_key() -> bytes:
    """Return a new random key for a server."""
    return secrets.token_bytes(KEY_BYTES)


def serve(settings: ServerSettings, *, log_level: str = "INFO", started: Callable[[str], None] = lambda _: None) -> None:
    """Run the server until it is stopped.

    Args:
        settings: The settings of the server.
        log_level: The least level of logged records.
        started: Called with the server's address as soon as it listens.

    Raises:
        InvalidInputError: The address is in use or not an address of this machine, or the certificate cannot be read.
    """
    listening = _listen(settings)
    host, port = listening.getsockname()[:2]
    scheme = "http" if settings.tls_certificate is None else "https"
    config = server_config(settings, port, log_settings(log_level))
    try:
        started(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        if settings.workers > 1:
            Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()


def server_config(settings: ServerSettings, port: int, log_config: dict[str, Any] | None) -> uvicorn.Config:
    """Return the configuration of uvicorn.

    Args:
        settings: The settings of the server.
        port: The port of the listening socket.
        log_config: The configuration of logging; None to leave it unchanged.
    """
    limits = settings.limits
    return uvicorn.Config(
        ApplicationFactory(settings),
        factory=True,
        host=settings.host,
        port=port,
        workers=settings.workers,
        log_config=log_config,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        http=BoundedConnection,
        ws="none",
        limit_concurrency=limits.connections + 1,  # uvicorn refuses requests from this number of connections on
        timeout_keep_alive=limits.idle_s,
        timeout_graceful_shutdown=limits.stop_s,
        timeout_worker_healthcheck=WORKER_REPLY_S,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        lifespan="off",
    )


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host.strip("[]"), settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise InvalidInputError(
            f"the server cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            next_step="choose another --port, or stop what listens there",
        ) from error
    listening.set_inheritable(True)
    return listening
