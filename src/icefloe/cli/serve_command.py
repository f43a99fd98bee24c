"""The commands `icefloe serve`, which runs the REST catalog server, and `icefloe server-user`, which adds users of the server."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from icefloe.cli.catalog_choice import CatalogChoice, open_catalog
from icefloe.cli.screen import print_message
from icefloe.cli.table_command import with_catalog_options
from icefloe.errors import InvalidInputError
from icefloe.io.loopback import LOOPBACK
from icefloe.lazy_imports import lazy_module
from icefloe.optional_packages import optional_module

if TYPE_CHECKING:  # these modules need uvicorn and Starlette, packages of the extra `server`
    from icefloe.server import access_control, served_locations, server_settings, users_file
    from icefloe.server import serve as server
else:
    access_control = lazy_module("icefloe.server.access_control")
    server = lazy_module("icefloe.server.serve")
    server_settings = lazy_module("icefloe.server.server_settings")
    served_locations = lazy_module("icefloe.server.served_locations")
    users_file = lazy_module("icefloe.server.users_file")

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on; without users only one of this machine.")]
Port = Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 for any free one.")]
UsersFile = Annotated[
    str | None, typer.Option("--users", metavar="FILE", help="Users with their tokens' digests and roles: see `server-user`.")
]
TokenFile = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="A file whose first line is the one token, of an admin of the whole catalog."),
]
Certificate = Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate chain, as PEM.")]
CertificateKey = Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate, as PEM.")]
BehindTls = Annotated[bool, typer.Option("--behind-tls", help="A proxy in front of the server ends TLS.")]
Workers = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Processes; several need a catalog in PostgreSQL.")]
AllowLocation = Annotated[
    list[str] | None,
    typer.Option("--allow-location", metavar="FOLDER", help="A folder outside the warehouse that clients may name; may be repeated."),
]
MaxBody = Annotated[int, typer.Option("--max-body", metavar="MIB", min=1, help="MiB of a request's body at most.")]
Timeout = Annotated[
    float, typer.Option("--request-timeout", metavar="SECONDS", min=1, help="Seconds until a request without a response fails.")
]
Rate = Annotated[
    float, typer.Option("--rate-limit", metavar="N", min=0, help="Requests of a user in a second, per worker; 0 for no limit.")
]
StopTimeout = Annotated[
    int, typer.Option("--stop-timeout", metavar="SECONDS", min=1, help="Seconds that a stopping server waits for running requests.")
]
StsRole = Annotated[
    str | None,
    typer.Option("--sts-role", metavar="ARN", help="Give clients temporary credentials of this role, for the folder of a table in S3."),
]
StsEndpoint = Annotated[str | None, typer.Option("--sts-endpoint", metavar="URL", help="The token service, where it is not that of AWS.")]
StsSeconds = Annotated[int, typer.Option("--sts-seconds", metavar="N", help="Seconds that temporary credentials are valid.")]
RemoteSigning = Annotated[bool, typer.Option("--remote-signing", help="Sign the requests of clients to S3, for files of their tables.")]
ServerLog = Annotated[
    str, typer.Option("--server-log", metavar="LEVEL", help="Level of the JSON log on standard error: INFO has each request.")
]
UserFile = Annotated[str, typer.Argument(metavar="FILE", help="The file of users; it is created if it does not exist.", show_default=False)]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user; an existing one gets a new token.", show_default=False)]
Grants = Annotated[
    list[str] | None,
    typer.Option(
        "--grant", metavar="ROLE[:NAMESPACE]", help="read, write or admin, in a namespace and below it or everywhere; may be repeated."
    ),
]
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@with_catalog_options
def serve(
    *,
    choice: CatalogChoice,
    host: Host = LOOPBACK,
    port: Port = 8181,
    users: UsersFile = None,
    token_file: TokenFile = None,
    tls_cert: Certificate = None,
    tls_key: CertificateKey = None,
    behind_tls: BehindTls = False,
    workers: Workers = 1,
    allow_location: AllowLocation = None,
    max_body: MaxBody = 16,
    request_timeout: Timeout = 120,
    rate_limit: Rate = 1000,
    stop_timeout: StopTimeout = 60,
    sts_role: StsRole = None,
    sts_endpoint: StsEndpoint = None,
    sts_seconds: StsSeconds = 3600,
    remote_signing: RemoteSigning = False,
    server_log: ServerLog = "INFO",
) -> None:
    """Serve a catalog to other engines, as an Iceberg REST catalog. Stop it with Ctrl-C or SIGTERM: requests that run are finished first."""
    optional_module("uvicorn", extra="server", feature="icefloe serve")
    optional_module("starlette", extra="server", feature="icefloe serve")
    if users is not None and token_file is not None:
        raise InvalidInputError("--users and --token-file are two ways to name who may use the server", next_step="choose one")
    if server_log.upper() not in _LEVELS:
        raise InvalidInputError(f"--server-log is {server_log!r}", next_step=f"choose {', '.join(_LEVELS)}")
    opened = open_catalog(choice, create=True)
    opened.properties = served_locations.strict_properties(opened.properties, allow_location or ())
    allowed = None
    if users is not None:
        allowed = users_file.read_users(users)
    elif token_file is not None:
        allowed = users_file.read_token(token_file)
    defaults = server_settings.ServerLimits()
    settings = server_settings.ServerSettings(
        catalog=opened,
        host=host,
        port=port,
        workers=workers,
        users=allowed,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        behind_tls=behind_tls,
        limits=replace(
            defaults, body_bytes=max_body * 1024 * 1024, request_s=request_timeout, requests_per_second=rate_limit, stop_s=stop_timeout
        ),
        delegation=server_settings.Delegation(
            sts_role=sts_role, sts_endpoint=sts_endpoint, sts_seconds=sts_seconds, signs_requests=remote_signing
        ),
        key=server.new_key(),
    )
    who = "no authentication, this machine alone" if allowed is None else f"users: {len(list(allowed))}"
    try:
        server.serve(
            settings,
            log_level=server_log.upper(),
            started=lambda address: print_message(f"icefloe: serving catalog {opened.name!r} at {address} ({who}); Ctrl-C stops it"),
        )
    except KeyboardInterrupt:
        print_message("icefloe: stopped")
    finally:
        logging.shutdown()


def server_user(file: UserFile, name: UserName, grant: Grants = None) -> None:
    """Add a user of the server to a file, and print the new token once. The file has only the digest of the token; restart the server to use it."""
    grants = tuple(access_control.Grant.of(text) for text in grant or ())
    print(users_file.add_user(file, name, grants))
