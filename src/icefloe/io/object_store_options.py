"""Catalog properties for object stores, and the options of the libraries that they set. The properties have the names of PyIceberg and of Java.

Access keys of Azure belong to one storage account; `account_properties` removes them for locations in any other account.
"""

from collections.abc import Callable, Mapping
from typing import Any

from icefloe.errors import InvalidPropertyError
from icefloe.io.azure_accounts import ACCOUNT_NAMES, account_ends, account_of_keys
from icefloe.io.locations import host_of
from icefloe.optional_packages import optional_module
from icefloe.spec.ports import VENDED_GOOGLE_TOKEN

# The stores by their protocol in fsspec.
S3, GCS, ABFS = "s3", "gcs", "abfs"
# The part size of an upload in bytes, as in Java's Iceberg.
PART_BYTES = "s3.multipart.part-size-bytes"

_Convert = Callable[[str], Any]


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _number(text: str) -> float | int:
    return float(text) if "." in text else int(text)


def _if_true(value: object) -> _Convert:
    """Return a converter that maps `true` to a value, and any other text to None, which sets no option."""
    return lambda text: value if _is_true(text) else None


def _one_of(**values: str) -> _Convert:
    """Return a converter that accepts only these texts, written with `_` for a hyphen, and raises `ValueError` for others. An empty value sets no option."""
    by_text = {name.rstrip("_").replace("_", "-"): value for name, value in values.items()}

    def convert(text: str) -> str | None:
        if text.strip().lower() not in by_text:
            raise ValueError(f"it is one of {', '.join(by_text)}")
        return by_text[text.strip().lower()] or None

    return convert


def _google_credentials(token: str) -> Any:
    """Return Google credentials from an access token: a plain text would be taken by gcsfs for the name of a method, such as `google_default`, or of a file."""
    return optional_module("google.oauth2.credentials", extra="gcs", feature="storage of scheme 'gs'").Credentials(token)


# Property -> path of the option in fsspec's keyword arguments, and the converter of the value. If several properties set an option, the first one counts.
_OPTIONS: Mapping[str, Mapping[str, tuple[tuple[str, ...], _Convert]]] = {
    S3: {
        "s3.endpoint": (("endpoint_url",), str),
        "s3.access-key-id": (("key",), str),
        "s3.secret-access-key": (("secret",), str),
        "s3.session-token": (("token",), str),
        "s3.anonymous": (("anon",), _is_true),
        "s3.region": (("client_kwargs", "region_name"), str),
        "s3.connect-timeout": (("config_kwargs", "connect_timeout"), _number),
        "s3.request-timeout": (("config_kwargs", "read_timeout"), _number),
        "s3.profile-name": (("profile",), str),
        "s3.path-style-access": (("config_kwargs", "s3", "addressing_style"), _if_true("path")),
        "s3.force-virtual-addressing": (("config_kwargs", "s3", "addressing_style"), _if_true("virtual")),
        "s3.acceleration-enabled": (("config_kwargs", "s3", "use_accelerate_endpoint"), _is_true),
        "s3.dualstack-enabled": (("config_kwargs", "use_dualstack_endpoint"), _is_true),
        "s3.cross-region-access-enabled": (("cache_regions",), _is_true),
        "s3.requester-pays": (("requester_pays",), _is_true),
        "s3.proxy-uri": (("config_kwargs", "proxies"), lambda text: {"http": text, "https": text}),
        "s3.retry.num-retries": (("config_kwargs", "retries", "max_attempts"), _number),
        "s3.sse.type": (
            ("s3_additional_kwargs", "ServerSideEncryption"),
            _one_of(none="", s3="AES256", kms="aws:kms", dsse_kms="aws:kms:dsse"),
        ),
        "s3.sse.key": (("s3_additional_kwargs", "SSEKMSKeyId"), str),
        "s3.acl": (("s3_additional_kwargs", "ACL"), str),
        "s3.write.storage-class": (("s3_additional_kwargs", "StorageClass"), str),
        "client.access-key-id": (("key",), str),
        "client.secret-access-key": (("secret",), str),
        "client.session-token": (("token",), str),
        "client.region": (("client_kwargs", "region_name"), str),
        "client.profile-name": (("profile",), str),
    },
    GCS: {
        "gcs.project-id": (("project",), str),
        VENDED_GOOGLE_TOKEN: (("token",), _google_credentials),
        "gcs.oauth2.token": (("token",), str),
        "gcs.no-auth": (("token",), _if_true("anon")),
        "gcs.service.host": (("endpoint_url",), str),
        "gcs.endpoint": (("endpoint_url",), str),
        "gcs.default-bucket-location": (("default_location",), str),
        "gcs.user-project": (("requester_pays",), str),
        "gcs.requester-pays": (("requester_pays",), _is_true),
    },
    ABFS: {
        "adls.account-name": (("account_name",), str),
        "adls.account-host": (("account_host",), str),
        "adls.account-key": (("account_key",), str),
        "adls.sas-token": (("sas_token",), str),
        "adls.connection-string": (("connection_string",), str),
        "adls.tenant-id": (("tenant_id",), str),
        "adls.client-id": (("client_id",), str),
        "adls.client-secret": (("client_secret",), str),
        "adls.auth.shared-key.account.name": (("account_name",), str),
        "adls.auth.shared-key.account.key": (("account_key",), str),
    },
    "hdfs": {"hdfs.host": (("host",), str), "hdfs.port": (("port",), _number), "hdfs.user": (("user",), str)},
}
# Options that are always set: botocore's standard retries wait longer after each attempt, with a random part.
_ALWAYS: Mapping[str, Mapping[str, Any]] = {S3: {"config_kwargs": {"retries": {"mode": "standard", "max_attempts": 5}}}}
# Properties of uploads, which are not options of the file system.
_OF_UPLOADS: Mapping[str, tuple[str, ...]] = {S3: (PART_BYTES,)}
# Prefixes of properties that continue with an Azure account or its host, as REST catalogs send them.
_PER_ACCOUNT = ("adls.sas-token.", "adls.connection-string.")
# Properties whose values never appear in messages.
SECRETS = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "client.access-key-id",
    "client.secret-access-key",
    "client.session-token",
    "s3.proxy-uri",
    "gcs.oauth2.token",
    VENDED_GOOGLE_TOKEN,
    "adls.account-key",
    "adls.auth.shared-key.account.key",
    "adls.sas-token",
    "adls.connection-string",
    "adls.client-secret",
)
# Credentials that belong to one account and are never sent to another. A service principal's secret is not among them: it is sent only to Microsoft's sign-in.
_OF_ONE_ACCOUNT = ("adls.account-key", "adls.sas-token", "adls.connection-string", "adls.auth.shared-key.account.key")
ACCOUNT_HOST = "adls.account-host"


