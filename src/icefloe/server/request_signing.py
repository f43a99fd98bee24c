"""Signatures of single requests to S3, for clients without keys: only for files of the table, and only for what the client's role allows.

The address of the request is taken apart as S3 does it, and each object that it reads, writes, lists or deletes has to be in the folder of the table. Anything
that is not known here, such as another parameter or header of S3, is refused. Spec: REST catalog, RemoteSignRequest, RemoteSignResult.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from icefloe.errors import StorageUnavailableError
from icefloe.io.locations import LocationScope, Place
from icefloe.optional_packages import optional_module
from icefloe.server.error_response import bad_request, forbidden

READ_METHODS = frozenset({"GET", "HEAD"})
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
# Parameters of S3 that select no other operation than those on objects and their parts, and the listing of a folder.
PARAMETERS = frozenset(
    {
        "x-id",
        "versionid",
        "partnumber",
        "uploadid",
        "uploads",
        "delete",
        "list-type",
        "prefix",
        "delimiter",
        "continuation-token",
        "start-after",
        "max-keys",
        "encoding-type",
        "fetch-owner",
        "marker",
    }
)
# Headers of S3 that change no rights and read no other object.
AMZ_HEADERS = re.compile(
    r"x-amz-(date|content-sha256|security-token|checksum-[a-z0-9]+|sdk-checksum-algorithm|checksum-mode|decoded-content-length|trailer|storage-class|"
    r"server-side-encryption(-aws-kms-key-id|-bucket-key-enabled)?|meta-[a-z0-9-]+|request-payer|copy-source|copy-source-range|expected-bucket-owner|"
    r"te|user-agent)"
)
_COPY_SOURCE = "x-amz-copy-source"
_KEY = re.compile(r"<Key>([^<]*)</Key>")
# Text that XML writes otherwise; any other entity is refused.
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&#13;": "\r", "&#10;": "\n", "&amp;": "&"}
_HOST_OF_AWS = re.compile(r"(?:(?P<bucket>[a-z0-9.-]+)\.)?s3(?:[.-][a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?")
UNSIGNED = "UNSIGNED-PAYLOAD"
MOST_KEYS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRequest:
    """A request to S3 that a client is to send."""

    method: str
    uri: str
    region: str
    headers: Mapping[str, Sequence[str]]
    body: str | None = None


def check_request(request: SignRequest, scope: LocationScope, endpoint: str | None, *, may_write: bool) -> None:
    """Refuse a request that is not one for files of the table, or that the client's role does not allow.

    Args:
        request: The request.
        scope: The folders of the table.
        endpoint: The address of the store; None for AWS.
        may_write: Whether the client may write and delete.

    Raises:
        RefusedRequest: With the reason.
    """
    if request.method not in METHODS:
        raise bad_request(f"the method {request.method!r} is not signed")
    if request.method not in READ_METHODS and not may_write:
        raise forbidden(f"{request.method} needs the role write in the namespace of the table")
    bucket, key, parameters = _target(request.uri, endpoint)
    unknown = sorted(parameters.keys() - PARAMETERS)
    if unknown:
        raise forbidden(f"a request with the parameter {unknown[0]!r} is not signed")
    _check_headers(request, scope)
    for path in _objects(request, key, parameters):
        if ".." in path.split("/") or "." in path.split("/") or "//" in path or not scope.holds(Place(f"s3://{bucket}", f"/{path}")):
            raise forbidden(f"s3://{bucket}/{path} is not a file of the table")


def signed(request: SignRequest, properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the headers of a request with its signature.

    Args:
        request: The request, which was checked.
        properties: The properties of the catalog, with the keys to sign with; without them those of the machine are used.

    Raises:
        StorageUnavailableError: The server has no keys.
    """
    requests = optional_module("botocore.awsrequest", extra="s3", feature="remote signing")
    auth = optional_module("botocore.auth", extra="s3", feature="remote signing")
    headers = {name: ",".join(values) for name, values in request.headers.items()}
    sent = {name.lower() for name in headers}
    signable = requests.AWSRequest(method=request.method, url=request.uri, headers=headers, data=request.body or "")
    if "x-amz-content-sha256" not in sent:
        signable.headers["X-Amz-Content-SHA256"] = UNSIGNED
    signable.context["payload_signing_enabled"] = False
    auth.S3SigV4Auth(_keys(properties), "s3", request.region).add_auth(signable)
    return {name: [value] for name, value in signable.headers.items()}


