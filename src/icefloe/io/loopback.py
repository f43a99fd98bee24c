"""The addresses by which a machine reaches itself alone."""

from ipaddress import ip_address

# The address that servers listen on unless another one is named.
LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Return whether a host, by its name or by its address, with or without brackets, is one that only this machine reaches."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
