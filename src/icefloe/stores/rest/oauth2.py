"""`OAuth2Session`: OAuth2 bearer tokens by client credentials or token exchange, refreshed before they expire.

A token is fetched at the first request, and again when a tenth of its lifetime, but at most five minutes, is left. The thread that sends the next request
fetches it.
Spec: REST catalog, getToken.
"""

import base64
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import msgspec

from icefloe.errors import InvalidPropertyError
from icefloe.stores.rest import settings
from icefloe.stores.rest.http_client import HttpClient
from icefloe.stores.rest.origins import OAUTH2_SERVER_URI

MOST_MARGIN_S = 300.0
# About a thousand years, in seconds. A longer lifetime is ignored as invalid.
_MOST_LIFETIME_S = 3.2e10
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105  a name
ACCESS_TOKEN = f"{_TOKEN_TYPE}access_token"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
# Types of a user's token that can be exchanged, by preference. JAVA: OAuth2Manager.
SUBJECT_KINDS = tuple(f"{_TOKEN_TYPE}{kind}" for kind in ("id_token", "access_token", "jwt", "saml2", "saml1"))
FORM = "application/x-www-form-urlencoded"


class _TokenReply(msgspec.Struct):
    access_token: str
    expires_in: float | str | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


class NoAuth:
    """No authentication, for example for requests to a token endpoint, which have their credentials in the body."""

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:  # noqa: ARG002  the protocol's
        return headers

    def renew(self) -> bool:
        """Return False: there are no credentials."""
        return False

    def secrets(self) -> list[str]:
        return []


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A fixed bearer token, such as a token that a server sends with a table."""

    token: str

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:  # noqa: ARG002  the protocol's
        return {**headers, "Authorization": f"Bearer {self.token}"}

    def renew(self) -> bool:
        """Return False, because there is only one token."""
        return False

    def secrets(self) -> list[str]:
        return [self.token]

    def __repr__(self) -> str:
        return "StaticToken(***)"


class OAuth2Session:
    """A bearer token that is renewed before it expires.

    Args:
        client: The client that requests tokens.
        properties: The catalog's properties.
        server_uri: The address of the token endpoint.
    """

    def __init__(self, client: HttpClient, properties: Mapping[str, str], server_uri: str) -> None:
        self._client = client
        self._server_uri = server_uri
        self._credential = properties.get(settings.CREDENTIAL) or ""
        self._optional = {
            "scope": properties.get(settings.SCOPE) or "catalog",
            **{name: properties[name] for name in (settings.AUDIENCE, settings.RESOURCE) if properties.get(name)},
        }
        self._may_refresh = settings.is_on(properties, settings.TOKEN_REFRESH, default=True)
        self._may_exchange = settings.is_on(properties, settings.TOKEN_EXCHANGE, default=True)
        self._subject = next(((properties[kind], kind) for kind in SUBJECT_KINDS if properties.get(kind)), None)
        lifetime_s = settings.number(properties, settings.TOKEN_EXPIRES_IN_MS, 3_600_000, 1) / 1000
        given_token = properties.get(settings.TOKEN) or ""
        # A user's own token is exchanged before the first request. The catalog's token then only identifies the actor.
        self._token, self._actor = (given_token, "") if self._subject is None else ("", given_token)
        self._is_user_token = bool(self._token)
        claimed_s = _lifetime(self._token)
        self._set_expiry(lifetime_s if claimed_s is None else claimed_s)
        if self._credential.partition(":")[0] == "" and ":" in self._credential:
            raise InvalidPropertyError(
                f"the catalog property {settings.CREDENTIAL} has no client id", next_step="write it as client_id:client_secret"
            )
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:  # noqa: ARG002  the protocol's
        """Return the headers with a valid token. Raises `StoragePermissionError` if no token is available."""
        token = self._current()
        return {**headers, "Authorization": f"Bearer {token}"} if token else headers

    def renew(self) -> bool:
        """Fetch a new token, because the server refuses the current one."""
        refused = self._token
        with self._lock:
            if self._token == refused:
                self._fetch(is_refused=True)
        return self._token != refused

    def secrets(self) -> list[str]:
        secret = self._credential.partition(":")[2] or self._credential
        subject = self._subject[0] if self._subject else ""
        return [text for text in (self._token, self._credential, secret, subject, self._actor) if text]

    def _current(self) -> str:
        if not self._token or time.time() >= self._refresh_at:
            with self._lock:
                if not self._token or (time.time() >= self._refresh_at and self._may_refresh):
                    self._fetch(is_refused=False)
        return self._token

    def _fetch(self, *, is_refused: bool) -> None:
        """Fetch a token by the credential, for the user's own token, or in exchange for the current token.

        If the server returns no token, the current token is kept as long as it may be valid. The catalog's token is never used instead of the user's token,
        because it has different rights.
        """
        if self._credential:
            reply = self._request_token(self._client_credentials(), "")
            if reply is not None and self._subject is not None:
                reply = self._request_token(_exchange(*self._subject, actor=reply.access_token), reply.access_token)
        elif self._token and self._may_exchange and not is_refused:
            reply = self._request_token(_exchange(self._token, ACCESS_TOKEN), self._token)
        elif self._subject is not None:
            reply = self._request_token(_exchange(*self._subject, actor=self._actor), self._actor)
        else:
            return
        if reply is not None:
            self._token, self._is_user_token = reply.access_token, False
            self._set_expiry(_seconds(reply.expires_in) or _lifetime(reply.access_token) or 3600.0)

    def _client_credentials(self) -> dict[str, str]:
        client_id, colon, secret = self._credential.partition(":")
        form = {"grant_type": "client_credentials", "client_secret": secret if colon else client_id}
        return {**form, "client_id": client_id} if colon else form

    def _request_token(self, form: Mapping[str, str], bearer: str) -> _TokenReply | None:
        """Send a form to the token endpoint, authenticated by the bearer token unless that is empty.

        Returns:
            The server's reply with the new token. None if the server refuses, and the current token may still be valid.
        """
        content = urlencode({**form, **self._optional}).encode()
        auth = StaticToken(bearer) if bearer else NoAuth()
        sent = self._client.send(
            "POST", self._server_uri, auth=auth, content=content, content_type=FORM, is_repeatable=True, secrets=self.secrets()
        )
        reply = replace(sent, setting=OAUTH2_SERVER_URI)
        if reply.is_success:
            return reply.parse(_TokenReply)
        if self._is_user_token or (self._token and time.time() < self._expires_at):
            self._refresh_at = time.time() + 60  # the server decides whether the current token is valid
            return None
        raise reply.error("the OAuth2 server issued no token")

    def _set_expiry(self, lifetime_s: float) -> None:
        now = time.time()
        self._expires_at = now + lifetime_s
        self._refresh_at = self._expires_at - min(MOST_MARGIN_S, lifetime_s / 10)

    def __repr__(self) -> str:
        return f"OAuth2Session({self._server_uri!r})"


def _exchange(token: str, kind: str, *, actor: str = "") -> dict[str, str]:
    form = {"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": kind}
    return {**form, "actor_token": actor, "actor_token_type": ACCESS_TOKEN} if actor else form


def _seconds(value: float | str | None) -> float | None:
    """Return a lifetime from a server, a number or a text, in seconds; None if it is not a valid time."""
    try:
        seconds = float(value or 0)
    except ValueError:
        return None
    return seconds if 0 < seconds < _MOST_LIFETIME_S else None


def _lifetime(token: str) -> float | None:
    """Return the seconds until a JWT expires, by its own claim; None for other tokens. The signature is not verified, because that is up to the server."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims)
    except (ValueError, msgspec.DecodeError):
        return None
    return max(0.0, claims.exp - time.time()) if claims.exp else None
