"""Loopback addresses, by which only the machine itself can reach its servers."""

from ipaddress import ip_address

# The address that servers listen on by default.
LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback name or address, which only this machine can reach. The host may be in brackets."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
