"""`auth_session`: the authentication for a REST catalog, according to the user's properties: none, basic, OAuth2, AWS, Google, or a custom class.

Only the user's own properties select it; properties from the server are ignored.
"""

import base64
import hashlib
import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from icefloe.errors import IcefloeError, InvalidPropertyError, StoragePermissionError
from icefloe.optional_packages import optional_module
from icefloe.stores.rest import settings
from icefloe.stores.rest.http_client import AuthSession, HttpClient
from icefloe.stores.rest.oauth2 import SUBJECT_KINDS, NoAuth, OAuth2Session
from icefloe.stores.rest.origins import OAUTH2_SERVER_URI, TrustedOrigins, is_on_this_machine

LOG = logging.getLogger(__name__)
TOKENS_PATH = "v1/oauth/tokens"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
# Headers that are not signed, because connections and proxies change them.
_UNSIGNED = frozenset({"connection", "user-agent", "accept-encoding", "accept", "content-length", "expect", "transfer-encoding"})
# The number of most recent header values of a custom class that are kept, to remove them from errors of requests that still run.
_KEPT_VALUES = 100
# The names of each authentication type in PyIceberg and in Java.
_TYPES = {
    "none": "none",
    "noop": "none",
    "basic": "basic",
    "oauth2": "oauth2",
    "legacyoauth2": "oauth2",
    "sigv4": "sigv4",
    "google": "google",
    "custom": "custom",
    "org.apache.iceberg.rest.auth.noopauthmanager": "none",
    "org.apache.iceberg.rest.auth.basicauthmanager": "basic",
    "org.apache.iceberg.rest.auth.oauth2manager": "oauth2",
    "org.apache.iceberg.aws.restsigv4authmanager": "sigv4",
    "org.apache.iceberg.gcp.auth.googleauthmanager": "google",
}


@runtime_checkable
class HeaderSource(Protocol):
    """A custom authentication class of the user. It is created with the catalog's properties as keyword arguments, as PyIceberg creates an `AuthManager`."""

    def auth_header(self) -> str | None:
        """Return the value of the header `Authorization`."""


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """Basic authentication: a user name and a password in each request."""

    username: str
    password: str

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:  # noqa: ARG002  the protocol's
        return {**headers, "Authorization": f"Basic {self._encode()}"}

    def _encode(self) -> str:
        return base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    def renew(self) -> bool:
        """Return False, because there is only one password."""
        return False

    def secrets(self) -> list[str]:
        return [self.password, self._encode()]

    def __repr__(self) -> str:
        return f"BasicAuth({self.username!r})"


class SigV4Auth:
    """Signing of requests with AWS Signature Version 4, by botocore. The credentials come from the properties or from the machine.

    Args:
        properties: The catalog's properties.
        inner: An additional authentication. Its header is signed too, under the name `Original-Authorization`.
    """

    def __init__(self, properties: Mapping[str, str], inner: AuthSession) -> None:
        self._service = properties.get(settings.SIGNING_NAME) or _service_of(properties.get("uri", ""))
        self._region = properties.get(settings.SIGNING_REGION) or properties.get("client.region") or properties.get("s3.region")
        self._keys = tuple(properties.get(name) for name in (settings.SIGNING_KEY, settings.SIGNING_SECRET, settings.SIGNING_SESSION))
        self._profile = properties.get("client.profile-name")
        self._inner = inner
        self._lock = threading.Lock()
        self._session: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_session")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._session = threading.Lock(), None

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:
        """Return the headers with a signature. Raises `StoragePermissionError` if there are no credentials."""
        auth = optional_module("botocore.auth", extra="s3", feature="rest.auth.type sigv4")
        request_type = optional_module("botocore.awsrequest", extra="s3", feature="rest.auth.type sigv4").AWSRequest
        inner = dict(self._inner.headers(method, url, headers, content))
        original = inner.pop("Authorization", None)
        if original is not None:
            inner["Original-Authorization"] = original
        inner["x-amz-content-sha256"] = hashlib.sha256(content).hexdigest()
        signed = {name: text for name, text in inner.items() if name.lower() not in _UNSIGNED}
        request = request_type(method=method, url=url, data=content, headers=signed)
        auth.SigV4Auth(self._credentials(), self._service, self._signing_region()).add_auth(request)
        return {**inner, **dict(request.headers.items())}

    def _credentials(self) -> Any:
        if self._keys[0] and self._keys[1]:
            return optional_module("botocore.credentials", extra="s3", feature="rest.auth.type sigv4").Credentials(*self._keys)
        credentials = self._machine().get_credentials()
        if credentials is None:
            raise StoragePermissionError(
                "requests to the REST catalog are to be signed, and there are no AWS credentials",
                next_step=f"set {settings.SIGNING_KEY} and {settings.SIGNING_SECRET}, or the machine's own (AWS_PROFILE, AWS_ACCESS_KEY_ID, a role)",
            )
        return credentials.get_frozen_credentials()

    def _signing_region(self) -> str:
        region = self._region or self._machine().get_config_variable("region")
        if not region:
            raise InvalidPropertyError(
                "requests to the REST catalog are to be signed, and there is no region", next_step=f"set {settings.SIGNING_REGION}"
            )
        return str(region)

    def _machine(self) -> Any:
        with self._lock:
            if self._session is None:
                module = optional_module("botocore.session", extra="s3", feature="rest.auth.type sigv4")
                self._session = module.Session(profile=self._profile)
            return self._session

    def renew(self) -> bool:
        return self._inner.renew()

    def secrets(self) -> list[str]:
        return [*(text for text in self._keys[1:] if text), *self._inner.secrets()]


