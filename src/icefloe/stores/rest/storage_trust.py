"""The credentials that requests for files may use, if the server of a REST catalog chooses the host or account that receives them.

Keys in the user's configuration, and keys of this machine (environment, profiles, roles), are sent only to hosts and accounts in the user's configuration. A
property counts as a credential only if it has the exact name that becomes an option of the store's library, and its value is not empty.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from icefloe.io.azure_accounts import CONNECTION_STRING, account_ends, account_of_keys
from icefloe.stores.rest.origins import origin_of


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of store: the properties that direct requests to a host, and the properties that are credentials.

    Attributes:
        hosts: Properties with a host that receives requests.
        keys: Prefixes of the names of credentials; for Azure, the name of the account may follow.
        sets: Sets of properties, each of which is a complete credential.
        anonymous: The property for requests without credentials; None if there is no such property.
    """

    hosts: tuple[str, ...]
    keys: tuple[str, ...]
    sets: tuple[frozenset[str], ...]
    anonymous: str | None = None


_KEYS_OF_S3 = ("access-key-id", "secret-access-key", "session-token")
_KINDS_OF_S3 = ("s3", "client")
S3 = Store(
    ("s3.endpoint", "s3.proxy-uri"),
    tuple(f"{kind}.{key}" for kind in _KINDS_OF_S3 for key in _KEYS_OF_S3),
    tuple(frozenset({f"{first}.access-key-id", f"{second}.secret-access-key"}) for first in _KINDS_OF_S3 for second in _KINDS_OF_S3),
    "s3.anonymous",
)
GOOGLE_TOKEN = "gcs.oauth2.token"  # noqa: S105  the name of a property
GOOGLE = Store(("gcs.service.host", "gcs.endpoint"), (GOOGLE_TOKEN,), (frozenset({GOOGLE_TOKEN}),), "gcs.no-auth")
_AZURE_KEYS = ("adls.account-key", "adls.auth.shared-key.account.key")
_AZURE_SAS = "adls.sas-token"
AZURE = Store(
    ("adls.account-host",),
    (*_AZURE_KEYS, _AZURE_SAS, CONNECTION_STRING, "adls.client-secret"),
    (
        *(frozenset({name}) for name in (*_AZURE_KEYS, _AZURE_SAS, CONNECTION_STRING)),
        frozenset({"adls.tenant-id", "adls.client-id", "adls.client-secret"}),
    ),
)
STORES = (S3, GOOGLE, AZURE)
STORE_OF_SCHEME = {
    **dict.fromkeys(("s3", "s3a", "s3n"), S3),
    **dict.fromkeys(("gs", "gcs"), GOOGLE),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), AZURE),
}
# All schemes of a store, mapped to one scheme.
SAME_STORE = {
    scheme: next(first for first, other in STORE_OF_SCHEME.items() if other is store) for scheme, store in STORE_OF_SCHEME.items()
}
_KEYS = tuple(key for store in STORES for key in store.keys)
_ACCOUNT = re.compile(r"[A-Za-z0-9-]{1,63}")
# Environment variables that Azure's library prefers to a property, so that their credentials would be sent instead.
_PREFERRED: Mapping[str, tuple[str, ...]] = {
    _AZURE_SAS: ("AZURE_STORAGE_ACCOUNT_KEY",),
    "adls.client-secret": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
}


def is_account(text: str) -> bool:
    """Return whether a text consists of letters, digits and hyphens, as the name of an account does; an address has other characters too."""
    return _ACCOUNT.fullmatch(text) is not None


def names_credentials(properties: Mapping[str, str]) -> bool:
    """Return whether any of the properties is a credential, or a part of one, of any kind of store."""
    return any(name.startswith(_KEYS) for name in properties)


def hosts_of_server(store: Store, properties: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Return the properties that direct requests to a host which is not in the user's own properties.

    Args:
        store: The kind of store.
        properties: The combined properties of the user and the server.
        own: The user's own properties.
    """
    trusted = {_origin(own[name]) for name in store.hosts if own.get(name)}
    return [name for name in store.hosts if properties.get(name) and _origin(properties[name]) not in trusted]


def trusted_properties(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the user's own properties, without keys that would be sent to a host or account which the server chose.

    Args:
        properties: The combined properties of the user and the server.
        own: The user's own properties.
    """
    dropped = tuple(key for store in STORES if hosts_of_server(store, properties, own) for key in store.keys)
    used = {name: text for name, text in own.items() if not name.startswith(dropped)}
    if account_of_keys(properties) == account_of_keys(own):
        return used
    # Keys with an account in their names are only used for that account. The secret of an application is only sent to the sign-in of Azure.
    return {name: text for name, text in used.items() if name not in (*_AZURE_KEYS, _AZURE_SAS, CONNECTION_STRING)}


def has_credentials(store: Store, location: str, properties: Mapping[str, str]) -> bool:
    """Return whether the properties contain a complete credential, so that the store's library does not use credentials of this machine.

    Args:
        store: The kind of store.
        location: The location of the file.
        properties: The combined properties of the user and the server.
    """
    names = {name for name, text in properties.items() if text}
    if store is AZURE:
        ends = account_ends(_host(location))
        names |= {kind for kind in (_AZURE_SAS, CONNECTION_STRING) if any(f"{kind}.{end}" in names for end in ends)}
    return any(credential <= names and not _is_outranked(credential) for credential in store.sets)


def _is_outranked(credential: frozenset[str]) -> bool:
    return any(os.environ.get(variable) for name in credential for variable in _PREFERRED.get(name, ()))


def _host(location: str) -> str:
    _, _, host = location.partition("://")[2].partition("/")[0].rpartition("@")
    return host.partition(":")[0].lower()


def _origin(text: str) -> object:
    """Return the scheme, host and port of an address, to compare addresses; HTTPS for an address without a scheme. An invalid address is returned as it is."""
    return origin_of(text if "://" in text else f"https://{text}") or text