def property_names(protocol: str) -> frozenset[str]:
    """Return the names of the properties that concern a protocol, and the prefixes of the property names that end in an account."""
    return frozenset({*_OPTIONS.get(protocol, {}), *_OF_UPLOADS.get(protocol, ()), *(_PER_ACCOUNT if protocol == ABFS else ())})


def options_of(protocol: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that concern a protocol."""
    names = property_names(protocol)
    return {name: text for name, text in properties.items() if name in names}


def fsspec_options(protocol: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the keyword arguments of fsspec from the properties of this protocol; other properties are ignored.

    Raises:
        InvalidPropertyError: The value of a property is not allowed.
    """
    options: dict[str, Any] = _copy(_ALWAYS.get(protocol, {}))
    is_set: set[tuple[str, ...]] = set()
    for name, (path, convert) in _OPTIONS.get(protocol, {}).items():
        if name not in properties or path in is_set:
            continue
        try:
            value = convert(properties[name])
        except ValueError as error:
            raise InvalidPropertyError(
                f"the property {name} has a value that it cannot have: {error if convert not in (_number,) else 'it is a number'}",
                next_step="correct the value in the catalog's configuration",
            ) from error
        if value is None:
            continue
        is_set.add(path)
        inner = options
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = value
    return options


def _copy(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copy(value) if isinstance(value, Mapping) else value for name, value in options.items()}


def secret_values(properties: Mapping[str, str]) -> list[str]:
    """Return the secrets in the properties: whole values, and the secret parts of connection strings."""
    values = [properties[name] for name in SECRETS if properties.get(name)]
    return [
        *values,
        *(part.partition("=")[2] for text in values if ";" in text for part in text.split(";") if "=" in part and "Name=" not in part),
    ]


def account_properties(location: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the storage account of an Azure location, without the access keys if they belong to another account."""
    host = host_of(location)
    own = _of_account(host, properties)
    if not host or host.partition(".")[0] == _configured_account(properties):
        return {**properties, **own}
    without_keys = {name: text for name, text in properties.items() if name not in (*_OF_ONE_ACCOUNT, *ACCOUNT_NAMES, ACCOUNT_HOST)}
    return {**without_keys, ACCOUNT_NAMES[0]: host.partition(".")[0], ACCOUNT_HOST: host.replace(".dfs.", ".blob."), **own}


def _of_account(host: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties whose names end in this account or its host, by their names without that suffix."""
    ends = account_ends(host)
    return {
        prefix.rstrip("."): text
        for prefix in _PER_ACCOUNT
        for name, text in properties.items()
        if name.startswith(prefix) and name.removeprefix(prefix).lower() in ends
    }


def _configured_account(properties: Mapping[str, str]) -> str:
    """Return the storage account that the catalog's keys belong to, from the account property, the connection string, or the warehouse."""
    return account_of_keys(properties) or host_of(properties.get("warehouse") or "/").partition(".")[0]
