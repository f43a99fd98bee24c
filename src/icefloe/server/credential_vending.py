"""`CredentialVending`: the access of clients to a table's files in S3, by temporary credentials for its folder, or by signatures of single requests.

The keys of the catalog itself never leave the server. Temporary credentials come from the token service (STS), with a policy that allows only the folder of the
table: reading for the role `read`, and also writing from the role `write` on. Spec: REST catalog, LoadTableResult, LoadCredentialsResponse.
"""

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from icefloe.bounded_cache import BoundedCache
from icefloe.errors import StorageUnavailableError
from icefloe.io.locations import STORE_OF_SCHEME, scheme_of
from icefloe.optional_packages import optional_module
from icefloe.server.request import SEPARATOR, Call
from icefloe.server.rest_operations import Role
from icefloe.server.server_settings import Delegation
from icefloe.server.storage_keys import region_of, session_of
from icefloe.spec.identifier import Identifier

HEADER = "x-iceberg-access-delegation"
VENDED, SIGNED = "vended-credentials", "remote-signing"
# Credentials are handed out only in this first share of their lifetime, so that a client has time to use them.
USED_PART = 0.5
KEPT_CREDENTIALS = 1000
# The name of the session has no names of tables, because others can read it in the log of the token service.
SESSION_NAME = "icefloe"
_ROLE = re.compile(r"arn:(aws[a-z-]*):")
_READ_ACTIONS = ["s3:GetObject", "s3:GetObjectVersion"]
_WRITE_ACTIONS = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryCredentials:
    """Credentials from the token service. Times are in milliseconds since 1970-01-01 UTC."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    made_ms: int
    expires_ms: int

    def is_fresh(self, now_ms: int) -> bool:
        """Return whether a client that gets the credentials now has enough time to use them."""
        return now_ms < self.made_ms + (self.expires_ms - self.made_ms) * USED_PART


class CredentialVending:
    """Gives clients access to files in S3. Any number of threads may use it."""

    def __init__(self, properties: Mapping[str, str], delegation: Delegation) -> None:
        """Prepare to give access.

        Args:
            properties: The properties of the catalog, which have the address of the store and the server's own keys.
            delegation: The ways in which access is given.
        """
        self._properties = dict(properties)
        self.delegation = delegation
        self._lock = threading.Lock()
        self._credentials: BoundedCache[tuple[str, bool], TemporaryCredentials] = BoundedCache(KEPT_CREDENTIALS)
        self._client: Any = None

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the catalog."""
        return self._properties

    def access_to(self, location: str, name: Identifier, call: Call) -> dict[str, Any]:
        """Return the keys of a table's response that give access to its files.

        Args:
            location: The folder of the table.
            name: The name of the table.
            call: The request, which lists the ways of access that the client supports.

        Raises:
            StorageUnavailableError: The token service returns no credentials.
        """
        if not _is_s3(location):
            return {"config": {}}
        config = self._public_settings()
        requested = {text.strip().lower() for text in call.headers.get(HEADER, "").split(",")} - {""}
        if self.delegation.sts_role is not None and VENDED in requested:
            vended = self.vend(location, name, call)
            return {"config": vended[0]["config"], "storage-credentials": vended}
        if self.delegation.signs_requests and (SIGNED in requested or not requested):
            endpoint = f"v1/namespaces/{_quote(SEPARATOR.join(name[:-1]))}/tables/{_quote(name[-1])}/sign"
            signing = {"s3.remote-signing-enabled": "true", "signer.uri": call.base_url, "signer.endpoint": endpoint}
            # Older names of these settings, from before signing was specified.
            older = {"s3.signer": "S3V4RestSigner", "s3.signer.uri": call.base_url, "s3.signer.endpoint": endpoint}
            return {"config": {**config, **signing, **older}, "remote-signing-config": {"properties": {}}}
        return {"config": config}

    def vend(self, location: str, name: Identifier, call: Call) -> list[dict[str, Any]]:
        """Return the credentials for a table's folder with its prefix; an empty list if the server does not vend credentials.

        Args:
            location: The folder of the table.
            name: The name of the table.
            call: The request.

        Raises:
            StorageUnavailableError: The token service returns no credentials.
        """
        if self.delegation.sts_role is None or not _is_s3(location):
            return []
        credentials = self.credentials(location, may_write=may_write(call, name))
        return [{"prefix": location, "config": {**self._public_settings(), **_settings(credentials)}}]

    def credentials(self, location: str, *, may_write: bool) -> TemporaryCredentials:
        """Return credentials for a folder. Cached credentials are returned while they are fresh.

        Args:
            location: The folder.
            may_write: Whether the credentials allow writing and deleting.

        Raises:
            StorageUnavailableError: The token service returns no credentials.
        """
        now_ms = time.time_ns() // 1_000_000
        key = (location, may_write)
        credentials = self._credentials.get(key)
        if credentials is None or not credentials.is_fresh(now_ms):
            credentials = self._assume_role(location, may_write, now_ms)
            self._credentials.put(key, credentials)
        return credentials

    def _public_settings(self) -> dict[str, str]:
        """Return the settings of the store that are not secret."""
        properties, region = self._properties, region_of(self._properties)
        settings = {"s3.endpoint": properties.get("s3.endpoint"), "client.region": region, "s3.region": region}
        if properties.get("s3.endpoint"):
            settings["s3.path-style-access"] = "true"
        return {name: value for name, value in settings.items() if value}

    def _assume_role(self, location: str, may_write: bool, now_ms: int) -> TemporaryCredentials:
        botocore = optional_module("botocore.exceptions", extra="s3", feature="vended credentials")
        try:
            answer = self._sts().assume_role(
                RoleArn=self.delegation.sts_role,
                RoleSessionName=SESSION_NAME,
                DurationSeconds=self.delegation.sts_seconds,
                Policy=json.dumps(folder_policy(location, may_write=may_write, partition=_partition_of(self.delegation.sts_role))),
            )
        except (botocore.BotoCoreError, botocore.ClientError) as error:
            # The text of the error is not included, because it may have parts of the request.
            raise StorageUnavailableError(
                f"the token service gave no credentials: {type(error).__name__}", next_step="check the server's role and its keys"
            ) from None
        credentials = answer["Credentials"]
        return TemporaryCredentials(
            access_key_id=credentials["AccessKeyId"],
            secret_access_key=credentials["SecretAccessKey"],
            session_token=credentials["SessionToken"],
            made_ms=now_ms,
            expires_ms=int(credentials["Expiration"].timestamp() * 1000),
        )

    def _sts(self) -> Any:
        with self._lock:
            if self._client is None:
                session = session_of(self._properties, "vended credentials")
                region = region_of(self._properties) or "us-east-1"
                self._client = session.create_client("sts", region_name=region, endpoint_url=self.delegation.sts_endpoint)
            return self._client


