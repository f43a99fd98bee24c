"""`TableAccess`: the access to a table's files that a REST catalog provides: storage properties, vended credentials, and their renewal.

Credentials in `storage-credentials` override those in `config`; among them, the longest prefix of the location counts. They are fetched again before they
expire, by this process or by a Spark task with a copy of this object. The copy has what requests to the server need, and of the user's other properties only
the storage properties.
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
# Storage properties that a server may set for a table.
STORAGE_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "client.region")
# Storage properties that the user may set.
OWN_PREFIXES = (*STORAGE_PREFIXES, "client.")
# Storage properties that only the user may set, because they select among the credentials of this machine.
_OF_USER = frozenset({"s3.profile-name", "client.profile-name"})

# Names of the expiry time in servers' properties, in milliseconds since 1970.
_EXPIRIES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms", "expiration-time")
# Names of Java and of servers for Icefloe's properties.
_NAMES = {"client.region": "s3.region"}
REMOTE_SIGNING = "s3.remote-signing-enabled"
MOST_MARGIN_S = 300.0
# The seconds between two requests for credentials, if the first failed or brought no newer credentials.
LEAST_WAIT_S = 1.0


class _Signed(msgspec.Struct):
    uri: str
    headers: dict[str, list[str] | str | None] | None = None


@dataclass(frozen=True, slots=True)
class _Grant:
    """The server's grant for a table's files, in one immutable value, so that a reading thread never sees parts of two responses.

    Attributes:
        config: The server's properties for the table.
        credentials: The server's credentials by location prefix.
    """

    config: dict[str, str]
    credentials: tuple[StorageCredential, ...]

    def credential_for(self, location: str) -> dict[str, str] | None:
        """Return the credential with the longest prefix of a location; None if no prefix matches."""
        place = _comparable(location)
        matching = [credential for credential in self.credentials if place.startswith(_comparable(credential.prefix))]
        return max(matching, key=lambda credential: len(credential.prefix)).config if matching else None

    def sent_for(self, location: str) -> dict[str, str]:
        """Return the properties from the server for a location."""
        return {**self.config, **(self.credential_for(location) or {})}


class TableAccess:
    """The access to a table's files that a REST catalog provides: storage properties and vended credentials. See `icefloe.spec.ports.StorageAccess`.

    Args:
        connection: The connection to the catalog.
        identifier: The name of the table.
        own: The user's storage properties.
        defaults: The server's storage properties for all tables, which the user's properties override.
        config: The server's properties for the table.
        credentials: The server's credentials by location prefix.
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
        """Return the access that a server provides with a table."""
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
        """Return the access to the files of a scan that the server planned, with the credentials in the plan. Spec: REST catalog, loadCredentials."""
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
        """The bearer token for requests about the table; None if the server sent none."""
        return self.config.get("token")

    def settings_for(self, location: str) -> StorageSettings:
        """Return the storage properties for a location: remote signing if the server signs and sent no key, else valid credentials.

        Args:
            location: The location of a file of the table.
        """
        if time.time() >= self._next_fetch_s:
            self._renew()
        sent = self._grant.sent_for(location)  # read only once, because another thread may fetch new credentials meanwhile
        given = _of_server(sent)
        own = trusted_properties({**self._defaults, **self._own, **given}, self._own)
        properties = {**self._defaults, **own, **given}
        self._check_keys(location, properties, sent)
        named = _with_own_names(properties, is_vended=GOOGLE_TOKEN in given or GOOGLE_TOKEN not in own)
        return StorageSettings(named, is_signed=_signs(sent))

    def _check_keys(self, location: str, properties: Mapping[str, str], sent: Mapping[str, str]) -> None:
        """Check that credentials of this machine, which the store's library uses if no others are set, are not sent to a host that the server chose."""
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
        """Return the expiry time of the credentials for a location, in seconds since 1970; None if the server sent none."""
        return _expiry_s(self._grant.sent_for(location))

    def renew(self) -> bool:
        """Fetch new credentials, because the store refuses the current ones. Return whether there are new ones."""
        return time.time() - self._fetched_at_s >= LEAST_WAIT_S and self._renew()

    def gives(self, location: str) -> bool:
        """Return whether the server provides access to a location: credentials for its prefix, or signatures."""
        grant = self._grant
        return grant.credential_for(location) is not None or _signs(grant.sent_for(location))

    def reserves(self, folder: str) -> bool:
        """Return whether the server provides complete credentials, or signatures, for a folder. If so, its files are from now on accessed only with these.

        A server that can delete a file itself gains nothing from directing this process to it. Because it may send different credentials later, or none for a
        part of the folder, the rule is checked at each use.
        """
        place = f"{_comparable(folder).rstrip('/')}/"
        if not self._is_given(place, self._grant.sent_for(place)):
            return False
        if place not in self._reserved:
            self._reserved = (*self._reserved, place)
        return True

    def _is_given(self, location: str, sent: Mapping[str, str]) -> bool:
        """Return whether requests for a location use a complete credential or the signature of the server, and no key of the user."""
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
        """Return whether the server provides credentials or signatures for any of the locations, by a prefix, with the table or for all tables."""
        grant = self._grant
        of_server = _of_server({**self._defaults, **grant.config})
        if not (grant.credentials or names_credentials(of_server) or grant.config.get(REMOTE_SIGNING)):
            return False
        return any(_vends(grant, location, of_server) for location in locations)

    def sign(self, method: str, uri: str, region: str, headers: Mapping[str, str], body: str | None) -> tuple[str, Mapping[str, str]]:
        """Return the address and headers of a request to S3, signed by the server. Spec: REST catalog, RemoteSignRequest.

        Args:
            method: The HTTP method.
            uri: The address of the request.
            region: The region of the bucket.
            headers: The headers of the request.
            body: The body, if the request deletes a list of objects; otherwise empty.

        Raises:
            StoragePermissionError: The server refuses to sign the request, or redirects it to another host.
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
        """Return the address of the signing endpoint from older servers; None for the endpoint in the protocol."""
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
        """Return the time at which credentials must be fetched again, before the first of them expires; infinity without an expiry time."""
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
                return True  # another thread has just fetched new credentials
            try:
                credentials, config = self._fetch()
            except IcefloeError as error:
                shown = without_secrets(in_one_line(error.message), self.secrets())
                LOG.warning("%s; the present ones are used as long as the store takes them", shown)
                self._next_fetch_s = time.time() + LEAST_WAIT_S
                return False
            is_newer = bool(credentials) or any(map(_is_credential, config))
            # The credentials that came with the table have expired too, and must not be used where no prefix matches.
            remaining = {name: text for name, text in self.config.items() if not is_newer or not _is_credential(name)}
            self._grant = _Grant({**remaining, **config}, credentials if is_newer else self._grant.credentials)
            self._fetched_at_s = time.time()
            self._next_fetch_s = max(self._renewal_time(), time.time() + LEAST_WAIT_S)
            return is_newer

    def _fetch(self) -> tuple[tuple[StorageCredential, ...], dict[str, str]]:
        """Fetch new credentials, by loading the table if the server has no endpoint for credentials.

        Returns:
            The credentials for location prefixes; and the properties in the table's configuration that are credentials.
        """
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
    """Return a location with one scheme for each store, for example `s3://` for `s3a://` and `S3://`."""
    scheme, colon, rest = location.partition(":")
    return f"{SAME_STORE.get(scheme.lower(), scheme.lower())}{colon}{rest}"  # a prefix may be only a scheme


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
    """Return the storage properties that a server may set; properties with an empty value are dropped."""
    return {
        name: text
        for name, text in properties.items()
        if text and name.startswith(STORAGE_PREFIXES) and name not in _OF_USER and (name not in ACCOUNT_NAMES or is_account(text))
    }


def _with_own_names(properties: Mapping[str, str], *, is_vended: bool) -> dict[str, str]:
    """Return the properties under Icefloe's names for storage properties.

    Args:
        properties: The properties to rename.
        is_vended: Whether a Google token comes from the server. Then its text is always used as a token, and never as the name of a sign-in method or a local
            file.
    """
    names = {**_NAMES, GOOGLE_TOKEN: VENDED_GOOGLE_TOKEN} if is_vended else _NAMES
    return {names.get(name, name): text for name, text in properties.items() if name not in names or names[name] not in properties}
