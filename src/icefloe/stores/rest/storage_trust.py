"""Which credentials requests for files may carry, where the server of a REST catalog names the host or the account to which they are sent.

Keys of the user's configuration, and those of this machine (environment, profiles, roles), are sent only to hosts and accounts that the user's configuration
names. A property counts as a credential only if it has the exact name that becomes an option of the store's library, and a value that is not empty.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from icefloe.io.azure_accounts import CONNECTION_STRING, account_ends, account_of_keys
from icefloe.stores.rest.origins import origin_of


@dataclass(frozen=True, slots=True)
class Store:
    """How the properties of a kind of store lead requests to a host, and which credentials they carry.

    Attributes:
        hosts: Properties that name a host to which requests are sent.
        keys: Beginnings of the names of credentials: those of one account of Azure have its name after them.
        sets: Sets of properties that are a whole credential each.
        anonymous: The property for requests without credentials; None where there is none.
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
# One scheme for all those of a store.
SAME_STORE = {
    scheme: next(first for first, other in STORE_OF_SCHEME.items() if other is store) for scheme, store in STORE_OF_SCHEME.items()
}
_KEYS = tuple(key for store in STORES for key in store.keys)
_ACCOUNT = re.compile(r"[A-Za-z0-9-]{1,63}")
# Variables of the environment that Azure's library prefers to a property which is set: their credentials would be sent in its place.
_PREFERRED: Mapping[str, tuple[str, ...]] = {
    _AZURE_SAS: ("AZURE_STORAGE_ACCOUNT_KEY",),
    "adls.client-secret": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
}


def is_account(text: str) -> bool:
    """Return whether a text can be an account's name, and not a part of another address."""
    return _ACCOUNT.fullmatch(text) is not None


def names_credentials(properties: Mapping[str, str]) -> bool:
    """Return whether a property may be a part of a credential, for any kind of store."""
    return any(name.startswith(_KEYS) for name in properties)


def hosts_of_server(store: Store, properties: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Return the properties that lead requests to a host which the user does not name.

    Args:
        store: The kind of store.
        properties: The properties that are used.
        own: The user's own.
    """
    trusted = {_origin(own[name]) for name in store.hosts if own.get(name)}
    return [name for name in store.hosts if properties.get(name) and _origin(properties[name]) not in trusted]


def trusted_properties(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the user's own properties without the keys that would be sent to a host or an account which the server names.

    Args:
        properties: The properties that are used, of the user and of the server.
        own: The user's own.
    """
    dropped = tuple(key for store in STORES if hosts_of_server(store, properties, own) for key in store.keys)
    used = {name: text for name, text in own.items() if not name.startswith(dropped)}
    if account_of_keys(properties) == account_of_keys(own):
        return used
    # Keys that have an account in their names are for it alone, whatever account the server names; the secret of an application is sent to the sign-in alone.
    return {name: text for name, text in used.items() if name not in (*_AZURE_KEYS, _AZURE_SAS, CONNECTION_STRING)}


def has_credentials(store: Store, location: str, properties: Mapping[str, str]) -> bool:
    """Return whether the properties have a whole credential, so that the store's library takes none of this machine.

    Args:
        store: The kind of store.
        location: The file.
        properties: The properties that are used.
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
    """Return the scheme, the host and the port of an address, which differ not by a trailing slash or a default port; Azure's hosts have no scheme."""
    return origin_of(text if "://" in text else f"https://{text}") or text
