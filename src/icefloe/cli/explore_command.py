"""`icefloe explore`: a page that shows a table, either served on loopback or written as one file."""

import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from icefloe.cli.catalog_choice import CatalogChoice, is_path, open_catalog, open_table
from icefloe.cli.screen import print_message, step
from icefloe.cli.shared_options import SnapshotName, complete_name
from icefloe.cli.table_command import with_catalog_options
from icefloe.errors import InvalidInputError
from icefloe.explorer.standalone import HtmlPage, standalone
from icefloe.io.loopback import LOOPBACK
from icefloe.lazy_imports import lazy_module
from icefloe.optional_packages import optional_module

if TYPE_CHECKING:  # these modules need the packages of the extra `explore`
    import uvicorn

    from icefloe.explorer import server
else:
    uvicorn = lazy_module("uvicorn")
    server = lazy_module("icefloe.explorer.server")

_GRACE_S = 2  # seconds that running requests have after Ctrl-C
_WAITING = 128  # the most connections that wait for the server

Name = Annotated[
    str,
    typer.Argument(
        metavar="[TABLE]",
        help="A table by its name or the path of its metadata file; without it the tables of the catalog.",
        show_default=False,
        autocompletion=complete_name,
    ),
]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port; a free one by default.", show_default=False)]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Listen on this address of the machine instead of loopback."),
]
Html = Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write the page as one self-contained file, and serve nothing.")]
Where = Annotated[
    str | None, typer.Option("--where", metavar="FILTER", help="With --html: trace a query with this filter too.", show_default=False)
]


@with_catalog_options
def explore(
    *,
    name: Name = "",
    port: Port = 0,
    host: Host = None,
    html: Html = None,
    where: Where = None,
    snapshot: SnapshotName = None,
    choice: CatalogChoice,
) -> None:
    """Serve a page that shows a table from its catalog to the bytes of its files, what is wrong with it, and why queries read what they read."""
    if html is not None:
        _write(html, name, choice, where, snapshot)
        return
    if where is not None or snapshot is not None:
        raise InvalidInputError("--where and --snapshot are options of --html", next_step="choose filter and snapshot in the page")
    optional_module("starlette", extra="explore", feature="icefloe explore")
    optional_module("uvicorn", extra="explore", feature="icefloe explore")
    _serve(_tables(name, choice), name, choice, host, port)


def _write(html: str, name: str, choice: CatalogChoice, where: str | None, snapshot: str | None) -> None:
    if not name:
        raise InvalidInputError("--html writes the page of one table", next_step="name a table")
    reader = open_table(name, choice)
    with step(f"Writing the page of {name}"):
        page = standalone(
            reader, time.time_ns() // 1_000_000, typed=name, where=where, snapshot=snapshot, arguments=_arguments(name, choice)
        )
        target = HtmlPage(name=name, html=page).write(html)
    sys.stdout.write(f"{target}\n")


def _tables(name: str, choice: CatalogChoice) -> "server.OpenTables":
    """Return the tables to show. Errors of the table or the catalog are raised here, before the server starts."""
    if not name:
        opened = open_catalog(choice)
        opened.list_namespaces()
        return server.CatalogTables(opened)
    reader = open_table(name, choice)
    if is_path(name):
        return server.OneTable(lambda: reader)
    of_catalog = open_catalog(choice)
    return server.OneTable(lambda: of_catalog.load_table(name))


def _serve(tables: "server.OpenTables", name: str, choice: CatalogChoice, host: str | None, port: int) -> None:
    """Run the server until Ctrl-C."""
    address = LOOPBACK if host is None else host
    token = server.new_token()  # a token, because other users of the machine can reach loopback too
    hosts = frozenset() if host is None else frozenset({address.lower(), socket.gethostname().lower()})
    application = server.application(tables, typed=name, arguments=_arguments(name, choice), hosts=hosts, token=token)
    # There is no access log, because it would contain the token and the values of filters.
    config = uvicorn.Config(
        application, log_level="error", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=_GRACE_S
    )
    with _listening(address, port) as listening:
        shown = f"[{address}]" if ":" in address else address
        sys.stdout.write(f"http://{shown}:{listening.getsockname()[1]}/?{server.PARAMETER}={token}\n")
        sys.stdout.flush()
        print_message("Press Ctrl-C to stop.")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def _listening(address: str, port: int) -> socket.socket:
    """Return a socket that listens at an address and a port.

    Raises:
        InvalidInputError: The socket cannot listen there.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_WAITING)  # before the address is printed, so that a quick browser waits for the server
    except OSError as error:
        listening.close()
        what = f"cannot listen on {address}, port {port}: {error.strerror}"
        raise InvalidInputError(what, next_step="choose another port or address") from error
    return listening


def _arguments(name: str, choice: CatalogChoice) -> str:
    """Return the options that select the catalog; empty for a table that is named by its metadata file."""
    return "" if is_path(name) else choice.arguments
