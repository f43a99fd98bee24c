"""Access control: the users with their tokens and roles, and the check of a user's role in the namespaces that a request touches.

A role that is granted in a namespace is valid in every namespace below it too. The role is checked before an operation runs, so that the response to a refused
request does not reveal what exists. Tokens are random and long; the server stores only their SHA-256, and compares it in constant time.
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

# The number of bytes of a new token, and the least number of characters of a token that is read from a file.
TOKEN_BYTES = 32
SHORTEST_TOKEN = 32
# The roles by their names in grants.
ROLES: Mapping[str, Role] = {"read": Role.READ, "write": Role.WRITE, "admin": Role.ADMIN}
_UNKNOWN = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role in a namespace and in the namespaces below it. The empty namespace is the whole catalog."""

    role: Role
    namespace: Identifier = ()

    @classmethod
    def of(cls, text: str) -> "Grant":
        """Parse a grant such as `read`, for the whole catalog, or `write:sales.europe`.

        Raises:
            InvalidInputError: There is no such role, or the namespace is not a valid name.
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
    """The rights of the user who sent a request.

    Attributes:
        user: The name of the user; empty if the server has no authentication.
        grants: The roles of the user.
    """

    user: str = ""
    grants: tuple[Grant, ...] = EVERYTHING

    def role_in(self, namespace: Identifier) -> Role:
        """Return the highest role of the user in a namespace; in the whole catalog if the namespace is empty."""
        roles = (grant.role for grant in self.grants if namespace[: len(grant.namespace)] == grant.namespace)
        return max(roles, default=Role.ANY)

    def may_see(self, namespace: Identifier) -> bool:
        """Return whether the user may know that a namespace exists: the user has a role in it, or in a namespace below it."""
        return self.role_in(namespace) >= Role.READ or any(grant.namespace[: len(namespace)] == namespace for grant in self.grants)


def check_access(operation: RestOperation, call: "Call", namespaces: Iterable[Identifier]) -> None:
    """Refuse a request if the role of its user does not suffice.

    Args:
        operation: The operation.
        call: The request.
        namespaces: The namespaces that the request touches; empty for an operation on the whole catalog.

    Raises:
        RefusedRequest: A role is missing, which the message names.
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
    """Refuse a request if its user's role suffices in no namespace at all. Its namespaces are checked later, when its body is decoded.

    Args:
        operation: The operation.
        access: The rights of the user.

    Raises:
        RefusedRequest: A role is missing, which the message names.
    """
    if not any(grant.role >= operation.role for grant in access.grants):
        role = operation.role.name.lower()
        raise forbidden(f"{operation.name} needs the role {role}, which the user {access.user!r} does not have in any namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user: the name, the SHA-256 of the token, and the roles."""

    name: str
    token_sha256: str = field(repr=False)
    grants: tuple[Grant, ...]

    @property
    def access(self) -> Access:
        """The rights of a request that has the user's token."""
        return Access(user=self.name, grants=self.grants)


@dataclass(frozen=True, slots=True)
class Users:
    """The users of a server, by name."""

    by_name: Mapping[str, User]

    @classmethod
    def of(cls, users: Iterable[User]) -> "Users":
        """Return the users by name.

        Raises:
            InvalidInputError: Two users have the same name.
        """
        by_name: dict[str, User] = {}
        for user in users:
            if user.name in by_name:
                raise InvalidInputError(f"there are two users {user.name!r}", next_step="give each user a name of its own")
            by_name[user.name] = user
        return cls(by_name)

    def of_token(self, token: str) -> User | None:
        """Return the user of a token; None for an unknown token. The time that the call takes reveals nothing about the tokens."""
        digest = token_digest(token)
        user_of_token = None
        for user in self.by_name.values():
            if hmac.compare_digest(digest, user.token_sha256):
                user_of_token = user
        return user_of_token

    def of_credential(self, name: str, secret: str) -> User | None:
        """Return the user of a client id and secret, which are the user's name and token; None if they are wrong."""
        user = self.by_name.get(name)
        is_right = hmac.compare_digest(token_digest(secret), _UNKNOWN if user is None else user.token_sha256)
        return user if is_right else None

    def __iter__(self) -> Iterator[User]:
        return iter(self.by_name.values())


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token as hexadecimal digits. A slow hash function is unnecessary for a token of 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", errors="surrogatepass")).hexdigest()
