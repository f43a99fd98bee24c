"""`icefloe connect-server`: a Spark Connect server, whose clients can use the catalogs in SQL."""

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from icefloe.cli.catalog_choice import CatalogChoice, open_catalog
from icefloe.cli.screen import print_message, step
from icefloe.cli.shared_options import CatalogUri, Warehouse
from icefloe.errors import InvalidInputError
from icefloe.io.loopback import LOOPBACK
from icefloe.lazy_imports import lazy_module

if TYPE_CHECKING:  # this import needs PySpark
    from icefloe.spark import connect_server as connect
else:
    connect = lazy_module("icefloe.spark.connect_server")

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog", metavar="NAME", help="A configured catalog, by its name in SQL too; may be given several times.", show_default=False
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", help="Listen on this address of the machine. Every client that reaches it can run code on the server."
    ),
]
Port = Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="The port.")]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be given several times.", show_default=False),
]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Where Spark runs, such as local[4].", show_default=False)]


def connect_server(
    catalog: Names = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    host: Host = LOOPBACK,
    port: Port = 15002,
    conf: Conf = None,
    master: Master = None,
) -> None:
    """Serve Spark Connect: clients have the catalogs in their SQL, with nothing of Icefloe on their side."""
    settings = dict(_setting(text) for text in conf or [])
    names = catalog or []
    if (uri or warehouse) and len(names) != 1:
        raise InvalidInputError("--uri and --warehouse describe one catalog", next_step="give it a name with --catalog")
    catalogs = {name: open_catalog(CatalogChoice(name=name, uri=uri, warehouse=warehouse)) for name in names}
    with step("Starting Spark Connect"):
        spark = connect.start_connect_server(catalogs, address=host, port=port, conf=settings, master=master)
    print_message(f"Spark Connect listens on sc://{host}:{port}; Ctrl-C ends it")
    try:
        threading.Event().wait()
    finally:
        spark.stop()


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInputError(f"--conf {text} is no setting", next_step="write --conf name=value")
    return name, value
