"""Requests to a REST catalog with Google's authentication: a service account's key, and a token endpoint on this machine."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.stores.rest.rest_double import Answer, Request, RestDouble, problem, running

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import IcefloeError, StoragePermissionError

pytestmark = pytest.mark.emulator
rsa = pytest.importorskip(
    "cryptography.hazmat.primitives.asymmetric.rsa", reason="google-auth is not installed: run make test-object-stores"
)
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
jwt = pytest.importorskip("google.auth.jwt", reason="google-auth is not installed: run make test-object-stores")
ACCOUNT = "tables@project.iam.gserviceaccount.com"


@pytest.fixture
def server() -> Iterator[RestDouble]:
    with running(RestDouble()) as double:
        yield double


class TokenEndpoint:
    """Exchanges assertions that the account's key has signed for tokens."""

    def __init__(self, server: RestDouble, folder: Path) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = serialization.Encoding.PEM
        self.secret = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
        self.public = key.public_key().public_bytes(form, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.claims: list[dict[str, Any]] = []
        self.file = folder / "account.json"
        account = {
            "type": "service_account",
            "client_email": ACCOUNT,
            "private_key_id": "k1",
            "private_key": self.secret,
            "token_uri": f"{server.uri}/token",
        }
        self.file.write_text(json.dumps(account))
        server.on("POST", "/token", call=self.exchange)

    def exchange(self, request: Request) -> Answer:
        assertion = parse_qs(request.body.decode())["assertion"][0]
        self.claims.append(dict(jwt.decode(assertion, certs=self.public, verify=True, audience=None)))
        return Answer(200, {"access_token": f"ya29.token-{len(self.claims)}", "expires_in": 3600, "token_type": "Bearer"})


def opened(server: RestDouble, endpoint: TokenEndpoint, **more: str) -> RestCatalog:
    return RestCatalog("g", uri=server.uri, **{"rest.auth.type": "google", "auth.google.credentials_path": str(endpoint.file)}, **more)


def test_a_service_accounts_key_is_exchanged_for_a_token_that_requests_carry(server: RestDouble, tmp_path: Path) -> None:
    endpoint = TokenEndpoint(server, tmp_path)
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    catalog = opened(server, endpoint)
    assert catalog.list_namespaces() == [("db",)]
    (claims,) = endpoint.claims
    assert claims["iss"] == ACCOUNT
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    sent = {request.headers["authorization"] for request in server.requests if request.path.startswith("/v1")}
    assert sent == {"Bearer ya29.token-1"}


def test_scopes_can_be_chosen(server: RestDouble, tmp_path: Path) -> None:
    endpoint = TokenEndpoint(server, tmp_path)
    opened(server, endpoint, **{"auth.google.scopes": "https://a.example/one,https://a.example/two"})
    assert endpoint.claims[0]["scope"] == "https://a.example/one https://a.example/two"


def test_a_refused_token_is_fetched_again(server: RestDouble, tmp_path: Path) -> None:
    endpoint = TokenEndpoint(server, tmp_path)
    catalog = opened(server, endpoint)
    server.on("GET", "/v1/namespaces", problem(401, "NotAuthorizedException"), Answer(200, {"namespaces": []}))
    assert catalog.list_namespaces() == []
    assert len(endpoint.claims) == 2
    assert server.requests[-1].headers["authorization"] == "Bearer ya29.token-2"


def test_a_copy_in_another_process_uses_the_token_until_it_is_refused(server: RestDouble, tmp_path: Path) -> None:
    endpoint = TokenEndpoint(server, tmp_path)
    copy = pickle.loads(pickle.dumps(opened(server, endpoint)))
    server.on(
        "GET", "/v1/namespaces", Answer(200, {"namespaces": []}), problem(401, "NotAuthorizedException"), Answer(200, {"namespaces": []})
    )
    assert copy.list_namespaces() == []
    assert server.requests[-1].headers["authorization"] == "Bearer ya29.token-1"
    assert copy.list_namespaces() == []
    assert server.requests[-1].headers["authorization"] == "Bearer ya29.token-2"


def test_a_refused_account_is_an_error_without_its_key(server: RestDouble, tmp_path: Path) -> None:
    endpoint = TokenEndpoint(server, tmp_path)
    server.on("POST", "/token", Answer(401, {"error": "invalid_grant", "error_description": f"no {endpoint.secret}"}))
    with pytest.raises(StoragePermissionError) as raised:
        opened(server, endpoint)
    assert endpoint.secret not in str(raised.value)
    assert "RefreshError" in raised.value.message


def test_a_missing_file_is_an_error_that_names_the_property(server: RestDouble, tmp_path: Path) -> None:
    with pytest.raises(IcefloeError, match="credentials_path"):
        RestCatalog("g", uri=server.uri, **{"rest.auth.type": "google", "auth.google.credentials_path": str(tmp_path / "none.json")})
