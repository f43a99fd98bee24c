"""`ServerSettings`: the settings of `icefloe serve`: the catalog, the address, the users, the limits. It can be pickled for the workers."""

from dataclasses import dataclass, field, fields

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.io.loopback import LOOPBACK, is_loopback
from icefloe.server.access_control import Users

DEFAULT_PORT = 8181

# The limits for which 0 is allowed: it means no limit, or no waiting.
_MAY_BE_0 = frozenset({"requests_per_second", "refused_per_second", "plan_wait_s"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server.

    Attributes:
        body_bytes: The most bytes of a request's body.
        body_values: About the most values in the JSON of a body; commas in texts are counted too.
        filter_values: The most literals and conditions in the filter of a scan to plan.
        tables: The most tables of one transaction.
        commit_items: The most updates and requirements of a request. The expiry of snapshots may need an update for each snapshot.
        definitions: The most schemas, partition specs, sort orders and view versions that a request adds: each is compared with all others.
        columns: The most fields of all schemas of a request, at every depth.
        layout_fields: The most fields of a partition spec or a sort order.
        statistics: The most statistics files and blobs of a request.
        properties: The most properties that a request sets or removes.
        representations: The most representations of a view version.
        request_s: The seconds after which a request without a response fails.
        requests_per_second: The most requests of one user in a second, for each worker; 0 for no limit. A burst may have twice as many.
        refused_per_second: The most requests without a valid token from one address in a second, for each worker.
        threads: The number of operations that a worker runs at the same time. A catalog in a database has fewer than 15 connections.
        connections: The most connections of a worker. A new connection beyond them replaces the one that has waited longest for its client.
        idle_s: The seconds after which a connection is closed if its client sends no complete head of a request, or does not read its response.
        stop_s: The seconds that a stopping server waits for running requests.
        plan_wait_s: The seconds that a client waits for a planned scan before it must poll.
        files_of_page: The number of files in a response of planning.
    """

    body_bytes: int = 16 * 1024 * 1024
    body_values: int = 1_000_000
    filter_values: int = 100_000
    tables: int = 1_000
    commit_items: int = 20_000
    definitions: int = 100
    columns: int = 50_000
    layout_fields: int = 1_000
    statistics: int = 10_000
    properties: int = 10_000
    representations: int = 100
    request_s: float = 120.0
    requests_per_second: float = 1000.0
    refused_per_second: float = 10.0
    threads: int = 12
    connections: int = 1000
    idle_s: int = 30
    stop_s: int = 60
    plan_wait_s: float = 20.0
    files_of_page: int = 10_000

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            InvalidInputError: A limit allows nothing.
        """
        for limit in fields(self):
            name = limit.name
            if name in _MAY_BE_0:
                continue
            if getattr(self, name) <= 0:
                raise InvalidInputError(f"the limit {name} is {getattr(self, name)}", next_step="set it above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """The ways in which clients get access to the files of tables in S3.

    Attributes:
        sts_role: The role whose temporary credentials clients get, restricted to the folder of the table; None for no credentials.
        sts_endpoint: The address of the token service; None for the service of AWS.
        sts_seconds: The lifetime of the credentials in seconds.
        signs_requests: Whether the server signs requests of clients.
    """

    sts_role: str | None = None
    sts_endpoint: str | None = None
    sts_seconds: int = 3600
    signs_requests: bool = False

    def __post_init__(self) -> None:
        """Check the lifetime of credentials.

        Raises:
            InvalidInputError: The token service does not support the lifetime.
        """
        if not 900 <= self.sts_seconds <= 43200:
            raise InvalidInputError(f"credentials cannot be valid for {self.sts_seconds} s", next_step="choose 900 to 43200 seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of a server.

    Attributes:
        catalog: The catalog, whose properties have the strict policy of locations.
        host: The address to listen on.
        port: The port; 0 for a free one.
        workers: The number of processes.
        users: The users; None for a server without authentication, which listens only on loopback.
        tls_certificate: The file of the certificate chain; None for no TLS.
        tls_key: The file of the certificate's key.
        behind_tls: Whether a proxy in front of the server ends TLS, so that tokens may arrive without TLS.
        limits: The limits.
        delegation: The ways in which clients get access to files.
        key: The key with which the server signs access tokens and plan ids; the same in all workers.
    """

    catalog: Catalog
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    workers: int = 1
    users: Users | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    behind_tls: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    delegation: Delegation = field(default_factory=Delegation)
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            InvalidInputError: The settings are not safe, or contradict each other.
        """
        if self.users is None and not is_loopback(self.host):
            raise InvalidInputError(
                f"without authentication the server listens on loopback alone, and {self.host} is reached from other machines",
                next_step="give it users with --users FILE or --token-file FILE, or leave --host out",
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InvalidInputError("a certificate needs its key", next_step="give --tls-cert and --tls-key together")
        if self.users is not None and not is_loopback(self.host) and self.tls_certificate is None and not self.behind_tls:
            raise InvalidInputError(
                f"tokens would cross the network to {self.host} in plain text",
                next_step="give --tls-cert and --tls-key, or --behind-tls where a proxy in front of the server ends TLS",
            )
        if not 0 <= self.port < 65536:
            raise InvalidInputError(f"the port is {self.port}", next_step="choose one from 1 to 65535, or 0 for any free one")
        if self.workers < 1:
            raise InvalidInputError(f"the number of workers is {self.workers}", next_step="choose 1 or more")
        if self.workers > 1 and not (isinstance(self.catalog, SqlCatalog) and self.catalog.engine.dialect.name == "postgresql"):
            raise InvalidInputError(
                f"{self.workers} workers need a catalog in PostgreSQL, which they share; catalog {self.catalog.name!r} is not",
                next_step="use one worker, or a catalog with the uri postgresql://...",
            )
