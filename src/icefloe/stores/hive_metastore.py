"""`MetastoreSession`: a Thrift connection to a Hive metastore, with its settings and its errors.

The message classes, which are generated from Hive's interface definition, come from the package `pymetastore`, which the extra `hive` installs. The size of
responses is limited. Connections are plain TCP; if a metastore requires Kerberos, the error states this.
"""

import getpass
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from icefloe.errors import (
    IcefloeError,
    InvalidInputError,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
    in_one_line,
)
from icefloe.io.storage_errors import cause_without_secrets, without_secrets
from icefloe.optional_packages import optional_module

URI, USER, KERBEROS = "uri", "ugi", "hive.kerberos-authentication"
DEFAULT_PORT = 9083  # Origin: Hive's `metastore.thrift.port`.
# The timeout in seconds for connecting and for a response: the default of Hive's clients, because a slow change of a table may take minutes.
CONNECT_S, RESPONSE_S = 20, 600
# The limits of a response: bytes of a text, entries of a list, and characters of an error that are shown.
MAX_TEXT, MAX_ENTRIES, MAX_ERROR_TEXT = 1 << 27, 1 << 20, 2000
_FEATURE = "a catalog in a Hive metastore"
# Errors after which a request was certainly not carried out. After any other error, such as a lost connection, it may have been.
_DENIALS = frozenset(
    {"InvalidOperationException", "InvalidObjectException", "InvalidInputException", "NoSuchObjectException", "AlreadyExistsException"}
)
_NOT_CONNECTED = "NotConnected"


def hive_types() -> ModuleType:
    """Return the module with the message classes. Raises `NotInstalledError`."""
    return optional_module("pymetastore.hive_metastore.ttypes", extra="hive", feature=_FEATURE)


def user_of(properties: Mapping[str, str]) -> str:
    """Return the user name for the metastore: from the property `ugi`, or the user of this process."""
    if name := properties.get(USER, "").partition(":")[0]:
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user in a container may have no name
        return "unknown"


def setting(properties: Mapping[str, str], name: str) -> str | None:
    """Return a setting that Java reads from Hadoop's configuration; the catalog property has the same name, or the prefix `hadoop.`."""
    return properties.get(name, properties.get(f"hadoop.{name}"))


