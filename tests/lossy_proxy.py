"""A proxy in front of a PostgreSQL server that loses the reply to COMMIT, or the COMMIT itself, once it is told to."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum


class Loss(StrEnum):
    REPLY = "reply"  # COMMIT arrives, its reply does not
    COMMIT = "commit"  # COMMIT does not arrive
    LATE = "late"  # the client is cut off first; COMMIT arrives a while after


class LossyProxy:
    """Forwards bytes between clients and a port of loopback. `losses` are taken one for each COMMIT, from the first."""

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
        for one in self._sockets:
            _close(one)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def lossy_proxy(target: int) -> Iterator[LossyProxy]:
    proxy = LossyProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