def _partition_of(role: str | None) -> str:
    """Return the AWS partition of a role, such as `aws-cn`; `aws` for a role of another service, because such services accept policies with this name."""
    match = _ROLE.match(role or "")
    return match[1] if match else "aws"


def folder_policy(location: str, *, may_write: bool, partition: str = "aws") -> dict[str, Any]:
    """Return the policy that allows access only to the files of one folder.

    Args:
        location: The folder, such as `s3://bucket/db/t`.
        may_write: Whether the policy allows writing and deleting.
        partition: The AWS partition, with which the names of its resources begin.
    """
    bucket, _, prefix = location.partition("://")[2].partition("/")
    folder = prefix.rstrip("/")
    # A star or question mark in a name is escaped, because it would match other names.
    escaped = folder.replace("$", "${$}").replace("*", "${*}").replace("?", "${?}")
    name = f"arn:{partition}:s3:::{bucket}"
    actions = [*_READ_ACTIONS, *(_WRITE_ACTIONS if may_write else ())]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": actions, "Resource": [f"{name}/{escaped}/*"]},
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [name],
                "Condition": {"StringLike": {"s3:prefix": [f"{escaped}/*"]}},
            },
            {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": [name]},
        ],
    }


def may_write(call: Call, table: Identifier) -> bool:
    """Return whether the user of a request may write the files of a table."""
    return call.access.role_in(table[:-1]) >= Role.WRITE


def _settings(credentials: TemporaryCredentials) -> dict[str, str]:
    return {
        "s3.access-key-id": credentials.access_key_id,
        "s3.secret-access-key": credentials.secret_access_key,
        "s3.session-token": credentials.session_token,
        "s3.session-token-expires-at-ms": str(credentials.expires_ms),
    }


def _is_s3(location: str) -> bool:
    scheme = scheme_of(location)
    return STORE_OF_SCHEME.get(scheme, scheme) == "s3"


def _quote(text: str) -> str:
    return quote(text, safe="")
