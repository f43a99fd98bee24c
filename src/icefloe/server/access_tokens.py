"""Access tokens of the OAuth2 client credentials flow: signed, short-lived, and valid in every worker of a server.

A client sends its id and secret, which are a user's name and token. It gets an access token that contains the name of the user and the time of its expiry,
signed with a key that the server generates when it starts. So the server stores no access tokens, and after a restart clients must request new ones. The rights
of the user are looked up at each request.
Spec: REST catalog, getToken. The flows are those of RFC 6749, 4.4, and RFC 8693.
"""

import base64
import binascii
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote_plus

from icefloe.server.access_control import User, Users
from icefloe.server.request import Answer
from icefloe.server.signed_text import SignedText

# The lifetime of an access token in seconds.
LIFETIME_S = 3600
PREFIX = "icefloe-at."
CLIENT_CREDENTIALS = "client_credentials"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  this is the name of a flow
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  this is the name of a type
# The most fields of a form, so that a body of many ampersands does not become a long list.
_MOST_FIELDS = 20


class AccessTokens:
    """Issues and checks the access tokens of a server's users."""

    def __init__(self, users: Users, key: bytes, lifetime_s: int = LIFETIME_S) -> None:
        """Prepare to issue tokens.

        Args:
            users: The users.
            key: The key with which tokens are signed.
            lifetime_s: The lifetime of a token in seconds.
        """
        self._users = users
        self._signed = SignedText(key, "access-token")
        self._lifetime_s = lifetime_s

    def user_of(self, bearer: str) -> User | None:
        """Return the user of a bearer token, which is the user's own token or an access token; None if it is unknown or has expired."""
        if bearer.startswith(PREFIX):
            return self._user_of_access_token(bearer)
        return self._users.of_token(bearer)

    def answer(self, body: bytes, authorization: str) -> Answer:
        """Return the response to a token request.

        Args:
            body: The form of the request.
            authorization: The header `Authorization`, in which a client may send its id and secret instead.
        """
        try:
            form = {name: values[-1] for name, values in parse_qs(body.decode("ascii"), max_num_fields=_MOST_FIELDS).items()}
        except (ValueError, UnicodeDecodeError):
            return _refusal(400, "invalid_request", "the body is not a form")
        grant_type = form.get("grant_type")
        if grant_type == CLIENT_CREDENTIALS:
            user = self._users.of_credential(*_credential(form, authorization))
            problem = ("invalid_client", "the client id or the client secret is wrong")
        elif grant_type == TOKEN_EXCHANGE:
            user = self.user_of(form.get("subject_token", ""))
            problem = ("invalid_grant", "the subject token is unknown, or has run out")
        elif grant_type is None:
            return _refusal(400, "invalid_request", "the form has no grant_type")
        else:
            return _refusal(400, "unsupported_grant_type", f"the server has {CLIENT_CREDENTIALS} and token exchange")
        if user is None:
            return _refusal(401, *problem)
        content = {
            "access_token": self.token_of(user),
            "token_type": "bearer",
            "expires_in": self._lifetime_s,
            "issued_token_type": ACCESS_TOKEN_TYPE,
        }
        if form.get("scope"):
            content["scope"] = form["scope"]
        return Answer(content=content, headers={"Cache-Control": "no-store"})

    def token_of(self, user: User) -> str:
        """Return a new access token for a user."""
        claims = {"user": user.name, "until": int(time.time()) + self._lifetime_s, "of": user.token_sha256[:16]}
        return PREFIX + self._signed.seal(claims)

    def _user_of_access_token(self, token: str) -> User | None:
        claims = self._signed.open(token.removeprefix(PREFIX))
        user = None if claims is None else self._users.by_name.get(claims["user"])
        # An access token is no longer valid if its user has got a new token since.
        is_valid = user is not None and claims["until"] > time.time() and claims["of"] == user.token_sha256[:16]
        return user if is_valid else None


def _credential(form: Mapping[str, str], authorization: str) -> tuple[str, str]:
    """Return the client's id and secret, from the form or from the header for basic authentication."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() == "basic" and "client_secret" not in form:
        try:
            name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (ValueError, binascii.Error):
            return "", ""
        return unquote_plus(name), unquote_plus(secret)
    return form.get("client_id", ""), form.get("client_secret", "")


def _refusal(status: int, error: str, description: str) -> Answer:
    """Return the response to a refused token request, in the form of RFC 6749, 5.2."""
    return Answer(status=status, content={"error": error, "error_description": description}, headers={"Cache-Control": "no-store"})
