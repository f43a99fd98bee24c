"""`LoadTableResult`: the answer of a REST catalog to a load or a creation; and the refusal of one with restrictions, which Icefloe does not enforce.

A catalog that restricts what may be read sends the whole table with the restrictions, and trusts the client to apply them. A client that does not know them
must not read. Spec: REST catalog, LoadTableResult, ReadRestrictions.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from icefloe.errors import MetadataFormatError, UnsupportedFeatureError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.rest.http_reply import Reply, decode_as, server_text

# The members of restrictions that the protocol has.
_ROW_FILTER = "required-row-filter"
_KNOWN = ("required-column-projections", _ROW_FILTER)
# Beginnings of the names of members that require something of the client, without hyphens and underscores, in lower case.
_DEMANDS = ("readrestriction", "require", "restrict", "must", "mandatory")
# Forms of the filter that keeps every row.
_TRUE_FILTERS: tuple[Any, ...] = ("true", {"type": "true"})
_SHOWN_MEMBERS = 10


class StorageCredential(msgspec.Struct):
    """Properties for the locations below a prefix."""

    prefix: str
    config: dict[str, str]


class SentCredential(msgspec.Struct):
    """The same as a server may send it, with numbers and nothing among the texts."""

    prefix: str
    config: dict[str, Any] | None = None


class _Credentials(msgspec.Struct, rename="kebab"):
    storage_credentials: list[SentCredential] | None = None


class _Optional(msgspec.Struct, rename="kebab"):
    """The members that an answer may leave out."""

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
    """The answer; the metadata is kept as bytes."""

    metadata: bytes
    metadata_location: str
    config: dict[str, str]
    storage_credentials: tuple[StorageCredential, ...]
    remote_signing_config: dict[str, Any] | None


def load_result(reply: Reply, identifier: Identifier, catalog: str, *, noun: str = "table") -> LoadTableResult:
    """Return the answer to a load or a creation of a table or view.

    Args:
        reply: The reply.
        identifier: The table or view.
        catalog: The catalog, for messages.
        noun: What it is, for messages.

    Raises:
        UnsupportedFeatureError: The catalog restricts what may be read of it.
        MetadataFormatError: The body is not of the protocol.
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
    """Return the location of a table, and that of its metadata file or an empty text, of an answer whose metadata is not used; None where it has none."""
    try:
        folder = reply.parse(_Folder)
    except MetadataFormatError:
        return None
    return folder.metadata.location, folder.metadata_location or ""


def credentials_of(reply: Reply) -> tuple[StorageCredential, ...]:
    """Return the answer to a request for credentials. Raises `MetadataFormatError`."""
    return as_credentials(reply.parse(_Credentials).storage_credentials)


def check_unrestricted(members: Mapping[str, msgspec.Raw], noun: str, identifier: Identifier, catalog: str) -> None:
    """Refuse a load that restricts what may be read, or that has an unknown member which begins with a requirement.

    Args:
        members: The members of the answer.
        noun: `table` or `view`.
        identifier: Its name.
        catalog: The catalog, for messages.

    Raises:
        UnsupportedFeatureError: There is such a member with a value. The message has names of members and no value.
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
    """Return properties as texts: numbers and truth values as JSON writes them. Those that are null are left out."""
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in (properties or {}).items()
        if value is not None
    }


def as_credentials(credentials: list[SentCredential] | None) -> tuple[StorageCredential, ...]:
    """Return the credentials that a server sent."""
    return tuple(StorageCredential(credential.prefix, texts(credential.config)) for credential in credentials or ())


def _demands(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "").startswith(_DEMANDS)


def _is_nothing(name: str, value: Any) -> bool:
    """Return whether a member's value restricts nothing."""
    if value is None or value is False or value == []:
        return True
    if name == _ROW_FILTER and (value is True or value in _TRUE_FILTERS):
        return True
    return isinstance(value, dict) and all(_is_nothing(key, part) for key, part in value.items())


def _value(raw: msgspec.Raw) -> Any:
    """Return a member's value; a text for one that cannot be read, which is no way to have it ignored."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "unreadable"
