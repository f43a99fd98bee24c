"""`start_connect_server`: start a Spark Connect server whose clients have Icefloe's catalogs in their SQL, without Icefloe in the client.

The server is Spark's own, running as a plugin of a classic session in this process. Each client has its own session on the server. All of these sessions have
Icefloe's parser. Before the first statement of a session, or its first use of a catalog, `NewSessions` attaches the catalogs. The Java side is
`bridge/java/SparkParser.java`.
"""

import logging
from collections.abc import Mapping

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import EngineError, InvalidInputError
from icefloe.io.loopback import LOOPBACK
from icefloe.spark.attach_catalog import CATALOG_CLASS, attach
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.callback_server import start_callbacks
from icefloe.spark.bridge.gateway import class_behind, gateway_of, java_message, static_method
from icefloe.spark.catalog.attached_catalogs import ATTACHED, PREFIX, SESSION_CATALOG, catalogs_of
from icefloe.spark.runtime.start_session import active_session
from icefloe.spark.session_with_catalogs import session

LOG = logging.getLogger(__name__)
PLUGIN, PLUGINS = "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.plugins"
ADDRESS, PORT, DEFAULT_PORT = "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port", 15002


class NewSessions(PythonCallback):
    """Attaches the catalogs to each new session of the server."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, Catalog]) -> None:
        self._spark = spark
        self._catalogs = catalogs
        self._keys: dict[str, list[str]] = {}  # the attached catalogs, by client session

    @connector_method
    def attach_session(self, created: JavaObject) -> None:
        """Attach the catalogs to a session. Raises the errors of `attach`."""
        self._drop_ended()
        of_client = SparkSession(self._spark.sparkContext, created)
        for name, catalog in self._catalogs.items():
            attach(of_client, name, catalog)
        self._keys[created.sessionUUID()] = [
            key for key, catalog in ATTACHED.items() if catalogs_of(of_client).get(catalog.name) is catalog
        ]

    def _drop_ended(self) -> None:
        """Drop the attached catalogs of sessions that clients have closed or that the server has ended, to release their memory."""
        try:
            service = getattr(class_behind(gateway_of(self._spark), "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
            entries = service.sessionManager().listActiveSessions().iterator()
            active = set()
            while entries.hasNext():
                active.add(entries.next().serverSessionId())
        except Py4JError as error:  # this version of Spark does not have the list of sessions
            LOG.debug("the sessions of clients cannot be listed: %s", java_message(error))
            return
        for session_id in [session_id for session_id in self._keys if session_id not in active]:
            for key in self._keys.pop(session_id):
                ATTACHED.pop(key, None)
                static_method(self._spark, "PythonBridge", "unregister", key)


def start_connect_server(
    catalogs: Mapping[str, Catalog | Mapping[str, str] | str | None],
    *,
    address: str = LOOPBACK,
    port: int = DEFAULT_PORT,
    conf: Mapping[str, str] | None = None,
    master: str | None = None,
) -> SparkSession:
    """Start a Spark Connect server in this process, whose clients have the catalogs in their SQL.

    Every client that can reach the port can run any code on the server, unless Spark's own settings require a token. So by default the server listens on
    loopback.

    Args:
        catalogs: Catalogs by SQL name, each in a form that `attach` accepts, in addition to those in the settings.
        address: The address on which the server listens.
        port: The port of the server.
        conf: Additional settings of Spark.
        master: The master URL, such as `local[*]`.

    Returns:
        The session of the server; its `stop()` ends the session and the server.

    Raises:
        EngineError: A session is already running in this process, or the server did not start.
        InvalidInputError: No catalog is passed or configured.
        NoSuchCatalogError: A configured catalog does not exist.
    """
    if active_session() is not None:
        raise EngineError("a session of Spark runs in this process already", next_step="start the server in a new process")
    settings = dict(conf or {})
    plugins = [name for name in settings.get(PLUGINS, "").split(",") if name.strip() and name.strip() != PLUGIN]
    settings |= {PLUGINS: ",".join([*plugins, PLUGIN]), ADDRESS: address, PORT: str(port)}
    spark = session(settings, catalogs=catalogs, master=master, app_name="icefloe connect-server")
    attached = {name: catalog.catalog for name, catalog in catalogs_of(spark).items()}
    if not attached:
        spark.stop()
        raise InvalidInputError(
            "the server has no catalog for its clients", next_step="name one, or set spark.sql.catalog.<name>=icefloe with its properties"
        )
    start_callbacks(gateway_of(spark))
    try:
        static_method(spark, "SparkParser", "attachToNewSessions", NewSessions(spark, attached))
    except Py4JError as error:
        raise EngineError(f"the catalogs cannot be given to the clients of the server: {java_message(error)}") from error
    # New sessions inherit these settings, so that Spark finds a catalog even before the first statement; every session has the session catalog.
    settings_of_new_sessions = spark._jsparkSession.sharedState().conf()
    for name in attached.keys() - {SESSION_CATALOG}:
        settings_of_new_sessions.set(PREFIX + name, CATALOG_CLASS)
    LOG.info("Spark Connect listens on %s:%d with the catalogs %s", address, port, ", ".join(attached))
    return spark
