"""Another process that speaks Py4J's callback protocol: connects to a port, asks each Python object by its number, and prints what is answered.

`python callback_client.py PORT MOST_IDS [TOKEN]` asks at once; with `later` in place of the token it connects, and asks when a line comes on its input.
A connection asks once: what the server leaves unread of a message that it refuses would be taken for the next one.
"""

import socket
import sys
from contextlib import ExitStack


def asked(stream: socket.socket, message: str) -> str:
    """The first line of the answer; empty where the other side hangs up."""
    try:
        stream.sendall(message.encode())
        return stream.makefile("rb").readline().decode().strip()
    except OSError as error:
        return f"refused {type(error).__name__}"


def main(port: int, most_ids: int, token: str | None, *, waits: bool) -> None:
    """Ask every object what it is. Icefloe's answer a text to any question."""
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
