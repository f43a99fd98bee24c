"""The authenticated connection from the JVM to Python objects.

Py4J's callback server listens on loopback, where every user of the machine can connect. PySpark starts it without a token, so that any client that sends the id
of an object (`p0`, `p1`, ...) could call its methods. This module gives both sides a random token: the JVM's client sends it, and the server refuses a
connection whose first command does not contain it. PySpark's own callbacks, for example for `foreachBatch`, use the same client.
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
    """Start the callback server of a gateway with a token, or set a token for the running server; further calls change nothing.

    Connections that were opened before the token was set keep working for the objects that existed then, but cannot call later objects.

    Args:
        gateway: The Py4J gateway of a classic session.

    Raises:
        EngineError: The JVM's version of Py4J has a different structure, so that the token cannot be set.
    """
    with _LOCK:
        # A gateway returns a Java package for any unknown attribute, so that only its own dictionary is read.
        attributes = gateway.__dict__
        server = attributes.get("_callback_server")
        if server is not None and attributes.get(_SERVER_ATTRIBUTE) is server:
            return
        token = secrets.token_urlsafe(32)
        # The server and its connections share an object with the parameters, and read the token from it when they start.
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
    """Give each open connection its own copy of the pool of objects. These connections are not authenticated, so they must not reach later objects."""
    pool = PythonProxyPool()
    with server.pool.lock:
        pool.dict.update(server.pool.dict)
        pool.next_id = server.pool.next_id
    for connection in list(server.connections):
        connection.pool = pool


def _authenticate_client(gateway: Any, token: str) -> None:
    """Replace the JVM's callback client by one that sends the token; Py4J's own reset would create a client without a token."""
    java_gateway = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway()
    old = java_gateway.getCallbackClient()
    address, port, collects = old.getAddress(), gateway._callback_server.get_listening_port(), old.isMemoryManagementEnabled()
    period = class_behind(gateway, "py4j.CallbackClient")
    sockets = class_behind(gateway, "javax.net.SocketFactory").getDefault()
    least_time, unit = period.DEFAULT_MIN_CONNECTION_TIME, period.DEFAULT_MIN_CONNECTION_TIME_UNIT
    if old.getClass().getName() == "py4j.PythonClient":  # PySpark's default: each thread of the JVM has its own thread in Python
        client = gateway.jvm.py4j.PythonClient(
            old.getGateway(), None, port, address, least_time, unit, sockets, old.getJavaServer(), collects, old.getReadTimeout(), token
        )
    else:
        client = gateway.jvm.py4j.CallbackClient(port, address, token, least_time, unit, sockets, collects, old.getReadTimeout())
    field = class_behind(gateway, "java.lang.Class").forName("py4j.Gateway").getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(java_gateway, client)
