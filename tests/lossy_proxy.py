"""A proxy for a PostgreSQL server that loses the reply to a COMMIT, or the COMMIT itself, on request."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum


class Loss(StrEnum):
    REPLY = "reply"  # the server receives COMMIT, the client no reply
    COMMIT = "commit"  # the server does not receive COMMIT
    LATE = "late"  # the connection of the client is closed first; the server receives COMMIT later


class LossyProxy:
    """Forwards bytes between clients and a loopback port. Each COMMIT removes the first item of `losses` and is lost that way."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.losses: list[Loss] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, server]
            threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        try:
            while content := source.recv(65536):
                if is_client and b"COMMIT" in content and self.losses:
                    self._lose(self.losses.pop(0), content, source, target)
                    return
                target.sendall(content)
        except OSError:
            pass
        finally:
            _close(target)

    @staticmethod
    def _lose(loss: Loss, content: bytes, client: socket.socket, server: socket.socket) -> None:
        if loss is Loss.REPLY:
            _close(client)
            server.sendall(content)
            time.sleep(0.2)
        elif loss is Loss.LATE:
            _close(client)
            time.sleep(0.7)
            server.sendall(content)
            time.sleep(0.2)
        else:
            _close(client)

    def close(self) -> None:
        for connection in self._sockets:
            _close(connection)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def lossy_proxy(target: int) -> Iterator[LossyProxy]:
    proxy = LossyProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
