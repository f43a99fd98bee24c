"""Requests to S3 that the server of a REST catalog signs: a store in this process takes signed requests alone."""

from collections.abc import Iterator

import pytest
from tests.stores.rest.rest_double import Answer, OneTable, Request, RestDouble, problem, running

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import IcefloeError, LocationNotAllowedError, StoragePermissionError
from icefloe.io import object_store_file_io
from icefloe.stores.rest.rest_paths import Endpoint

pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{text}")
    for text in ("unclosed:ResourceWarning", "Unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning", ":DeprecationWarning")
]


class SignedStore:
    """A bucket `lake` of objects, which takes requests with the signature of the server."""

    def __init__(self, double: RestDouble) -> None:
        self.double = double
        self.objects: dict[str, bytes] = {}

    def holds(self, key: str) -> None:
        for verb in ("GET", "PUT", "HEAD", "DELETE"):
            self.double.on(verb, f"/lake/{key}", call=self.respond)

    def respond(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"signed {request.verb} {request.path}":
            return Answer(403, b"<Error><Code>AccessDenied</Code></Error>", {"Content-Type": "application/xml"})
        if request.verb == "PUT":
            self.objects[request.path] = request.body
            return Answer(200, headers={"ETag": '"x"'})
        content = self.objects.get(request.path)
        if content is None:
            return Answer(
                404, b"" if request.verb == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>", {"Content-Type": "application/xml"}
            )
        if request.verb == "DELETE":
            del self.objects[request.path]
            return Answer(204)
        return Answer(200, content, {"ETag": '"x"', "Content-Length": str(len(content)), "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"})


@pytest.fixture
def store() -> Iterator[SignedStore]:
    object_store_file_io._connect.cache_clear()
    with running(RestDouble()) as double:
        yield SignedStore(double)
    object_store_file_io._connect.cache_clear()


@pytest.fixture
def signing(server: RestDouble, stored: OneTable, store: SignedStore) -> RestDouble:
    """A server that signs, in place of keys."""
    stored.at("s3://lake/t")
    stored.result = {
        "config": {
            "s3.remote-signing-enabled": "true",
            "s3.endpoint": store.double.uri,
            "client.region": "eu-west-1",
            "s3.path-style-access": "true",
        },
        "remote-signing-config": {"properties": {"ticket": "7"}, "headers": {"X-Ticket": ["8"]}},
    }
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": [str(endpoint) for endpoint in Endpoint]}))
    server.on("POST", f"{OneTable.path}/sign", call=sign)
    return server


def sign(request: Request) -> Answer:
    body = request.json
    path = "/" + body["uri"].split("/", 3)[3].partition("?")[0]
    return Answer(200, {"uri": body["uri"], "headers": {"Authorization": [f"signed {body['method']} {path}"]}})


def test_files_are_written_and_read_by_signed_requests(signing: RestDouble, store: SignedStore) -> None:
    store.holds("t/data/x")
    io = RestCatalog("r", uri=signing.uri).load_table("db.t").io
    io.write("s3://lake/t/data/x", b"abc")
    assert io.read("s3://lake/t/data/x") == b"abc"
    io.delete("s3://lake/t/data/x")
    assert store.objects == {}
    requests = signing.of("POST", f"{OneTable.path}/sign")
    assert {request.json["method"] for request in requests} >= {"PUT", "GET", "DELETE"}
    assert all(request.json["properties"] == {"ticket": "7"} and request.headers["x-ticket"] == "8" for request in requests)
    assert all((request.json["region"], request.json["provider"]) == ("eu-west-1", "s3") for request in requests)


def test_a_refused_signature_is_an_error_of_the_storage(signing: RestDouble, store: SignedStore) -> None:
    signing.on("POST", f"{OneTable.path}/sign", problem(403, "ForbiddenException", "not your file"))
    io = RestCatalog("r", uri=signing.uri).load_table("db.t").io
    with pytest.raises(IcefloeError, match="not your file"):
        io.read("s3://lake/t/data/x")
    assert store.double.requests == []


def test_a_signature_for_another_host_is_refused(signing: RestDouble, store: SignedStore) -> None:
    signing.on("POST", f"{OneTable.path}/sign", Answer(200, {"uri": "https://evil.example/lake/t/data/x", "headers": {}}))
    io = RestCatalog("r", uri=signing.uri).load_table("db.t").io
    with pytest.raises(StoragePermissionError, match="another host"):
        io.write("s3://lake/t/data/x", b"abc")


def test_an_endpoint_of_an_older_server_must_be_of_a_trusted_origin(signing: RestDouble, stored: OneTable, store: SignedStore) -> None:
    store.holds("t/data/x")
    del stored.result["remote-signing-config"]
    signing.on("POST", "/v1/aws/s3/sign", call=sign)
    stored.result["config"]["s3.signer.uri"] = signing.uri
    RestCatalog("r", uri=signing.uri).load_table("db.t").io.write("s3://lake/t/data/x", b"abc")
    assert len(signing.of("POST", "/v1/aws/s3/sign")) == 1
    stored.result["config"]["s3.signer.uri"] = "https://evil.example"
    io = RestCatalog("r", uri=signing.uri).load_table("db.t").io
    with pytest.raises(LocationNotAllowedError, match=r"rest\.trusted-origins"):
        io.write("s3://lake/t/data/x", b"abc")
