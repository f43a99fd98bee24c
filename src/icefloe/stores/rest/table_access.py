"""`TableAccess`: what a REST catalog gives for the files of one table: properties of the storage, vended credentials, and their renewal.

Credentials of `storage-credentials` win over those of `config`, and among them the longest prefix of the location. They are fetched again ahead of their
expiry, by this process or by the Spark task that holds a copy: it has what a request to the server needs, and of the user's other properties those of storage.
Spec: REST catalog, LoadTableResult, StorageCredential, loadCredentials.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from icefloe.errors import IcefloeError, StoragePermissionError, in_one_line
from icefloe.io.azure_accounts import ACCOUNT_NAMES
from icefloe.io.storage_errors import without_secrets
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.ports import VENDED_GOOGLE_TOKEN, StorageSettings
from icefloe.stores.rest.load_result import LoadTableResult, StorageCredential, credentials_of, load_result
from icefloe.stores.rest.origins import origin_of
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.storage_trust import (
    GOOGLE_TOKEN,
    S3,
    SAME_STORE,
    STORE_OF_SCHEME,
    has_credentials,
    hosts_of_server,
    is_account,
    names_credentials,
    trusted_properties,
)

LOG = logging.getLogger(__name__)
# Properties of storage that a server may set for a table.
STORAGE_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "client.region")
# Those of the user's own.
OWN_PREFIXES = (*STORAGE_PREFIXES, "client.")
# Properties of storage that are the user's alone: they choose among the credentials of this machine.
_OF_USER = frozenset({"s3.profile-name", "client.profile-name"})

# Names under which servers send the time of expiry, in milliseconds since 1970.
_EXPIRIES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms", "expiration-time")
# Names of Java and of servers for properties of Icefloe.
_NAMES = {"client.region": "s3.region"}
REMOTE_SIGNING = "s3.remote-signing-enabled"
MOST_MARGIN_S = 300.0
# Seconds between two requests for credentials that failed, or that brought no newer ones.
LEAST_WAIT_S = 1.0


class _Signed(msgspec.Struct):
    uri: str
    headers: dict[str, list[str] | str | None] | None = None


@dataclass(frozen=True, slots=True)
class _Grant:
    """What the server has sent for a table's files, in one value: a thread that reads it never sees parts of two responses.

    Attributes:
        config: The properties for the table.
        credentials: The credentials by prefix.
    """

    config: dict[str, str]
    credentials: tuple[StorageCredential, ...]

    def credential_for(self, location: str) -> dict[str, str] | None:
        """Return the credential with the longest prefix of a location; None if no prefix matches."""
        place = _comparable(location)
        matching = [credential for credential in self.credentials if place.startswith(_comparable(credential.prefix))]
        return max(matching, key=lambda credential: len(credential.prefix)).config if matching else None

    def sent_for(self, location: str) -> dict[str, str]:
        """Return the properties that the server sent for a location."""
        return {**self.config, **(self.credential_for(location) or {})}


class TableAccess:
    """The properties for a table's files. See `icefloe.spec.ports.StorageAccess`.

    Args:
        connection: The catalog.
        identifier: The table.
        own: The user's properties of storage.
        defaults: The server's properties of storage for all tables, which the user's own ones replace.
        config: The server's properties for the table.
        credentials: The server's credentials by prefix.
        signing: The server's configuration of remote signing.
    """

    def __init__(
        self,
        connection: RestConnection,
        identifier: Identifier,
        *,
        own: Mapping[str, str],
        defaults: Mapping[str, str],
        config: Mapping[str, str],
        credentials: Iterable[StorageCredential],
        signing: Mapping[str, Any] | None = None,
    ) -> None:
        self._connection = connection
        self._identifier = identifier
        self._own = dict(own)
        self._defaults = dict(defaults)
        self._grant = _Grant(dict(config), tuple(credentials))
        self.signing = dict(signing) if signing is not None else None
        self._plan_id = ""
        self._reserved: tuple[str, ...] = ()
        self._fetched_at_s = time.time()
        self._next_fetch_s = self._renewal_time()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, connection: RestConnection, identifier: Identifier, result: LoadTableResult) -> "TableAccess":
        """Return the access that a server gives with a table."""
        own = {name: text for name, text in connection.own_properties.items() if text and name.startswith(OWN_PREFIXES)}
        return cls(
            connection,
            identifier,
            own=own,
            defaults={name: text for name, text in _of_server(connection.properties).items() if own.get(name) != text},
            config=result.config,
            credentials=result.storage_credentials,
            signing=result.remote_signing_config,
        )

    def of_plan(self, plan_id: str, credentials: Iterable[StorageCredential]) -> "TableAccess":
        """Return the access to the files of a scan that the server planned, with the credentials that it gave for them. Spec: REST catalog, loadCredentials."""
        access = TableAccess(
            self._connection,
            self._identifier,
            own=self._own,
            defaults=self._defaults,
            config=self.config,
            credentials=credentials,
            signing=self.signing,
        )
        access._plan_id = plan_id
        access._reserved = self._reserved
        return access

    @property
    def config(self) -> dict[str, str]:
        """The server's properties for the table."""
        return self._grant.config

    @property
    def token(self) -> str | None:
        """The bearer token for requests about the table, if the server gave one."""
        return self.config.get("token")

    def settings_for(self, location: str) -> StorageSettings:
        """Return how requests for a location are sent: by the server's signature where it signs and gave no key, else with credentials that are valid now.

        Args:
            location: A file of the table.
        """
        if time.time() >= self._next_fetch_s:
            self._renew()
        sent = self._grant.sent_for(location)  # once, because another thread may fetch others meanwhile
        given = _of_server(sent)
        own = trusted_properties({**self._defaults, **self._own, **given}, self._own)
        properties = {**self._defaults, **own, **given}
        self._check_keys(location, properties, sent)
        named = _with_own_names(properties, is_vended=GOOGLE_TOKEN in given or GOOGLE_TOKEN not in own)
        return StorageSettings(named, is_signed=_signs(sent))

    def _check_keys(self, location: str, properties: Mapping[str, str], sent: Mapping[str, str]) -> None:
        """Check that this machine's credentials, which the store's library takes where no other ones are set, are sent to no host that the server names."""
        store = STORE_OF_SCHEME.get(location.partition("://")[0].lower())
        if store is None:
            return
        if any(_comparable(location).startswith(folder) for folder in self._reserved) and not self._is_given(location, sent):
            raise StoragePermissionError(
                f"the server of table {dotted(self._identifier)!r} gives no credentials for a file in a folder that it gave credentials for before; "
                "those of your configuration and of this machine are not used in their place",
                path=location,
                next_step="if the files may be reached with your own credentials, add the folder to the catalog property io.allowed-locations and load the "
                "table again",
            )
        if has_credentials(store, location, properties) or (store is S3 and _signs(sent)):
            return
        named = hosts_of_server(store, properties, self._own)
        is_anonymous = store.anonymous is not None and properties.get(store.anonymous, "").lower() == "true"
        if named and not is_anonymous:
            shown = in_one_line(properties[named[0]])[:200]
            raise StoragePermissionError(
                f"the server of table {dotted(self._identifier)!r} sends requests for its files to {shown} and gives no credentials for it; this "
                "machine's own credentials are not sent to a host that a server names",
                path=location,
                next_step=f"if you trust that host, set the catalog property {named[0]} to it; or have the server vend credentials",
            )

    def expires_at_s(self, location: str) -> float | None:
        """Return when the credentials of a location expire, in seconds since 1970; None if the server sent no time."""
        return _expiry_s(self._grant.sent_for(location))

    def renew(self) -> bool:
        """Fetch new credentials, since the store refuses the present ones. Return whether there are new ones."""
        return time.time() - self._fetched_at_s >= LEAST_WAIT_S and self._renew()

    def gives(self, location: str) -> bool:
        """Return whether the server gives access to a location: credentials for its prefix, or signatures."""
        grant = self._grant
        return grant.credential_for(location) is not None or _signs(grant.sent_for(location))

    def reserves(self, folder: str) -> bool:
        """Return whether the server gives whole credentials, or signatures, for a folder; if so, its files are reached by these alone from now on.

        A server that could delete a file by itself gains nothing by leading this process to it. It may send other credentials later, or none for a part of
        the folder, so that the rule is kept at each use.
        """
        place = f"{_comparable(folder).rstrip('/')}/"
        if not self._is_given(place, self._grant.sent_for(place)):
            return False
        if place not in self._reserved:
            self._reserved = (*self._reserved, place)
        return True

    def _is_given(self, location: str, sent: Mapping[str, str]) -> bool:
        """Return whether requests for a location carry a whole credential of the server, or its signature, and no key of the user's."""
        store = STORE_OF_SCHEME.get(location.partition("://")[0].lower())
        if store is None:
            return False
        if store is S3 and _signs(sent):
            return True
        given = _of_server(sent)
        of_server = {**{name: text for name, text in self._defaults.items() if name not in self._own}, **given}
        own_keys = [name for name, text in self._own.items() if text and name.startswith(store.keys) and name not in given]
        return not own_keys and has_credentials(store, location, of_server)

    def vends_any(self, locations: Iterable[str]) -> bool:
        """Return whether the server gives credentials or signatures for one of several locations, by a prefix, with the table or for all tables."""
        grant = self._grant
        of_server = _of_server({**self._defaults, **grant.config})
        if not (grant.credentials or names_credentials(of_server) or grant.config.get(REMOTE_SIGNING)):
            return False
        return any(_vends(grant, location, of_server) for location in locations)

    def sign(self, method: str, uri: str, region: str, headers: Mapping[str, str], body: str | None) -> tuple[str, Mapping[str, str]]:
        """Return the address and the headers of a request to S3 that the server has signed. Spec: REST catalog, RemoteSignRequest.

        Args:
            method: The verb.
            uri: The address.
            region: The region of the bucket.
            headers: The headers.
            body: The body, of a request that lists objects to delete.

        Raises:
            StoragePermissionError: The server refuses to sign it, or leads it to another host.
        """
        signing = self.signing or {}
        request: dict[str, Any] = {
            "method": method,
            "uri": uri,
            "region": region,
            "headers": {name: [text] for name, text in headers.items()},
            "properties": signing.get("properties") or {},
            "provider": "s3",
            **({"body": body} if body is not None else {}),
        }
        sent = {name: ",".join(texts) for name, texts in (signing.get("headers") or {}).items()}
        reply = self._connection.sign(self._identifier, self._signing_endpoint(), request, headers=sent, token=self.token)
        if not reply.is_success:
            raise reply.error(f"the server signed no {method} for a file of table {dotted(self._identifier)!r}")
        signed = reply.parse(_Signed)
        if origin_of(signed.uri) != origin_of(uri):
            raise StoragePermissionError(
                f"the server of table {dotted(self._identifier)!r} signed a request to another host than that of its file",
                next_step="report it to the server's administrator",
            )
        headers_of_server = (signed.headers or {}).items()
        return signed.uri, {name: value if isinstance(value, str) else ", ".join(value) for name, value in headers_of_server if value}

    def _signing_endpoint(self) -> str | None:
        """Return the address of the endpoint that older servers send; None for that of the protocol."""
        config = self.config
        endpoint = config.get("signer.endpoint") or config.get("s3.signer.endpoint")
        base = config.get("signer.uri") or config.get("s3.signer.uri")
        if self.signing is not None or not (endpoint or base):
            return None
        endpoint = endpoint or "v1/aws/s3/sign"
        return endpoint if "://" in endpoint or not base else f"{base.rstrip('/')}/{endpoint.lstrip('/')}"

    def secrets(self) -> list[str]:
        """Return the texts that never appear in a message."""
        grant = self._grant
        configs = [grant.config, self._defaults, self._own, *(credential.config for credential in grant.credentials)]
        return [text for config in configs for name, text in config.items() if _is_secret(name) and text]

    def _renewal_time(self) -> float:
        """Return when the credentials are to be fetched again: ahead of the first expiry; never where the server sent none."""
        configs = (self._grant.config, *(credential.config for credential in self._grant.credentials))
        expiries = [expiry for config in configs if (expiry := _expiry_s(config)) is not None]
        if not expiries:
            return float("inf")
        expiry = min(expiries)
        return expiry - min(MOST_MARGIN_S, max(0.0, expiry - self._fetched_at_s) / 3)

    def _renew(self) -> bool:
        asked_at_s = self._fetched_at_s
        with self._lock:
            if self._fetched_at_s != asked_at_s:
                return True  # another thread has just fetched them
            try:
                credentials, config = self._fetch()
            except IcefloeError as error:
                shown = without_secrets(in_one_line(error.message), self.secrets())
                LOG.warning("%s; the present ones are used as long as the store takes them", shown)
                self._next_fetch_s = time.time() + LEAST_WAIT_S
                return False
            is_newer = bool(credentials) or any(map(_is_credential, config))
            # What came with the table has expired too, and must not be found where no prefix matches.
            remaining = {name: text for name, text in self.config.items() if not is_newer or not _is_credential(name)}
            self._grant = _Grant({**remaining, **config}, credentials if is_newer else self._grant.credentials)
            self._fetched_at_s = time.time()
            self._next_fetch_s = max(self._renewal_time(), time.time() + LEAST_WAIT_S)
            return is_newer

    def _fetch(self) -> tuple[tuple[StorageCredential, ...], dict[str, str]]:
        """Return new credentials by prefix, and those of the table's configuration: of a server without an operation for them, with the whole table."""
        if self._connection.paths.has(Endpoint.LOAD_CREDENTIALS):
            query = {"planId": self._plan_id} if self._plan_id else None
            reply = self._connection.request(Endpoint.LOAD_CREDENTIALS, self._identifier, query=query, token=self.token)
        else:
            headers = self._connection.delegation
            reply = self._connection.request(
                Endpoint.LOAD_TABLE, self._identifier, query={"snapshots": "refs"}, headers=headers, token=self.token
            )
        if not reply.is_success:
            raise reply.error(f"the credentials of table {dotted(self._identifier)!r} could not be fetched")
        if self._connection.paths.has(Endpoint.LOAD_CREDENTIALS):
            return credentials_of(reply), {}
        result = load_result(reply, self._identifier, self._connection.name)
        return result.storage_credentials, {name: text for name, text in result.config.items() if _is_credential(name)}

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_lock"}
        return {**state, "_connection": self._connection.for_requests(has_own_token=self.token is not None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"TableAccess({dotted(self._identifier)!r})"


def _vends(grant: _Grant, location: str, of_server: Mapping[str, str]) -> bool:
    store = STORE_OF_SCHEME.get(location.partition("://")[0].lower())
    is_given = grant.credential_for(location) is not None or (store is S3 and _signs(grant.sent_for(location)))
    return store is not None and (is_given or has_credentials(store, location, of_server))


def _signs(sent: Mapping[str, str]) -> bool:
    return sent.get(REMOTE_SIGNING, "").lower() == "true" and "s3.access-key-id" not in sent


def _comparable(location: str) -> str:
    """Return a location with one name for each store: `s3a://` and `S3://` are `s3://`."""
    scheme, colon, rest = location.partition(":")
    return f"{SAME_STORE.get(scheme.lower(), scheme.lower())}{colon}{rest}"  # a prefix may be a scheme alone


def _expiry_s(config: Mapping[str, str]) -> float | None:
    for name, text in config.items():
        if name.startswith(_EXPIRIES) and str(text).isdecimal() and len(str(text)) < 16:
            return int(text) / 1000
    return None


def _is_secret(name: str) -> bool:
    return any(part in name for part in ("secret", "token", "key", "password", "connection-string", "sas")) and "expires" not in name


def _is_credential(name: str) -> bool:
    return name in ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "gcs.oauth2.token") or name.startswith(
        ("adls.sas-token", *_EXPIRIES)
    )


def _of_server(properties: Mapping[str, str]) -> dict[str, str]:
    """Return those of the properties that configure storage and that a server may set; properties with an empty value are left out."""
    return {
        name: text
        for name, text in properties.items()
        if text and name.startswith(STORAGE_PREFIXES) and name not in _OF_USER and (name not in ACCOUNT_NAMES or is_account(text))
    }


def _with_own_names(properties: Mapping[str, str], *, is_vended: bool) -> dict[str, str]:
    """Return the properties under the names that Icefloe's storage has for them.

    Args:
        properties: The properties.
        is_vended: Whether the server sent the token of Google, which is then a token whatever its text: no method of signing in, and no file of this machine.
    """
    names = {**_NAMES, GOOGLE_TOKEN: VENDED_GOOGLE_TOKEN} if is_vended else _NAMES
    return {names.get(name, name): text for name, text in properties.items() if name not in names or names[name] not in properties}
