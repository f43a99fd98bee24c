"""Another process that speaks Py4J's callback protocol: it connects to a port, calls each Python object by its number, and prints the responses.

`python callback_client.py PORT MOST_IDS [TOKEN]` calls at once; with `later` instead of the token it connects, and calls after a line on its standard input.
Each connection makes one call: the bytes of a refused message that the server did not read would be taken for the next message.
"""

import socket
import sys
from contextlib import ExitStack


def asked(stream: socket.socket, message: str) -> str:
    """Return the first line of the response; empty if the other side closes the connection."""
    try:
        stream.sendall(message.encode())
        return stream.makefile("rb").readline().decode().strip()
    except OSError as error:
        return f"refused {type(error).__name__}"


def main(port: int, most_ids: int, token: str | None, *, waits: bool) -> None:
    """Call every object. Those of Icefloe return a text for any message."""
    with ExitStack() as opened:
        streams = [opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(most_ids)]
        if waits:
            print("connected", flush=True)
            sys.stdin.readline()
        for number, stream in enumerate(streams):
            if token is not None:
                print("token", asked(stream, f"A\n{token}\ne\n"))
            print(f"p{number}", asked(stream, f"c\np{number}\napply\nsdescribe\nsnull\ne\n"))


if __name__ == "__main__":
    waiting = sys.argv[3:] == ["later"]
    main(int(sys.argv[1]), int(sys.argv[2]), None if waiting else next(iter(sys.argv[3:]), None), waits=waiting)
