"""Authentication of a REST catalog, by Java's names and PyIceberg's, and what is never shown of it."""

import base64
import hashlib
import hmac
import json
import pickle
import time
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import parse_qs, quote

import pytest
from tests.stores.rest.rest_double import Answer, Request, RestDouble, problem

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import IcefloeError, InvalidPropertyError, LocationNotAllowedError, NoSuchNamespaceError, StoragePermissionError
from icefloe.stores.rest import oauth2

CREDENTIAL = "client:top-secret"
JWT = "urn:ietf:params:oauth:token-type:jwt"


def opened(server: RestDouble, **properties: str) -> RestCatalog:
    return RestCatalog("r", uri=server.uri, **properties)


def token(name: str, expires_in: float = 3600) -> Answer:
    return Answer(200, {"access_token": name, "token_type": "bearer", "expires_in": expires_in})


def form(request: Request) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(request.body.decode()).items()}


def sent(server: RestDouble) -> str:
    return server.requests[-1].headers.get("authorization", "")


def test_without_properties_nothing_is_sent(server: RestDouble) -> None:
    opened(server)
    assert sent(server) == ""


@pytest.mark.parametrize(
    "properties",
    [
        {"rest.auth.type": "basic", "rest.auth.basic.username": "me", "rest.auth.basic.password": "pass word"},
        {"auth.type": "basic", "auth.basic.username": "me", "auth.basic.password": "pass word"},
    ],
)
def test_basic(server: RestDouble, properties: dict[str, str]) -> None:
    opened(server, **properties)
    assert base64.b64decode(sent(server).removeprefix("Basic ")).decode() == "me:pass word"


def test_a_bearer_token_is_sent_as_it_is(server: RestDouble) -> None:
    opened(server, token="abcd")  # noqa: S106
    assert sent(server) == "Bearer abcd"


@pytest.mark.parametrize(
    "properties",
    [
        {"credential": CREDENTIAL, "scope": "all", "audience": "a", "resource": "r"},
        {
            "auth.type": "oauth2",
            "auth.oauth2.client_id": "client",
            "auth.oauth2.client_secret": "top-secret",
            "scope": "all",
            "audience": "a",
            "resource": "r",
        },
    ],
)
def test_client_credentials(server: RestDouble, properties: dict[str, str]) -> None:
    server.on("POST", "/v1/oauth/tokens", token("one"))
    opened(server, **properties)
    assert sent(server) == "Bearer one"
    (request,) = server.of("POST", "/v1/oauth/tokens")
    assert "authorization" not in request.headers
    assert form(request) == {
        "grant_type": "client_credentials",
        "client_id": "client",
        "client_secret": "top-secret",
        "scope": "all",
        "audience": "a",
        "resource": "r",
    }


def test_a_token_is_fetched_again_ahead_of_its_expiry(server: RestDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("POST", "/v1/oauth/tokens", token("one", 100), token("two"))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": []}))
    catalog = opened(server, credential=CREDENTIAL)
    assert sent(server) == "Bearer one"
    later_s = time.time() + 95
    monkeypatch.setattr(oauth2, "time", SimpleNamespace(time=lambda: later_s))
    catalog.list_namespaces()
    assert sent(server) == "Bearer two"
    catalog.list_namespaces()
    assert len(server.of("POST", "/v1/oauth/tokens")) == 2


def test_a_token_is_not_fetched_ahead_of_its_expiry_if_that_is_turned_off(server: RestDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("POST", "/v1/oauth/tokens", token("one", 100), token("two"))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": []}))
    catalog = opened(server, credential=CREDENTIAL, **{"token-refresh-enabled": "false"})
    catalog.list_namespaces()
    later_s = time.time() + 95
    monkeypatch.setattr(oauth2, "time", SimpleNamespace(time=lambda: later_s))
    catalog.list_namespaces()
    assert len(server.of("POST", "/v1/oauth/tokens")) == 1


@pytest.mark.parametrize("status", [401, 419])
def test_a_refused_token_is_renewed_once(server: RestDouble, status: int) -> None:
    server.on("POST", "/v1/oauth/tokens", token("one"), token("two"), token("three"))
    server.on("GET", "/v1/namespaces", problem(status, "X"), Answer(200, {"namespaces": []}))
    catalog = opened(server, credential=CREDENTIAL)
    assert catalog.list_namespaces() == []
    assert sent(server) == "Bearer two"
    server.on("GET", "/v1/namespaces", problem(status, "X", "expired top-secret three"))
    with pytest.raises(StoragePermissionError) as refused:
        catalog.list_namespaces()
    assert "top-secret" not in str(refused.value)
    assert len(server.of("POST", "/v1/oauth/tokens")) == 3


def test_a_token_without_a_credential_is_exchanged(server: RestDouble) -> None:
    server.on("POST", "/v1/oauth/tokens", token("newer"))
    opened(server, **{"token": "older", "token-expires-in-ms": "1"})
    time.sleep(0.01)
    catalog = opened(server, **{"token": "older", "token-expires-in-ms": "1"})
    time.sleep(0.01)
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": []}))
    catalog.list_namespaces()
    assert sent(server) == "Bearer newer"
    request = server.of("POST", "/v1/oauth/tokens")[-1]
    assert request.headers["authorization"] == "Bearer older"
    assert form(request)["subject_token"] == "older"  # noqa: S105
    assert form(request)["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"


def test_the_expiry_of_a_jwt_is_that_of_its_claim(server: RestDouble) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() - 5}).encode()).decode().rstrip("=")
    server.on("POST", "/v1/oauth/tokens", token("newer"))
    opened(server, token=f"a.{claims}.b")
    assert sent(server) == "Bearer newer"
    opened(server, **{"token": f"a.{claims}.b", "token-exchange-enabled": "false"})
    assert sent(server) == f"Bearer a.{claims}.b"


