"""Who may do what: users with their tokens, the roles that are granted to them, and the namespaces that a request touches.

A role that is granted in a namespace holds in every namespace below it. A user is checked before an operation runs, so that a request that is not allowed
learns nothing about what exists. Tokens are random and long; the server has their SHA-256 alone, and compares it in constant time.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icefloe.errors import InvalidInputError
from icefloe.server.error_response import forbidden
from icefloe.server.rest_operations import RestOperation, Role
from icefloe.spec.identifier import Identifier, dotted, to_identifier

if TYPE_CHECKING:
    from icefloe.server.request import Call

# Bytes of a random token, and characters of the shortest one that is accepted from a file.
TOKEN_BYTES = 32
SHORTEST_TOKEN = 32
# Roles by the names that users write.
ROLES: Mapping[str, Role] = {"read": Role.READ, "write": Role.WRITE, "admin": Role.ADMIN}
_UNKNOWN = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role in a namespace and in those below it; the empty namespace is the whole catalog."""

    role: Role
    namespace: Identifier = ()

    @classmethod
    def of(cls, text: str) -> "Grant":
        """Return the grant that a text names: `read`, or `write:sales.europe`.

        Raises:
            InvalidInputError: there is no such role, or the namespace is not a valid name.
        """
        name, colon, namespace = text.partition(":")
        if name.strip().lower() not in ROLES or (colon and not namespace):
            raise InvalidInputError(
                f"{text!r} grants nothing", next_step=f"write {', '.join(ROLES)}, or a role in a namespace as read:sales"
            )
        return cls(role=ROLES[name.strip().lower()], namespace=to_identifier(namespace.strip()) if namespace else ())

    def __str__(self) -> str:
        name = next(name for name, role in ROLES.items() if role is self.role)
        return f"{name}:{dotted(self.namespace)}" if self.namespace else name


EVERYTHING = (Grant(role=Role.ADMIN),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the user of a request may do.

    Attributes:
        user: The name of the user; empty where there is no authentication.
        grants: The roles of the user.
    """

    user: str = ""
    grants: tuple[Grant, ...] = EVERYTHING

    def role_in(self, namespace: Identifier) -> Role:
        """Return the highest role in a namespace; the empty namespace is the whole catalog."""
        roles = (grant.role for grant in self.grants if namespace[: len(grant.namespace)] == grant.namespace)
        return max(roles, default=Role.ANY)

    def may_see(self, namespace: Identifier) -> bool:
        """Return whether the user may know that a namespace exists: one in which there is a role, or one above it."""
        return self.role_in(namespace) >= Role.READ or any(grant.namespace[: len(namespace)] == namespace for grant in self.grants)


def check_access(operation: RestOperation, call: "Call", namespaces: Iterable[Identifier]) -> None:
    """Refuse a request whose user has no sufficient role.

    Args:
        operation: The operation.
        call: The request.
        namespaces: The namespaces that it touches; none for an operation on the whole catalog.

    Raises:
        RefusedRequest: with the role that is missing.
    """
    if operation.role <= Role.ANY:
        return
    for namespace in namespaces:
        allowed = call.access.may_see(namespace) if operation.name == "listNamespaces" else call.access.role_in(namespace) >= operation.role
        if not allowed:
            role = operation.role.name.lower()
            where = f"namespace {dotted(namespace)}" if namespace else "the catalog"
            raise forbidden(f"{operation.name} needs the role {role} in {where}, which the user {call.access.user!r} does not have")


def check_access_somewhere(operation: RestOperation, access: Access) -> None:
    """Refuse a request whose user has a sufficient role in no namespace at all; which namespaces it touches is checked when its body is decoded.

    Args:
        operation: The operation.
        access: What the user may do.

    Raises:
        RefusedRequest: with the role that is missing.
    """
    if not any(grant.role >= operation.role for grant in access.grants):
        role = operation.role.name.lower()
        raise forbidden(f"{operation.name} needs the role {role}, which the user {access.user!r} does not have in any namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user: a name, the SHA-256 of the token, and the roles."""

    name: str
    token_sha256: str = field(repr=False)
    grants: tuple[Grant, ...]

    @property
    def access(self) -> Access:
        """What a request with the user's token may do."""
        return Access(user=self.name, grants=self.grants)


@dataclass(frozen=True, slots=True)
class Users:
    """The users of a server, by name."""

    by_name: Mapping[str, User]

    @classmethod
    def of(cls, users: Iterable[User]) -> "Users":
        """Return the users. Raises `InvalidInputError` where two have the same name."""
        by_name: dict[str, User] = {}
        for user in users:
            if user.name in by_name:
                raise InvalidInputError(f"there are two users {user.name!r}", next_step="give each user a name of its own")
            by_name[user.name] = user
        return cls(by_name)

    def of_token(self, token: str) -> User | None:
        """Return the user of a token; None for an unknown token. The time that it takes shows nothing about the tokens."""
        digest = token_digest(token)
        user_of_token = None
        for user in self.by_name.values():
            if hmac.compare_digest(digest, user.token_sha256):
                user_of_token = user
        return user_of_token

    def of_credential(self, name: str, secret: str) -> User | None:
        """Return the user of a client id and secret, which are the user's name and token; None where they are wrong."""
        user = self.by_name.get(name)
        is_right = hmac.compare_digest(token_digest(secret), _UNKNOWN if user is None else user.token_sha256)
        return user if is_right else None

    def __iter__(self) -> Iterator[User]:
        return iter(self.by_name.values())


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token as hexadecimal digits. A slow hash adds nothing for a token of 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).hexdigest()