def _keys(properties: Mapping[str, str]) -> Any:
    session = optional_module("botocore.session", extra="s3", feature="remote signing").get_session()
    if properties.get("s3.access-key-id"):
        credentials = optional_module("botocore.credentials", extra="s3", feature="remote signing")
        return credentials.Credentials(
            properties["s3.access-key-id"], properties.get("s3.secret-access-key", ""), properties.get("s3.session-token")
        )
    found = session.get_credentials()
    if found is None:
        raise StorageUnavailableError(
            "the server has no keys to sign with", next_step="set s3.access-key-id and s3.secret-access-key for its catalog"
        )
    return found.get_frozen_credentials()


def _target(uri: str, endpoint: str | None) -> tuple[str, str, dict[str, str]]:
    """Return the bucket, the key and the parameters of a request. Raises `RefusedRequest` for a host that is not the store's."""
    try:
        address = urlsplit(uri)
        host, port = (address.hostname or "").lower(), address.port
    except ValueError:
        raise bad_request("the uri is no address") from None
    if address.username is not None or address.fragment or address.scheme not in ("http", "https") or "\\" in uri or not uri.isprintable():
        raise bad_request("the uri is no plain address of http or https")
    path = unquote(address.path, errors="strict") if "%" in address.path else address.path
    bucket = _bucket_of_host(host, port, address.scheme, endpoint)
    if bucket is None:
        bucket, _, path = path.removeprefix("/").partition("/")
    else:
        path = path.removeprefix("/")
    if not bucket:
        raise forbidden("a request without a bucket is not signed")
    parameters = {name.lower(): value for name, value in parse_qsl(address.query, keep_blank_values=True, max_num_fields=50)}
    if len(parameters) != len(parse_qsl(address.query, keep_blank_values=True)):
        raise bad_request("the uri has a parameter twice")
    return bucket, path, parameters


def _bucket_of_host(host: str, port: int | None, scheme: str, endpoint: str | None) -> str | None:
    """Return the bucket that a host names; None where the path names it. Raises `RefusedRequest` for another host than the store's."""
    if endpoint:
        own = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        default = {"http": 80, "https": 443}
        is_port = (port or default[scheme]) == (own.port or default.get(own.scheme, 443))
        own_host = (own.hostname or "").lower()
        if is_port and host == own_host:
            return None
        if is_port and own_host and host.endswith(f".{own_host}"):
            return host.removesuffix(f".{own_host}")
    elif match := _HOST_OF_AWS.fullmatch(host):
        return match["bucket"]
    raise forbidden(f"{host} is not the host of the tables' store")


def _objects(request: SignRequest, key: str, parameters: Mapping[str, str]) -> Iterable[str]:
    """Return the objects, or the folder, that a request touches. Raises `RefusedRequest` for one that is about a whole bucket."""
    if key:
        if "delete" in parameters or "list-type" in parameters:
            raise forbidden("a request with a key and a parameter of the whole bucket is not signed")
        return [key]
    if request.method == "POST" and "delete" in parameters:
        return _deleted(request.body)
    if request.method == "GET" and ("list-type" in parameters or "prefix" in parameters):
        # A file in the folder represents the folder: a prefix without a slash at its end would list its neighbours too.
        prefix = parameters.get("prefix", "")
        return [prefix + "x" if prefix.endswith("/") else prefix]
    raise forbidden("a request about a whole bucket is not signed")


def _deleted(body: str | None) -> list[str]:
    """Return the keys of a request that deletes several objects. Raises `RefusedRequest` for a body that is not understood."""
    text = body or ""
    keys = _KEY.findall(text)
    others = re.sub(r"<Key>[^<]*</Key>", "", text)
    if not keys or len(keys) > MOST_KEYS or "<!" in text or "Key" in others or text.count("<Object>") != len(keys):
        raise forbidden("the body of a request that deletes several objects is needed, with up to 1,000 plain keys")
    return [_unescaped(key) for key in keys]


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[0] not in _ENTITIES:
            raise forbidden(f"the entity {found[0]!r} in a key is not understood")
        return _ENTITIES[found[0]]

    return re.sub(r"&[^;]{0,20};?", character, text)


def _check_headers(request: SignRequest, scope: LocationScope) -> None:
    for name, values in request.headers.items():
        lower = name.lower()
        if any("\r" in text or "\n" in text for text in (name, *values)):
            raise bad_request("a header has a line break")
        if lower.startswith("x-amz-") and not AMZ_HEADERS.fullmatch(lower):
            raise forbidden(f"a request with the header {name!r} is not signed")
        if lower == _COPY_SOURCE:
            source_bucket, _, key = unquote(",".join(values).partition("?")[0]).removeprefix("/").partition("/")
            if ".." in key.split("/") or not scope.holds(Place(f"s3://{source_bucket}", f"/{key}")):
                raise forbidden("the source of a copy is not a file of the table")
