"""Signatures of single requests to S3, for clients without keys. Only requests for files of the table that the client's role allows are signed.

The address of the request is parsed as S3 parses it. Each object that the request reads, writes, lists or deletes must be in the folder of the table. Anything
unknown, such as another parameter or header of S3, is refused. Spec: REST catalog, RemoteSignRequest, RemoteSignResult.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from icefloe.io.locations import LocationScope, Place
from icefloe.optional_packages import optional_module
from icefloe.server.error_response import bad_request, forbidden
from icefloe.server.storage_keys import keys_of

READ_METHODS = frozenset({"GET", "HEAD"})
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
# The allowed parameters of S3: for operations on objects and their parts, and for the listing of a folder. S3 distinguishes letter case: it would
# ignore `Prefix`, and list the whole bucket.
PARAMETERS = frozenset(
    {
        "x-id",
        "versionId",
        "partNumber",
        "uploadId",
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
# Headers of S3 that neither change rights nor read another object.
AMZ_HEADERS = re.compile(
    r"x-amz-(date|content-sha256|security-token|checksum-[a-z0-9]+|sdk-checksum-algorithm|checksum-mode|decoded-content-length|trailer|storage-class|"
    r"server-side-encryption(-aws-kms-key-id|-bucket-key-enabled)?|meta-[a-z0-9-]+|request-payer|copy-source|copy-source-range|expected-bucket-owner|"
    r"te|user-agent)"
)
_COPY_SOURCE = "x-amz-copy-source"
_KEY = re.compile(r"<Key>([^<]*)</Key>")
# The entities of XML that are understood; any other entity is refused.
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&#13;": "\r", "&#10;": "\n", "&amp;": "&"}
_HOST_OF_AWS = re.compile(r"(?:(?P<bucket>[a-z0-9.-]+)\.)?s3(?:[.-][a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?")
# The form of a header's name. Spec: RFC 9110, 5.6.2.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTENT_DIGEST = "x-amz-content-sha256"
UNSIGNED = "UNSIGNED-PAYLOAD"
MOST_KEYS, MOST_PARAMETERS = 1000, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRequest:
    """A request to S3 that a client plans to send, and for which it requests a signature."""

    method: str
    uri: str
    region: str
    headers: Mapping[str, Sequence[str]]
    body: str | None = None


def check_request(request: SignRequest, scope: LocationScope, endpoint: str | None, *, may_write: bool) -> None:
    """Refuse a request that is not about files of the table, or that the client's role does not allow.

    Args:
        request: The request.
        scope: The folders of the table.
        endpoint: The address of the store; None for AWS.
        may_write: Whether the client may write and delete.

    Raises:
        RefusedRequest: The request is refused; the message has the reason.
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