class GoogleAuth:
    """A Google bearer token by google-auth, from the file of a service account or from the machine.

    A pickled copy in another process, whose machine may have neither, uses the token of this process until the server refuses it.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._path = properties.get(settings.GOOGLE_CREDENTIALS) or properties.get("gcp.auth.credentials-path")
        text = properties.get(settings.GOOGLE_SCOPES) or properties.get("gcp.auth.scopes") or GOOGLE_SCOPE
        self._scopes = [scope.strip() for scope in text.strip("[]").replace("'", "").split(",") if scope.strip()]
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._given_token: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_credentials")}
        return {**state, "_given_token": getattr(self._credentials, "token", None) or self._given_token}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._credentials = threading.Lock(), None

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:  # noqa: ARG002  the protocol's
        """Return the headers with a valid token. Raises `StoragePermissionError` if no token is available."""
        if (token := self._given_token) is not None:
            return {**headers, "Authorization": f"Bearer {token}"}
        transport = optional_module("google.auth.transport.requests", extra="gcs", feature="rest.auth.type google")
        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials = self._google_credentials()
                if not self._credentials.valid:
                    self._credentials.refresh(transport.Request())
            except IcefloeError:
                raise
            except Exception as error:  # noqa: BLE001  google-auth raises many kinds, whose text can have secrets
                raise StoragePermissionError(
                    f"no Google credentials for the REST catalog: {type(error).__name__}",
                    next_step=f"set {settings.GOOGLE_CREDENTIALS}, or run `gcloud auth application-default login`",
                ) from None
            return {**headers, "Authorization": f"Bearer {self._credentials.token}"}

    def _google_credentials(self) -> Any:
        google = optional_module("google.auth", extra="gcs", feature="rest.auth.type google")
        credentials = (
            google.load_credentials_from_file(self._path, scopes=self._scopes) if self._path else google.default(scopes=self._scopes)
        )
        return credentials[0]

    def renew(self) -> bool:
        """Drop the token, so that the next request fetches a new token."""
        with self._lock:
            has_token = self._credentials is not None or self._given_token is not None
            self._credentials = self._given_token = None
        return has_token

    def secrets(self) -> list[str]:
        tokens = (getattr(self._credentials, "token", None), self._given_token)
        return [str(token) for token in tokens if token]


class OwnAuth:
    """Authentication by a custom class of the user, which returns the value of the header `Authorization`."""

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self._name = name
        self._arguments = {key.removeprefix("auth.custom."): text for key, text in properties.items() if key.startswith("auth.custom.")}
        self._source = self._load_source()
        self._sent = deque[str](maxlen=_KEPT_VALUES)

    def __reduce__(self) -> tuple[object, ...]:
        return OwnAuth, (self._name, {f"auth.custom.{key}": text for key, text in self._arguments.items()})

    def _load_source(self) -> HeaderSource:
        module, _, name = self._name.rpartition(".")
        try:
            source = getattr(import_module(module), name)(**self._arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise InvalidPropertyError(
                f"the class {self._name!r} of the catalog property {settings.AUTH_TYPE} cannot be made: {type(error).__name__}: {error}",
                next_step="name a class as package.module.Class whose keyword arguments are the properties auth.custom.*",
            ) from error
        if not isinstance(source, HeaderSource):
            raise InvalidPropertyError(
                f"the class {self._name!r} of the catalog property {settings.AUTH_TYPE} has no method auth_header",
                next_step="let its method auth_header return the value of the header Authorization",
            )
        return source

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:  # noqa: ARG002  the protocol's
        value = self._source.auth_header()
        if value and value not in self._sent:
            self._sent.append(value)
        return {**headers, "Authorization": value} if value else headers

    def renew(self) -> bool:
        """Return True, because the class is called again."""
        return True

    def secrets(self) -> list[str]:
        values = list(self._sent)
        return [text for text in (*values, *(value.rpartition(" ")[2] for value in values), *self._arguments.values()) if text]


def auth_session(properties: Mapping[str, str], client: HttpClient, trusted: TrustedOrigins) -> AuthSession:
    """Return the authentication that the user's properties select.

    Args:
        properties: The user's properties, with PyIceberg's names or Java's.
        client: The client that requests tokens.
        trusted: The origins that may receive credentials.

    Raises:
        InvalidPropertyError: a property has an invalid value, or a required property is missing.
    """
    given = _with_pyiceberg_names(properties)
    kind = _kind_of(given)
    if kind != "none" and client.uri.lower().startswith("http://") and not is_on_this_machine(client.uri):
        LOG.warning("credentials are sent to %s without encryption; give the catalog an address that begins with https://", client.uri)
    return _session(kind, given, client, trusted)


def _session(kind: str, properties: Mapping[str, str], client: HttpClient, trusted: TrustedOrigins) -> AuthSession:
    match kind:
        case "none":
            return NoAuth()
        case "basic":
            return BasicAuth(_require(properties, settings.BASIC_USERNAME, kind), _require(properties, settings.BASIC_PASSWORD, kind))
        case "oauth2":
            return OAuth2Session(client, properties, trusted.resolve(properties.get(OAUTH2_SERVER_URI) or TOKENS_PATH, "the configuration"))
        case "google":
            return GoogleAuth(properties)
        case "sigv4":
            delegate = _TYPES.get(properties.get(settings.SIGV4_DELEGATE, "").lower())
            if delegate is None:
                delegate = "oauth2" if _has_token(properties) else "none"
            return SigV4Auth(properties, _session(delegate, properties, client, trusted) if delegate != "sigv4" else NoAuth())
        case "custom":
            return OwnAuth(_require(properties, settings.AUTH_IMPL, kind), properties)
    return OwnAuth(kind, properties)


def _kind_of(properties: Mapping[str, str]) -> str:
    text = properties.get(settings.AUTH_TYPE) or properties.get(settings.PYICEBERG_AUTH_TYPE)
    if text:
        kind = _TYPES.get(text.strip().lower())
        if kind is None and "." not in text:
            raise InvalidPropertyError(
                f"the catalog property {settings.AUTH_TYPE} is {text!r}",
                next_step="set it to none, basic, oauth2, sigv4, google, or the dotted name of a class of your own",
            )
        return kind or text.strip()
    if settings.is_on(properties, settings.SIGV4_ENABLED, default=False):
        return "sigv4"
    if _has_token(properties):
        return "oauth2"
    return "basic" if properties.get(settings.BASIC_USERNAME) else "none"


def _has_token(properties: Mapping[str, str]) -> bool:
    return any(properties.get(name) for name in (settings.TOKEN, settings.CREDENTIAL, *SUBJECT_KINDS))


def _with_pyiceberg_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate the properties of PyIceberg's section `auth` to Java's names; properties that the user has set under Java's names take precedence."""
    settings_of_type: dict[str, str] = {}
    for name, other in (("auth.basic.username", settings.BASIC_USERNAME), ("auth.basic.password", settings.BASIC_PASSWORD)):
        if properties.get(name):
            settings_of_type[other] = properties[name]
    client_id, secret = properties.get("auth.oauth2.client_id"), properties.get("auth.oauth2.client_secret")
    if secret:
        settings_of_type[settings.CREDENTIAL] = f"{client_id}:{secret}" if client_id else secret
    for name, other in (
        ("auth.oauth2.token_url", OAUTH2_SERVER_URI),
        ("auth.oauth2.scope", settings.SCOPE),
        ("rest.authorization-url", OAUTH2_SERVER_URI),
    ):
        if properties.get(name):
            settings_of_type[other] = properties[name]
    return {**settings_of_type, **properties}


def _require(properties: Mapping[str, str], name: str, kind: str) -> str:
    value = properties.get(name)
    if not value:
        raise InvalidPropertyError(f"the authentication {kind} of the REST catalog needs the property {name}", next_step=f"set {name}")
    return value


def _service_of(uri: str) -> str:
    """Return the service name for AWS signatures of requests to an address: `glue`, `s3tables`, or else `execute-api`, the name of API Gateway."""
    host = urlsplit(uri).hostname or ""
    if host.startswith("glue.") and ".amazonaws.com" in host:
        return "glue"
    return "s3tables" if host.startswith("s3tables.") and ".amazonaws.com" in host else "execute-api"
