"""The addresses that may receive a catalog's credentials: those in the user's configuration, and never one that only a server's response contains."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from icefloe.errors import InvalidPropertyError, LocationNotAllowedError, in_one_line
from icefloe.io.loopback import is_loopback

URI, OAUTH2_SERVER_URI = "uri", "oauth2-server-uri"
TRUSTED_ORIGINS = "rest.trusted-origins"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(uri: str) -> tuple[str, str, int] | None:
    """Return the scheme, host and port of an HTTP or HTTPS address.

    Returns:
        None if the address is invalid or has another scheme; or if it contains a user name or a backslash, which clients parse differently.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc or "\\" in uri:
        return None
    return scheme, parts.hostname.lower(), port or _DEFAULT_PORTS[scheme]


def is_on_this_machine(uri: str) -> bool:
    """Return whether an HTTP address belongs to this machine."""
    origin = origin_of(uri)
    return origin is not None and is_loopback(origin[1])


@dataclass(frozen=True, slots=True)
class TrustedOrigins:
    """The origins (scheme, host and port) that may receive a catalog's credentials, because they are in the user's properties.

    Attributes:
        base: The address of the catalog, against which relative addresses are resolved.
        origins: The scheme, host and port of each trusted address.
    """

    base: str
    origins: frozenset[tuple[str, str, int]]

    @classmethod
    def of(cls, properties: Mapping[str, str], catalog_name: str) -> "TrustedOrigins":
        """Return the origins in a catalog's own properties, not in properties from the server.

        Raises:
            InvalidPropertyError: a property that must be an HTTP address has a different value.
        """
        named = [(name, properties[name]) for name in (URI, OAUTH2_SERVER_URI) if properties.get(name)]
        named += [(TRUSTED_ORIGINS, text.strip()) for text in properties.get(TRUSTED_ORIGINS, "").split(",") if text.strip()]
        base = properties[URI]
        origins = set()
        for name, text in named:
            origin = origin_of(urljoin(f"{base}/", text))
            if origin is None:
                raise InvalidPropertyError(
                    f"the property {name} of catalog {catalog_name!r} is no address of a REST catalog",
                    next_step="write it as https://host/path, without a user's name",
                )
            origins.add(origin)
        return cls(base.rstrip("/"), frozenset(origins))

    def resolve(self, uri: str, source: str) -> str:
        """Return an address from a server as an absolute address.

        Args:
            uri: The address; a relative one is resolved against the address of the catalog.
            source: The source of the address, for the error.

        Raises:
            LocationNotAllowedError: the origin of the address is not among the trusted origins.
        """
        absolute = uri if "://" in uri else f"{self.base}/{uri.lstrip('/')}"
        if origin_of(absolute) not in self.origins:
            shown = in_one_line(absolute)[:200]
            raise LocationNotAllowedError(
                f"{source} sends this client and its credentials to {shown}, which is not of the catalog's own address",
                path=shown,
                next_step=f"if you trust that host, add its origin to the catalog property {TRUSTED_ORIGINS}",
            )
        return absolute