class MetastoreError(Exception):
    """A failed call of a Hive metastore, with the name of Hive's exception (empty if there was no response) and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    @property
    def is_denial(self) -> bool:
        """Whether the metastore certainly did not carry out the request."""
        return self.kind in _DENIALS or self.kind == _NOT_CONNECTED

    def as_icefloe_error(self, failure: str) -> IcefloeError:
        """Return the error to raise for a failure that the store does not handle itself."""
        if "Permission denied" in str(self) or "AccessControlException" in str(self):
            return StoragePermissionError(
                f"{failure}: the metastore denied it: {self}", next_step="grant the right to this user, or set another one (ugi)"
            )
        if "incompatible with the existing columns" in str(self):
            return InvalidInputError(
                f"{failure}: the metastore refused the types of its columns: {self}",
                next_step="set hive.metastore.disallow.incompatible.col.type.changes=false in the metastore",
            )
        if self.kind in _DENIALS:
            return InvalidInputError(
                f"{failure}: the metastore refused it: {self}", next_step="correct the value in the metastore's message"
            )
        if self.kind in ("", _NOT_CONNECTED):
            return StorageUnavailableError(f"{failure}: {self}", next_step="check the network and the address (uri), and try again")
        return StorageError(f"{failure}: {self.kind}: {self}", next_step="see the log of the metastore")


class MetastoreSession:
    """A connection to a metastore, opened at the first call and again after it was lost. Only one thread uses it at a time.

    Args of the constructor: `properties` are the catalog properties.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._transport: Any = None
        self._client: Any = None
        self._secrets = tuple(text for text in (properties.get(USER, "").partition(":")[2],) if text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            with suppress(Exception):
                self._transport.close()
        self._transport = self._client = None

    def call(self, operation: str, *arguments: Any) -> Any:
        """Call a method of the metastore once, without repeats. Raises `MetastoreError`."""
        thrift = optional_module("thrift.Thrift", extra="hive", feature=_FEATURE)
        self._connect()
        try:
            return getattr(self._client, operation)(*arguments)
        except thrift.TApplicationException as error:
            raise self._failure(type(error).__name__, error) from cause_without_secrets(error, self._secrets)
        except thrift.TException as error:
            if not hasattr(error, "thrift_spec"):
                # After an error in the transport or protocol, the rest of the response would be read as the next response.
                self.close()
                raise self._failure("", error) from cause_without_secrets(error, self._secrets)
            raise self._failure(type(error).__name__, error) from cause_without_secrets(error, self._secrets)
        except Exception as error:  # noqa: BLE001  sockets and the decoder have several classes
            self.close()
            raise self._failure("", error) from cause_without_secrets(error, self._secrets)

    def _connect(self) -> None:
        """Connect to the first metastore that responds. Raises `MetastoreError`."""
        if self._client is not None:
            return
        service = optional_module("pymetastore.hive_metastore.ThriftHiveMetastore", extra="hive", feature=_FEATURE)
        sockets = optional_module("thrift.transport.TSocket", extra="hive", feature=_FEATURE)
        transports = optional_module("thrift.transport.TTransport", extra="hive", feature=_FEATURE)
        protocols = optional_module("thrift.protocol.TBinaryProtocol", extra="hive", feature=_FEATURE)
        failures = []
        for host, port in addresses(self._properties.get(URI, "")):
            socket = sockets.TSocket(host, port)
            socket.setTimeout(CONNECT_S * 1000)
            transport = transports.TBufferedTransport(socket)
            try:
                transport.open()
                socket.setTimeout(RESPONSE_S * 1000)
                protocol = protocols.TBinaryProtocolAccelerated(transport, string_length_limit=MAX_TEXT, container_length_limit=MAX_ENTRIES)
                client = service.Client(protocol)
                if self._properties.get(USER):
                    name, _, group = self._properties[USER].partition(":")
                    client.set_ugi(name, [group] if group else [])
            except Exception as error:  # noqa: BLE001  as in `call`
                transport.close()
                failures.append(f"{host}:{port}: {without_secrets(str(error), self._secrets)}")
                continue
            self._transport, self._client = transport, client
            return
        raise MetastoreError(_NOT_CONNECTED, f"no metastore responds: {'; '.join(failures)}")

    def _failure(self, kind: str, error: Exception) -> MetastoreError:
        text = in_one_line(str(getattr(error, "message", None) or error)[:MAX_ERROR_TEXT])
        return MetastoreError(kind, without_secrets(text if kind else f"{type(error).__name__}: {text}", self._secrets))


@lru_cache(maxsize=32)
def addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """Return the host and port of each metastore in a `uri`, which separates them by commas. Raises `InvalidInputError`."""
    uris = []
    for text in filter(None, (part.strip() for part in uri.split(","))):
        try:
            parts = urlsplit(text)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            scheme, host, port = "", None, None
        if scheme != "thrift" or not host:
            raise InvalidInputError(
                "the uri of a catalog in a Hive metastore is not an address", next_step="write thrift://host:9083; commas separate several"
            )
        uris.append((host, port or DEFAULT_PORT))
    if not uris:
        raise InvalidInputError(
            "a catalog in a Hive metastore needs the metastore's address", next_step="set uri, such as thrift://host:9083"
        )
    return tuple(uris)


def check_settings(properties: Mapping[str, str]) -> None:
    """Refuse an invalid address or Kerberos. Raises `InvalidInputError`, `UnsupportedFeatureError`."""
    addresses(properties.get(URI, ""))
    if properties.get(KERBEROS, "").strip().lower() == "true":
        raise UnsupportedFeatureError(
            "the catalog's Hive metastore requires Kerberos (hive.kerberos-authentication), which Icefloe does not support",
            next_step="put a REST server with Kerberos before the metastore and use type: rest",
        )