def test_a_users_token_is_exchanged_with_the_catalogs_as_the_actor(server: RestDouble) -> None:
    server.on("POST", "/v1/oauth/tokens", token("catalog"), token("user"))
    opened(server, credential=CREDENTIAL, **{JWT: "my.jwt.x"})
    assert sent(server) == "Bearer user"
    exchanged = form(server.of("POST", "/v1/oauth/tokens")[-1])
    assert (exchanged["subject_token"], exchanged["actor_token"]) == ("my.jwt.x", "catalog")


def test_a_users_token_alone_is_exchanged_without_an_actor(server: RestDouble) -> None:
    server.on("POST", "/v1/oauth/tokens", token("user"))
    catalog = opened(server, **{JWT: "my.jwt.x"})
    assert sent(server) == "Bearer user"
    request = server.of("POST", "/v1/oauth/tokens")[-1]
    assert (form(request)["subject_token"], form(request)["subject_token_type"]) == ("my.jwt.x", JWT)
    assert "actor_token" not in form(request)
    assert "authorization" not in request.headers
    server.on("GET", "/v1/namespaces", Answer(401), Answer(200, {"namespaces": []}))
    server.on("POST", "/v1/oauth/tokens", token("again"))
    catalog.list_namespaces()
    assert (sent(server), form(server.of("POST", "/v1/oauth/tokens")[-1])["subject_token"]) == ("Bearer again", "my.jwt.x")


def test_a_users_token_is_exchanged_with_the_token_of_the_catalog_as_the_actor(server: RestDouble) -> None:
    server.on("POST", "/v1/oauth/tokens", token("user"))
    opened(server, **{"token": "catalogs", JWT: "my.jwt.x"})
    assert sent(server) == "Bearer user"
    request = server.of("POST", "/v1/oauth/tokens")[-1]
    assert (form(request)["subject_token"], form(request)["actor_token"]) == ("my.jwt.x", "catalogs")
    assert request.headers["authorization"] == "Bearer catalogs"


@pytest.mark.parametrize("of_catalog", [{"credential": CREDENTIAL}, {"token": "catalogs"}])
def test_a_user_whose_token_is_refused_gets_no_token_of_the_catalog(server: RestDouble, of_catalog: dict[str, str]) -> None:
    refusal = Answer(400, {"error": "invalid_grant", "error_description": "my.jwt.x has expired"})
    server.on("POST", "/v1/oauth/tokens", *([token("catalogs")] if "credential" in of_catalog else []), refusal)
    with pytest.raises(IcefloeError, match="invalid_grant") as refused:
        opened(server, **{**of_catalog, JWT: "my.jwt.x"})
    assert "my.jwt.x" not in str(refused.value)
    assert not server.of("GET", "/v1/config")


def test_the_token_endpoint_may_be_elsewhere_if_the_user_names_it(server: RestDouble) -> None:
    server.on("POST", "/login", token("one"))
    opened(server, credential=CREDENTIAL, **{"oauth2-server-uri": f"{server.uri}/login"})
    assert sent(server) == "Bearer one"


def test_a_refused_credential_is_shown_without_its_secret(server: RestDouble) -> None:
    server.on("POST", "/v1/oauth/tokens", Answer(401, {"error": "invalid_client", "error_description": "no top-secret here"}))
    with pytest.raises(StoragePermissionError, match="invalid_client") as refused:
        opened(server, credential=CREDENTIAL)
    assert "top-secret" not in str(refused.value)


def test_a_refused_credential_is_shown_without_its_secret_in_another_process_too(server: RestDouble) -> None:
    refusal = Answer(401, {"error": "invalid_client", "error_description": "no top-secret here"})
    server.on("POST", "/v1/oauth/tokens", token("first"), refusal)
    copy = pickle.loads(pickle.dumps(opened(server, credential=CREDENTIAL).store.connection.auth))
    copy._expires_at = 0.0
    with pytest.raises(StoragePermissionError, match="invalid_client") as refused:
        copy.renew()
    assert "top-secret" not in str(refused.value)


