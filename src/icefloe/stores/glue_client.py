"""`GlueClient`: requests to AWS Glue by boto3, with the catalog properties that configure them, and their errors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from icefloe.errors import IcefloeError, InvalidInputError, StorageError, StoragePermissionError, StorageUnavailableError
from icefloe.io.storage_errors import cause_without_secrets, without_secrets
from icefloe.optional_packages import optional_module

# Property -> argument of boto3's session or client; if several properties set an argument, the first one counts.
_SESSION_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "profile_name": ("glue.profile-name", "client.profile-name"),
    "region_name": ("glue.region", "client.region"),
    "aws_access_key_id": ("glue.access-key-id", "client.access-key-id"),
    "aws_secret_access_key": ("glue.secret-access-key", "client.secret-access-key"),
    "aws_session_token": ("glue.session-token", "client.session-token"),
}
SECRETS = (
    "glue.access-key-id",
    "glue.secret-access-key",
    "glue.session-token",
    "client.access-key-id",
    "client.secret-access-key",
    "client.session-token",
)
ENDPOINT, CATALOG_ID, MAX_RETRIES = "glue.endpoint", "glue.id", "glue.max-retries"
# Error codes that the store handles itself.
EXISTS, MISSING, MODIFIED = "AlreadyExistsException", "EntityNotFoundException", "ConcurrentModificationException"
# Error codes by the Icefloe error to raise.
_DENIED = frozenset(
    {"AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException"}
)
_REFUSED = frozenset(
    {"InvalidInputException", "ValidationException", "ResourceNumberLimitExceededException", "GlueEncryptionException", MISSING}
)


class GlueError(Exception):
    """A failed request to AWS Glue.

    Attributes:
        code: Glue's error code; empty without a response.
        status: The HTTP status of the response.
        was_repeated: Whether boto3 sent the request more than once.
    """

    def __init__(self, code: str, text: str, status: int = 0, *, was_repeated: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.was_repeated = was_repeated

    @property
    def is_denial(self) -> bool:
        """Whether Glue certainly did not carry out the request. False if boto3 repeated it: an earlier attempt may have succeeded with a lost reply."""
        if not self.code or self.was_repeated:
            return False
        return self.status < 500 and self.code not in ("OperationTimeoutException", "InternalServiceException")

    @property
    def is_throttled(self) -> bool:
        """Whether Glue refused the request because of its rate limit, so that it can be sent again later."""
        return "Throttl" in self.code

    def as_icefloe_error(self, failure: str) -> IcefloeError:
        """Return the error to raise for a failure that the store does not handle itself."""
        if self.code in _DENIED:
            return StoragePermissionError(
                f"{failure}: AWS denied it: {self}",
                next_step="grant the right to this identity in IAM or Lake Formation, or use other credentials",
            )
        if self.code in _REFUSED:
            return InvalidInputError(f"{failure}: Glue refused it: {self}", next_step="correct the value in Glue's message")
        if not self.code or self.status >= 500 or self.is_throttled:
            return StorageUnavailableError(
                f"{failure}: {self}",
                next_step="check the network, the region and the credentials (glue.region, glue.endpoint), and try again",
            )
        return StorageError(f"{failure}: {self.code}: {self}", next_step="look up this AWS error code; try again if it is temporary")


@contextmanager
def glue_errors(failure: str) -> Iterator[None]:
    """Raise a `GlueError` from the block as an error of Icefloe."""
    try:
        yield
    except GlueError as error:
        raise error.as_icefloe_error(failure) from error


class GlueClient:
    """The client for a Glue catalog. It holds only settings, so that it can be pickled; each process connects for itself."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = {key: text for key, text in properties.items() if key.startswith(("glue.", "client."))}

    def call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Send a request, with boto3's usual repeats. Raises `GlueError`."""
        return self._send(_client(self._key()), operation, arguments)

    def call_once(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Send a request without repeats: it has no condition, and another process may have changed the catalog between two attempts. Raises `GlueError`."""
        return self._send(_client(self._key(), is_repeated=False), operation, arguments)

    def _key(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self._properties.items()))

    def _send(self, client: Any, operation: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        if CATALOG_ID in self._properties:
            arguments["CatalogId"] = self._properties[CATALOG_ID]
        secrets = [self._properties[name] for name in SECRETS if self._properties.get(name)]
        request: Callable[..., Mapping[str, Any]] = getattr(client, operation)
        try:
            return request(**arguments)
        except client.exceptions.ClientError as error:
            response = error.response.get("Error", {})
            details = error.response.get("ResponseMetadata", {})
            status, repeats = int(details.get("HTTPStatusCode") or 0), int(details.get("RetryAttempts") or 0)
            text = without_secrets(str(response.get("Message") or error), secrets)
            raise GlueError(str(response.get("Code") or ""), text, status=status, was_repeated=repeats > 0) from cause_without_secrets(
                error, secrets
            )
        except Exception as error:  # noqa: BLE001  botocore has many classes for lost connections, time-outs and missing credentials
            raise GlueError("", f"{type(error).__name__}: {without_secrets(str(error), secrets)}") from cause_without_secrets(
                error, secrets
            )

    def pages(self, operation: str, field: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the items of a listing, from the member `field` of all its pages. Raises `GlueError`."""
        token: dict[str, str] = {}
        while True:
            page = self.call(operation, **arguments, **token)
            yield from page[field]
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}


@lru_cache(maxsize=64)
def _client(properties: tuple[tuple[str, str], ...], *, is_repeated: bool = True) -> Any:
    """Return boto3's client, with or without repeats of failed requests; it is cached by process and set of properties. Raises `NotInstalledError`."""
    boto3 = optional_module("boto3", extra="glue", feature="a catalog in AWS Glue")
    config = optional_module("botocore.config", extra="glue", feature="a catalog in AWS Glue")
    values = dict(properties)
    options = {
        option: text
        for option, names in _SESSION_OPTIONS.items()
        if (text := next((values[name] for name in names if values.get(name)), None))
    }
    attempts = {"max_attempts": int(values.get(MAX_RETRIES, "10"))} if is_repeated else {"total_max_attempts": 1}
    retries = {"mode": "standard", **attempts}
    return boto3.session.Session(**options).client("glue", endpoint_url=values.get(ENDPOINT), config=config.Config(retries=retries))