def sign(request: SignRequest, properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Sign a request.

    Args:
        request: The request, which `check_request` has checked.
        properties: The properties of the catalog, which have the keys to sign with; without them the keys of the machine are used.

    Returns:
        The headers of the request, with its signature.

    Raises:
        StorageUnavailableError: The server has no keys.
    """
    requests = optional_module("botocore.awsrequest", extra="s3", feature="remote signing")
    auth = optional_module("botocore.auth", extra="s3", feature="remote signing")
    headers = {name: ",".join(values) for name, values in request.headers.items()}
    signable = requests.AWSRequest(method=request.method, url=request.uri, headers=headers, data=request.body or "")
    signer = auth.S3SigV4Auth(keys_of(properties, "remote signing"), "s3", request.region)
    # botocore would sign the digest of an empty body, because the server does not have the body of an upload.
    signer.payload = lambda _: signed_digest(request)
    signer.add_auth(signable)
    return {name: [value] for name, value in signable.headers.items()}


def signed_digest(request: SignRequest) -> str:
    """Return the digest of the body that becomes part of the signature.

    For a deletion of several objects, the keys in the body were checked. Its digest is signed, so that the store refuses the request with a different body. Any
    other body is the content of one object, which the server does not see: its digest is the one that the client sent, or none.
    """
    if request.body is not None:
        return hashlib.sha256(request.body.encode()).hexdigest()
    sent = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    return sent.get(_CONTENT_DIGEST, UNSIGNED)


def _target(uri: str, endpoint: str | None) -> tuple[str, str, dict[str, str]]:
    """Return the bucket, the key and the parameters in the address of a request.

    Raises:
        RefusedRequest: The address is not valid, or its host is not the host of the store.
    """
    try:
        address = urlsplit(uri)
        host, port = (address.hostname or "").lower(), address.port
        path = unquote(address.path, errors="strict")
        pairs = parse_qsl(address.query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise bad_request("the uri is no address with a path in UTF-8 and a few parameters") from None
    if address.username is not None or address.fragment or address.scheme not in ("http", "https") or "\\" in uri or not uri.isprintable():
        raise bad_request("the uri is no plain address of http or https")
    bucket = _bucket_of_host(host, port, address.scheme, endpoint)
    if bucket is None:
        bucket, _, path = path.removeprefix("/").partition("/")
    else:
        path = path.removeprefix("/")
    if not bucket:
        raise forbidden("a request without a bucket is not signed")
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise bad_request("the uri has a parameter twice")
    return bucket, path, parameters


def _bucket_of_host(host: str, port: int | None, scheme: str, endpoint: str | None) -> str | None:
    """Return the bucket in a host name; None if the path has the bucket.

    Raises:
        RefusedRequest: The host is not the host of the store.
    """
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
    """Return the keys of the objects, or the folder, that a request touches.

    Raises:
        RefusedRequest: The request is about a whole bucket.
    """
    if key:
        if "delete" in parameters or "list-type" in parameters:
            raise forbidden("a request with a key and a parameter of the whole bucket is not signed")
        return [key]
    if request.method == "POST" and "delete" in parameters:
        return _deleted_keys(request.body)
    if request.method == "GET" and ("list-type" in parameters or "prefix" in parameters):
        # A prefix that ends with a slash is checked by a file in the folder. Without a slash, it could match neighbours of the folder.
        prefix = parameters.get("prefix", "")
        return [prefix + "x" if prefix.endswith("/") else prefix]
    raise forbidden("a request about a whole bucket is not signed")


def _deleted_keys(body: str | None) -> list[str]:
    """Return the keys in the body of a request that deletes several objects.

    Raises:
        RefusedRequest: The body is not understood.
    """
    text = body or ""
    keys = _KEY.findall(text)
    others = re.sub(r"<Key>[^<]*</Key>", "", text)
    if not keys or len(keys) > MOST_KEYS or "<!" in text or "Key" in others or text.count("<Object>") != len(keys):
        raise forbidden("the body of a request that deletes several objects is needed, with up to 1,000 plain keys")
    return [_unescape(key) for key in keys]


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[0] not in _ENTITIES:
            raise forbidden(f"the entity {match[0]!r} in a key is not understood")
        return _ENTITIES[match[0]]

    return re.sub(r"&[^;]{0,20};?", character, text)


def _check_headers(request: SignRequest, scope: LocationScope) -> None:
    address = urlsplit(request.uri)
    default_port = ":80" if address.scheme == "http" else ":443"
    host = address.netloc.lower().removesuffix(default_port)
    for name, values in request.headers.items():
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name) or any("\r" in text or "\n" in text for text in values):
            raise bad_request("a header has a line break, or a name that is none")
        # The header Host is signed, not the address. A different host would be a different bucket.
        if lower == "host" and any(text.lower().removesuffix(default_port) != host for text in values):
            raise forbidden("the header Host is not the host of the uri")
        if lower.startswith("x-amz-") and not AMZ_HEADERS.fullmatch(lower):
            raise forbidden(f"a request with the header {name!r} is not signed")
        if lower == _COPY_SOURCE:
            source_bucket, _, key = unquote(",".join(values).partition("?")[0]).removeprefix("/").partition("/")
            if ".." in key.split("/") or not scope.holds(Place(f"s3://{source_bucket}", f"/{key}")):
                raise forbidden("the source of a copy is not a file of the table")
