"""Which hosts and addresses are this machine alone: credentials may go to them unencrypted, and a server without users listens on them."""

import pytest

from icefloe.io.loopback import is_loopback
from icefloe.stores.rest.origins import is_on_this_machine


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.0.0.2", "127.255.255.255", "::1", "[::1]", "0:0:0:0:0:0:0:1"])
def test_hosts_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "localhost.", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example", "localhoſt"),
        # Numerals that some resolvers take for 127.0.0.1.
        *("127.1", "0177.0.0.1", "127.0.0.01", "2130706433", "0x7f000001", "１２７.0.0.1", "127.0.0.1.", "127.0.0.1 ", "127.0.0.1\n"),
        *("0.0.0.0", "::", "[::]", "::2", "128.0.0.1", "10.127.0.1", "169.254.169.254", "::ffff:10.0.0.1"),  # noqa: S104  refused
    ],
)
def test_hosts_elsewhere(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:8181/", "https://localhost", "http://127.5.0.1/x", "http://[::1]:80/"])
def test_addresses_of_this_machine(uri: str) -> None:
    assert is_on_this_machine(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/",
        "http://localhost:80@evil.example/",
        "http://evil.example/127.0.0.1",
        "http://evil.example#@127.0.0.1",
        "http://evil.example\\@127.0.0.1/",
        "http://127.0.0.1\t.evil.example/",
        "http://127.0.0.1:99999/",
        "http://[127.0.0.1]/",
        "ftp://127.0.0.1/",
        "127.0.0.1",
    ],
)
def test_addresses_elsewhere(uri: str) -> None:
    assert not is_on_this_machine(uri)