class Headers:
    """A class of a user's own."""

    def __init__(self, key: str) -> None:
        self.key = key

    def auth_header(self) -> str:
        return f"Key {self.key}"


def test_a_class_of_the_users_own(server: RestDouble) -> None:
    name = f"{Headers.__module__}.Headers"
    opened(server, **{"rest.auth.type": name, "auth.custom.key": "kkkk"})
    assert sent(server) == "Key kkkk"
    opened(server, **{"auth.type": "custom", "auth.impl": name, "auth.custom.key": "kkkk"})
    for wrong in ("os.system", "no.such.Class", f"{Headers.__module__}.CREDENTIAL"):
        with pytest.raises(InvalidPropertyError, match="class"):
            opened(server, **{"rest.auth.type": wrong, "auth.custom.key": "x"})


class OneTimeValues:
    """A class of a user's own whose every value is for one request."""

    calls = 0

    def auth_header(self) -> str:
        OneTimeValues.calls += 1
        return f"Key once-{OneTimeValues.calls}"


def test_a_class_of_the_users_own_is_called_once_for_each_request(server: RestDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneTimeValues, "calls", 0)
    catalog = opened(server, **{"rest.auth.type": f"{OneTimeValues.__module__}.OneTimeValues"})
    server.on("GET", "/v1/namespaces", problem(400, "X", "what are Key once-2 and once-1?"))
    with pytest.raises(IcefloeError, match="what are") as refused:
        catalog.list_namespaces()
    assert [request.headers["authorization"] for request in server.requests] == ["Key once-1", "Key once-2"]
    assert OneTimeValues.calls == 2
    assert "once-" not in str(refused.value)


@pytest.mark.parametrize(
    "properties",
    [{"rest.auth.type": "kerberos"}, {"rest.auth.type": "basic"}, {"credential": ":x"}, {"token-refresh-enabled": "maybe", "token": "t"}],
)
def test_a_wrong_property_is_refused(server: RestDouble, properties: dict[str, str]) -> None:
    with pytest.raises(InvalidPropertyError):
        opened(server, **properties)


def test_requests_are_signed_for_aws(server: RestDouble) -> None:
    pytest.importorskip("botocore", reason="the extra s3 is not installed")
    server.on("POST", "/v1/namespaces", Answer(200, {"namespace": ["a"]}))
    catalog = opened(
        server,
        **{
            "rest.sigv4-enabled": "true",
            "rest.signing-region": "eu-west-1",
            "rest.access-key-id": "AKID",
            "rest.secret-access-key": "very-secret",
            "token": "inner",
        },
    )
    catalog.create_namespace("a")
    assert sent(server).startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-west-1/execute-api/aws4_request" in sent(server)
    assert server.requests[-1].headers["original-authorization"] == "Bearer inner"
    assert "original-authorization" in sent(server)
    with suppress(NoSuchNamespaceError):
        catalog.list_tables("a b~.c")
    assert len(server.requests) > 2
    for request in server.requests:
        assert signature(request) == aws_signature(request, "very-secret", "eu-west-1/execute-api")
        for changed in (replace(request, body=b"{}"), replace(request, path="/v1/x"), replace(request, query={"a": "b"})):
            assert signature(request) != aws_signature(changed, "very-secret", "eu-west-1/execute-api")


def signature(request: Request) -> str:
    return request.headers["authorization"].rpartition("Signature=")[2]


def aws_signature(request: Request, secret: str, scope: str) -> str:
    """Return the signature of a request as AWS documents it: "Create a signed AWS API request".

    Args:
        request: The request as it came.
        secret: The secret of the key.
        scope: The region and the service.
    """
    names = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"host", "x-amz-date", "original-authorization"} <= set(names)
    canonical = [
        request.verb,
        quote(request.path, safe="/~"),  # of services other than S3 the path is encoded twice
        "&".join(f"{quote(name, safe='~')}={quote(text, safe='~')}" for name, text in sorted(request.query.items())),
        *(f"{name}:{' '.join(request.headers[name].split())}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(request.body).hexdigest(),
    ]
    time_text = request.headers["x-amz-date"]
    whole_scope = f"{time_text[:8]}/{scope}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", time_text, whole_scope, hashlib.sha256("\n".join(canonical).encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (*whole_scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def test_no_secret_is_in_the_text_of_an_object(server: RestDouble) -> None:
    server.on("POST", "/v1/oauth/tokens", token("issued-token"))
    catalog = opened(server, credential=CREDENTIAL)
    for shown in (repr(catalog), repr(catalog.store), repr(catalog.store.connection), repr(catalog.store.connection.auth)):
        assert "top-secret" not in shown
        assert "issued-token" not in shown
    with pytest.raises(LocationNotAllowedError):
        catalog.store.connection.trusted.resolve("https://elsewhere.example", "a test")
