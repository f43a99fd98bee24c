"""`LoadTableResult`: the response of a REST catalog to a load or a creation. Icefloe refuses responses with read restrictions.

Icefloe does not enforce read restrictions. A catalog with read restrictions sends the whole table together with the restrictions, and trusts the client to
apply them. So a client that does not support them must not read the table. Spec: REST catalog, LoadTableResult, ReadRestrictions.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from icefloe.errors import MetadataFormatError, UnsupportedFeatureError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.rest.http_reply import Reply, decode_as, server_text

# The members of read restrictions in the protocol.
_ROW_FILTER = "required-row-filter"
_KNOWN = ("required-column-projections", _ROW_FILTER)
# Prefixes of member names that require something of the client, in lower case, without hyphens and underscores.
_DEMANDS = ("readrestriction", "require", "restrict", "must", "mandatory")
# JSON forms of the filter that keeps every row.
_TRUE_FILTERS: tuple[Any, ...] = ("true", {"type": "true"})
_SHOWN_MEMBERS = 10


class StorageCredential(msgspec.Struct):
    """Storage properties for the locations below a prefix."""

    prefix: str
    config: dict[str, str]


class SentCredential(msgspec.Struct):
    """A storage credential in the form that servers may send: values may be numbers, booleans or null."""

    prefix: str
    config: dict[str, Any] | None = None


class _Credentials(msgspec.Struct, rename="kebab"):
    storage_credentials: list[SentCredential] | None = None


class _Optional(msgspec.Struct, rename="kebab"):
    """The members that a response may omit."""

    metadata_location: str | None = None
    config: dict[str, Any] | None = None
    storage_credentials: list[SentCredential] | None = None
    remote_signing_config: dict[str, Any] | None = None


class _Located(msgspec.Struct):
    location: str


class _Folder(msgspec.Struct, rename="kebab"):
    metadata: _Located
    metadata_location: str | None = None


class LoadTableResult(msgspec.Struct):
    """The response to a load or a creation of a table or view. Its metadata is JSON that is not parsed yet."""

    metadata: bytes
    metadata_location: str
    config: dict[str, str]
    storage_credentials: tuple[StorageCredential, ...]
    remote_signing_config: dict[str, Any] | None


def load_result(reply: Reply, identifier: Identifier, catalog: str, *, noun: str = "table") -> LoadTableResult:
    """Parse the response to a load or a creation of a table or view.

    Args:
        reply: The response.
        identifier: The name of the table or view.
        catalog: The catalog, for messages.
        noun: `table` or `view`, for messages.

    Raises:
        UnsupportedFeatureError: The catalog restricts reading the table or view.
        MetadataFormatError: The body does not follow the protocol.
    """
    members = reply.parse(dict[str, msgspec.Raw])
    check_unrestricted(members, noun, identifier, catalog)
    if "metadata" not in members:
        raise MetadataFormatError(
            f"the answer of the REST catalog to {reply.request} has no metadata", next_step="report it to the server's maintainers"
        )
    others = {name: raw for name, raw in members.items() if name != "metadata"}
    optional = decode_as(msgspec.json.encode(others), _Optional, f"the answer of the REST catalog to {reply.request}")
    return LoadTableResult(
        metadata=bytes(members["metadata"]),
        metadata_location=optional.metadata_location or "",
        config=texts(optional.config),
        storage_credentials=as_credentials(optional.storage_credentials),
        remote_signing_config=optional.remote_signing_config,
    )


def folder_and_file(reply: Reply) -> tuple[str, str] | None:
    """Return the location of a table and of its metadata file (empty if missing) from a response without using its metadata; None without a location."""
    try:
        folder = reply.parse(_Folder)
    except MetadataFormatError:
        return None
    return folder.metadata.location, folder.metadata_location or ""


def credentials_of(reply: Reply) -> tuple[StorageCredential, ...]:
    """Parse the response to a request for credentials. Raises `MetadataFormatError`."""
    return as_credentials(reply.parse(_Credentials).storage_credentials)


def check_unrestricted(members: Mapping[str, msgspec.Raw], noun: str, identifier: Identifier, catalog: str) -> None:
    """Refuse a response with read restrictions, or with an unknown member whose name begins like a requirement.

    Args:
        members: The members of the response.
        noun: `table` or `view`.
        identifier: The name of the table or view.
        catalog: The name of the catalog, for messages.

    Raises:
        UnsupportedFeatureError: Such a member has a value. The message has the names of members, but not their values.
    """
    names = [name for name in members if _demands(name) and not _is_nothing(name, _value(members[name]))]
    if not names:
        return
    inner: list[str] = []
    for name in names:
        values = _value(members[name])
        if isinstance(values, dict):
            inner += [key if key in _KNOWN else server_text(key, [])[:100] for key, value in values.items() if not _is_nothing(key, value)]
    text = ", ".join(server_text(name, [])[:100] for name in names[:_SHOWN_MEMBERS])
    parts = f": {', '.join(inner[:_SHOWN_MEMBERS])}" if inner else ""
    raise UnsupportedFeatureError(
        f"catalog {catalog!r} restricts what may be read of {noun} {dotted(identifier)!r} ({text}{parts}), and Icefloe does not enforce such "
        "restrictions, so that nothing of it is read",
        table=dotted(identifier),
        next_step="request unrestricted access from the catalog's administrator, or read it with an engine that enforces the restrictions",
    )


def texts(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """Return properties as texts: numbers and booleans as in JSON. Properties with the value null are dropped."""
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in (properties or {}).items()
        if value is not None
    }


def as_credentials(credentials: list[SentCredential] | None) -> tuple[StorageCredential, ...]:
    """Return the credentials from a server's JSON."""
    return tuple(StorageCredential(credential.prefix, texts(credential.config)) for credential in credentials or ())


def _demands(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "").startswith(_DEMANDS)


def _is_nothing(name: str, value: Any) -> bool:
    """Return whether the value of a member restricts nothing."""
    if value is None or value is False or value == []:
        return True
    if name == _ROW_FILTER and (value is True or value in _TRUE_FILTERS):
        return True
    return isinstance(value, dict) and all(_is_nothing(key, part) for key, part in value.items())


def _value(raw: msgspec.Raw) -> Any:
    """Return the value of a member. If it cannot be parsed, return a text, so that the member still counts as having a value."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "unreadable"
