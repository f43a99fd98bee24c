"""Signatures of requests to S3: only files of the table, and only what the role allows."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.server.conftest import Served

from icefloe.errors import StorageUnavailableError
from icefloe.io.locations import LocationPolicy, LocationScope, Place
from icefloe.server import credential_vending as storage_access
from icefloe.server.credential_vending import CredentialVending, folder_policy
from icefloe.server.error_response import RefusedRequest
from icefloe.server.request import Call
from icefloe.server.request_signing import SignRequest, check_request, sign, signed_digest
from icefloe.server.server_settings import Delegation
from icefloe.server.storage_operations import load_credentials

SCOPE = LocationScope((Place("s3://lake", "/db/t"),))
ENDPOINT = "http://minio:9000"
BASE = "http://minio:9000/lake"


def check(method: str, uri: str, *, write: bool = True, body: str | None = None, endpoint: str | None = ENDPOINT, **headers: str) -> None:
    sent = {name.replace("_", "-"): [value] for name, value in headers.items()}
    check_request(SignRequest(method=method, uri=uri, region="eu", headers=sent, body=body), SCOPE, endpoint, may_write=write)


def deleting(*keys: str) -> str:
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f"<Delete>{objects}<Quiet>true</Quiet></Delete>"


ALLOWED = [
    ("GET", f"{BASE}/db/t/data/a.parquet"),
    ("HEAD", f"{BASE}/db/t/data/day=1%202/a%C3%A9.parquet"),
    ("PUT", f"{BASE}/db/t/data/a.parquet?x-id=PutObject"),
    ("POST", f"{BASE}/db/t/data/a.parquet?uploads"),
    ("PUT", f"{BASE}/db/t/data/a.parquet?partNumber=1&uploadId=u"),
    ("DELETE", f"{BASE}/db/t/metadata/v1.json"),
    ("GET", f"{BASE}?list-type=2&prefix=db/t/"),
    ("GET", f"{BASE}/?list-type=2&prefix=db%2Ft%2Fdata"),
    ("GET", "http://lake.minio:9000/db/t/data/a.parquet"),
]
REFUSED = [
    ("GET", f"{BASE}/db/t2/data/a.parquet"),
    ("GET", f"{BASE}/db/t"),
    ("GET", f"{BASE}/db/t/../other/a"),
    ("GET", f"{BASE}/db/t/%2e%2e/other/a"),
    ("GET", f"{BASE}/db/t//a"),
    ("GET", f"{BASE}/db/t/./a"),
    ("GET", "http://minio:9000/other/db/t/data/a.parquet"),
    ("GET", "http://other.minio:9000/db/t/data/a.parquet"),
    ("GET", "http://evil.example/lake/db/t/a"),
    ("GET", "http://minio:9001/lake/db/t/a"),
    ("GET", "http://minio:9000@evil.example/lake/db/t/a"),
    ("GET", "http://evil.example\\@minio:9000/lake/db/t/a"),
    ("GET", "file:///lake/db/t/a"),
    ("GET", f"{BASE}/db/t/a#x"),
    ("GET", f"{BASE}?list-type=2"),
    ("GET", f"{BASE}?list-type=2&prefix="),
    ("GET", f"{BASE}?list-type=2&prefix=db/t"),
    ("GET", f"{BASE}?list-type=2&prefix=db/t/&prefix=other"),
    ("GET", f"{BASE}?list-type=2&Prefix=db/t/"),
    ("GET", f"{BASE}?LIST-TYPE=2&prefix=db/t/"),
    ("GET", f"{BASE}?policy"),
    ("GET", f"{BASE}/db/t/%ff"),
    ("GET", f"{BASE}/db/t/a?{'&'.join(f'p{at}=1' for at in range(51))}"),
    ("GET", "http://minio:9000/"),
    ("PUT", f"{BASE}/db/t/a?acl"),
    ("PUT", f"{BASE}/db/t/a?tagging"),
    ("PUT", BASE),
    ("DELETE", BASE),
    ("PATCH", f"{BASE}/db/t/a"),
]


@pytest.mark.parametrize(("method", "uri"), ALLOWED)
def test_requests_for_files_of_the_table_are_signed(method: str, uri: str) -> None:
    check(method, uri)


@pytest.mark.parametrize(("method", "uri"), REFUSED)
def test_requests_for_anything_else_are_not(method: str, uri: str) -> None:
    with pytest.raises(RefusedRequest):
        check(method, uri)


@pytest.mark.parametrize(("method", "uri"), ALLOWED)
def test_a_reader_gets_signatures_to_read_alone(method: str, uri: str) -> None:
    if method in ("GET", "HEAD"):
        check(method, uri, write=False)
    else:
        with pytest.raises(RefusedRequest, match="write"):
            check(method, uri, write=False)


def test_every_key_of_a_deletion_is_checked() -> None:
    check("POST", f"{BASE}?delete", body=deleting("db/t/a", "db/t/b &amp; c"))
    for body in (
        None,
        deleting(),
        deleting("db/t/a", "other/a"),
        deleting("db/t/../../other/a"),
        deleting("db/t/a").replace("<Key>", "<Key >"),
        deleting("db/t/a") + "<!DOCTYPE x>",
        deleting("db/t/a").replace("<Object>", "<Object><Key>x</Key></Object><Object>"),
        deleting("db/t/&#46;./x"),
        deleting(*["db/t/a"] * 1001),
        deleting("db/t/a").replace("</Delete>", "<Object><KEY>other</KEY></Object></Delete>"),
    ):
        with pytest.raises(RefusedRequest):
            check("POST", f"{BASE}?delete", body=body)


def test_headers_that_change_rights_or_read_other_objects_are_not_signed() -> None:
    check(
        "PUT",
        f"{BASE}/db/t/a",
        x_amz_content_sha256="UNSIGNED-PAYLOAD",
        x_amz_copy_source="/lake/db/t/b",
        content_type="x",
        host="minio:9000",
    )
    for headers in (
        {"x_amz_acl": "public-read"},
        {"x_amz_copy_source": "/lake/other/b"},
        {"x_amz_copy_source": "/lake/db/t/%2e%2e/x"},
        {"range": "a\r\nb"},
        {"range:": "a"},
        {"host": "other.minio:9000"},
        {"Host": "minio"},
    ):
        with pytest.raises(RefusedRequest):
            check("PUT", f"{BASE}/db/t/a", **headers)


def test_the_hosts_of_aws_are_those_of_buckets_in_every_form() -> None:
    for uri in (
        "https://lake.s3.eu-west-1.amazonaws.com/db/t/a",
        "https://s3.eu-west-1.amazonaws.com/lake/db/t/a",
        "https://lake.s3.amazonaws.com/db/t/a",
    ):
        check("GET", uri, endpoint=None)
    for uri in (
        "https://lake.s3.amazonaws.com.evil.example/db/t/a",
        "https://evil.amazonaws.com/lake/db/t/a",
        "https://other.s3.amazonaws.com/db/t/a",
    ):
        with pytest.raises(RefusedRequest):
            check("GET", uri, endpoint=None)


def sign_request(body: str | None = None, **headers: str) -> SignRequest:
    sent = {name.replace("_", "-"): [value] for name, value in headers.items()}
    return SignRequest(method="POST", uri=f"{BASE}?delete", region="eu", headers=sent, body=body)


def test_the_checked_body_of_a_deletion_is_signed_whatever_digest_the_client_sends() -> None:
    body = deleting("db/t/a")
    digest = hashlib.sha256(body.encode()).hexdigest()
    assert signed_digest(sign_request(body)) == digest
    assert signed_digest(sign_request(body, X_Amz_Content_SHA256="UNSIGNED-PAYLOAD", Content_MD5="x")) == digest


def test_an_upload_is_signed_with_the_digest_of_the_client_or_without_one() -> None:
    assert signed_digest(sign_request()) == "UNSIGNED-PAYLOAD"
    assert signed_digest(sign_request(X_Amz_Content_SHA256="STREAMING-UNSIGNED-PAYLOAD-TRAILER")) == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    pytest.importorskip("botocore", reason="the package that signs requests is not installed: pip install 'icefloe[s3]'")
    keys = {"s3.access-key-id": "id", "s3.secret-access-key": "secret"}
    for request, digest in ((sign_request(), "UNSIGNED-PAYLOAD"), (sign_request("x"), hashlib.sha256(b"x").hexdigest())):
        headers = sign(request, keys)
        assert headers["X-Amz-Content-SHA256"] == [digest]
        assert "x-amz-content-sha256" in headers["Authorization"][0]


@pytest.mark.parametrize(
    "properties",
    [
        {"s3.access-key-id": "key", "s3.secret-access-key": "secret", "client.access-key-id": "other", "client.secret-access-key": "other"},
        {"client.access-key-id": "key", "client.secret-access-key": "secret", "s3.profile-name": "other"},
        {"s3.profile-name": "lake", "client.profile-name": "other"},
        {"client.profile-name": "lake"},
    ],
)
def test_the_server_signs_and_requests_credentials_with_the_keys_that_open_its_files(
    properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("botocore", reason="the package that signs requests is not installed: pip install 'icefloe[s3]'")
    profiles = {"lake": ("key", "secret"), "other": ("other", "other")}
    text = "".join(f"[{name}]\naws_access_key_id={key}\naws_secret_access_key={secret}\n" for name, (key, secret) in profiles.items())
    (tmp_path / "credentials").write_text(text)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "machine")
    assert "Credential=key/" in sign(sign_request(), properties)["Authorization"][0]
    access = CredentialVending({**properties, "client.region": "eu-west-1"}, Delegation(sts_role="arn:x", signs_requests=False))
    client = access._sts()
    used = client._request_signer._credentials.get_frozen_credentials()
    assert (used.access_key, used.secret_key) == ("key", "secret")
    assert client.meta.region_name == "eu-west-1"
    assert access._public_settings() == {"client.region": "eu-west-1", "s3.region": "eu-west-1"}


def test_a_profile_that_is_missing_is_an_error_that_names_the_setting() -> None:
    pytest.importorskip("botocore", reason="the package that signs requests is not installed: pip install 'icefloe[s3]'")
    with pytest.raises(StorageUnavailableError, match=r"could not be loaded: ProfileNotFound\n  Next: check the profile"):
        sign(sign_request(), {"s3.profile-name": "nowhere"})


def test_a_policy_allows_the_folder_of_the_table_alone() -> None:
    read, write = (folder_policy("s3://lake/db/t*", may_write=writes)["Statement"] for writes in (False, True))
    assert read[0]["Resource"] == ["arn:aws:s3:::lake/db/t${*}/*"]
    assert read[0]["Action"] == ["s3:GetObject", "s3:GetObjectVersion"]
    assert {"s3:PutObject", "s3:DeleteObject"} < set(write[0]["Action"])
    assert read[1]["Condition"] == {"StringLike": {"s3:prefix": ["db/t${*}/*"]}}


@pytest.mark.parametrize(
    ("role", "partition"),
    [
        ("arn:aws:iam::123456789012:role/lake", "aws"),
        ("arn:aws-cn:iam::123456789012:role/lake", "aws-cn"),
        ("arn:aws-us-gov:iam::123456789012:role/lake", "aws-us-gov"),
        ("arn:xxx:xxx:xxx:xxxx", "aws"),
    ],
)
def test_a_policy_names_the_bucket_in_the_partition_of_the_role(monkeypatch: pytest.MonkeyPatch, role: str, partition: str) -> None:
    policies: list[Any] = []
    credentials = {"AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": datetime.now(UTC)}

    def assume_role(**request: Any) -> Any:
        policies.append(json.loads(request["Policy"]))
        return {"Credentials": credentials}

    access = CredentialVending({}, Delegation(sts_role=role))
    monkeypatch.setattr(storage_access, "optional_module", lambda *_, **__: SimpleNamespace(BotoCoreError=OSError, ClientError=OSError))
    monkeypatch.setattr(access, "_client", SimpleNamespace(assume_role=assume_role))
    access.credentials("s3://lake/db/t", may_write=True)
    resources = [resource for statement in policies[0]["Statement"] for resource in statement["Resource"]]
    bucket = f"arn:{partition}:s3:::lake"
    assert resources == [f"{bucket}/db/t/*", bucket, bucket]


def test_no_credentials_are_given_for_a_location_outside_the_warehouse_whatever_the_properties_name() -> None:
    metadata = SimpleNamespace(location="s3://other/t", properties={"write.data.path": "s3://lake/db/t/data"})
    table = SimpleNamespace(metadata=metadata, name=lambda: ("db", "t"))
    served: Any = SimpleNamespace(
        catalog=SimpleNamespace(load_table=lambda _: table),
        policy=LocationPolicy(warehouse="s3://lake"),
        storage=SimpleNamespace(vend=lambda *_: [{"prefix": metadata.location}]),
    )
    call = Call(path={"namespace": "db", "table": "t"})
    with pytest.raises(RefusedRequest, match="outside the warehouse"):
        load_credentials(served, call)
    metadata.location = "s3://lake/db/t"
    assert load_credentials(served, call).content == {"storage-credentials": [{"prefix": "s3://lake/db/t"}]}


def test_a_server_that_signs_nothing_refuses_to_and_vends_no_credentials(served: Served) -> None:
    served.create()
    body = {"region": "eu", "uri": f"{BASE}/db/t/a", "method": "GET", "headers": {}}
    assert served.ask("POST", "/namespaces/db/tables/t/sign", body, expect=403)["error"]["type"] == "ForbiddenException"
    assert served.ask("GET", "/namespaces/db/tables/t/credentials") == {"storage-credentials": []}
    answer = served.ask("GET", "/namespaces/db/tables/t", X_Iceberg_Access_Delegation="vended-credentials,remote-signing")
    assert answer["config"] == {}
