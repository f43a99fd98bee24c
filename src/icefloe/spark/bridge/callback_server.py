"""The authenticated connection from the JVM to Python objects.

Py4J's callback server listens on loopback, where every user of the machine can connect, and PySpark starts it without a token. A client that sends the number
of an object (`p0`, `p1`, ...) can then call any of its methods. Here both sides get a random token: the server refuses a connection whose first command does
not contain it, and the JVM's client sends it. PySpark's own callbacks, such as those of `foreachBatch`, use the same client.
"""

import secrets
import threading
from typing import Any

from py4j.java_gateway import JavaObject, PythonProxyPool
from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started

from icefloe.errors import EngineError
from icefloe.spark.bridge.gateway import class_behind, java_message

_SERVER_ATTRIBUTE = "_icefloe_authenticated_server"
_LOCK = threading.Lock()


def start_callbacks(gateway: Any) -> None:
    """Start the callback server of a gateway with a token, or give a token to the running server; further calls change nothing.

    Connections that were opened before the server had a token keep working for the objects that they could reach then, and reach no later one.

    Args:
        gateway: The Py4J gateway of a classic session.

    Raises:
        EngineError: The JVM has a Py4J of another structure, so that no token can be set.
    """
    with _LOCK:
        # A gateway returns a package of Java for any attribute, so only its own dictionary is read.
        attributes = gateway.__dict__
        server = attributes.get("_callback_server")
        if server is not None and attributes.get(_SERVER_ATTRIBUTE) is server:
            return
        token = secrets.token_urlsafe(32)
        # One object holds the parameters of the server and of each of its connections, which read the token when they start.
        gateway.callback_server_parameters.auth_token = token
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        server = gateway._callback_server
        _separate(server)
        try:
            _authenticate_client(gateway, token)
        except Py4JError as error:
            raise EngineError(
                f"the callbacks of Spark's JVM cannot be authenticated: {java_message(error)}",
                next_step="start the session with PySpark's own Py4J, without a custom gateway",
            ) from error
        attributes[_SERVER_ATTRIBUTE] = server


def _separate(server: Any) -> None:
    """Give each open connection a separate pool with the objects of now: none was authenticated, so none may reach later objects."""
    pool = PythonProxyPool()
    with server.pool.lock:
        pool.dict.update(server.pool.dict)
        pool.next_id = server.pool.next_id
    for connection in list(server.connections):
        connection.pool = pool


def _authenticate_client(gateway: Any, token: str) -> None:
    """Replace the JVM's callback client by one that sends the token; Py4J's own reset creates one without a token."""
    java_gateway = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway()
    old = java_gateway.getCallbackClient()
    address, port, collects = old.getAddress(), gateway._callback_server.get_listening_port(), old.isMemoryManagementEnabled()
    period = class_behind(gateway, "py4j.CallbackClient")
    sockets = class_behind(gateway, "javax.net.SocketFactory").getDefault()
    least_time, unit = period.DEFAULT_MIN_CONNECTION_TIME, period.DEFAULT_MIN_CONNECTION_TIME_UNIT
    if old.getClass().getName() == "py4j.PythonClient":  # PySpark's default: each thread of the JVM has a thread of Python
        client = gateway.jvm.py4j.PythonClient(
            old.getGateway(), None, port, address, least_time, unit, sockets, old.getJavaServer(), collects, old.getReadTimeout(), token
        )
    else:
        client = gateway.jvm.py4j.CallbackClient(port, address, token, least_time, unit, sockets, collects, old.getReadTimeout())
    field = class_behind(gateway, "java.lang.Class").forName("py4j.Gateway").getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(java_gateway, client)
