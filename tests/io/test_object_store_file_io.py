"""Properties and missing libraries of object stores; the contract of every file IO is tested in `test_file_io.py`."""

import errno
import gc
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from icefloe import load_catalog
from icefloe.errors import InvalidPropertyError, LocationNotAllowedError, NoSuchFileError, StoragePermissionError, UnsupportedFeatureError
from icefloe.io import object_store_file_io, object_store_options
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.object_store_file_io import ObjectStoreFileIO, file_io_for
from icefloe.io.object_store_options import fsspec_options
from icefloe.spec.ports import VENDED_GOOGLE_TOKEN


def test_properties_of_the_catalog_become_options_of_the_store() -> None:
    properties = {
        "s3.endpoint": "http://localhost:9000",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "eu-west-1",
        "s3.connect-timeout": "2.5",
        "s3.anonymous": "True",
        "gcs.project-id": "other",
    }
    assert fsspec_options("s3", properties) == {
        "endpoint_url": "http://localhost:9000",
        "key": "key",
        "secret": "secret",
        "anon": True,
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {"connect_timeout": 2.5, "retries": {"mode": "standard", "max_attempts": 5}},
    }


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("s3.path-style-access", "true", {"config_kwargs": {"s3": {"addressing_style": "path"}}}),
        ("s3.path-style-access", "false", {}),
        ("s3.force-virtual-addressing", "TRUE", {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}),
        ("s3.profile-name", "lake", {"profile": "lake"}),
        ("client.profile-name", "lake", {"profile": "lake"}),
        ("client.region", "eu-west-1", {"client_kwargs": {"region_name": "eu-west-1"}}),
        ("s3.requester-pays", "true", {"requester_pays": True}),
        ("s3.proxy-uri", "http://p:1", {"config_kwargs": {"proxies": {"http": "http://p:1", "https": "http://p:1"}}}),
        ("s3.sse.type", "dsse-kms", {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms:dsse"}}),
        ("s3.sse.type", "none", {}),
        ("s3.write.storage-class", "STANDARD_IA", {"s3_additional_kwargs": {"StorageClass": "STANDARD_IA"}}),
    ],
)
def test_a_property_of_s3_becomes_one_option(name: str, text: str, options: dict[str, object]) -> None:
    made = fsspec_options("s3", {name: text})
    retries = made["config_kwargs"].pop("retries")
    assert retries == {"mode": "standard", "max_attempts": 5}
    assert made == ({"config_kwargs": {}} | options)


@pytest.mark.parametrize("token", ["google_default", "anon", __file__, "ya29.token"])
def test_a_vended_token_of_google_is_never_the_name_of_a_method_or_of_a_file(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    modules = {"google.oauth2.credentials": SimpleNamespace(Credentials=lambda text: SimpleNamespace(token=text))}
    monkeypatch.setattr(object_store_options, "optional_module", lambda name, **_: modules[name])
    assert fsspec_options("gcs", {VENDED_GOOGLE_TOKEN: token, "gcs.oauth2.token": "mine"}) == {"token": SimpleNamespace(token=token)}
    assert fsspec_options("gcs", {"gcs.oauth2.token": token}) == {"token": token}


def test_the_number_of_retries_is_that_of_the_property() -> None:
    assert fsspec_options("s3", {"s3.retry.num-retries": "2"})["config_kwargs"]["retries"] == {"mode": "standard", "max_attempts": 2}
    assert fsspec_options("s3", {})["config_kwargs"]["retries"]["max_attempts"] == 5


@pytest.mark.parametrize(("name", "text"), [("s3.sse.type", "custom"), ("s3.connect-timeout", "soon")])
def test_a_value_that_a_property_cannot_have_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidPropertyError, match=name):
        fsspec_options("s3", {name: text})


def test_properties_of_google_and_azure_have_the_names_of_java_and_pyiceberg() -> None:
    assert fsspec_options("gcs", {"gcs.no-auth": "true"}) == {"token": "anon"}
    assert fsspec_options("gcs", {"gcs.user-project": "p"}) == {"requester_pays": "p"}
    assert fsspec_options("gcs", {"gcs.endpoint": "http://x", "gcs.service.host": "http://y"}) == {"endpoint_url": "http://y"}
    names = {"adls.auth.shared-key.account.name": "a", "adls.auth.shared-key.account.key": "k"}
    assert fsspec_options("abfs", names) == {"account_name": "a", "account_key": "k"}


def test_a_signature_is_sent_to_the_account_of_its_name_alone() -> None:
    properties = {"adls.sas-token.one.dfs.core.windows.net": "sig", "adls.connection-string.two": "text"}
    assert file_io_for("abfss://c@one.dfs.core.windows.net/x", properties).properties["adls.sas-token"] == "sig"
    two = file_io_for("abfss://c@two.dfs.core.windows.net/x", properties).properties
    assert (two["adls.connection-string"], "adls.sas-token" in two) == ("text", False)
    three = file_io_for("abfss://c@three.dfs.core.windows.net/x", properties).properties
    assert not {"adls.sas-token", "adls.connection-string"} & set(three)
    foreign = file_io_for("abfss://c@two.evil.example/x", properties).properties
    assert not {"adls.sas-token", "adls.connection-string"} & set(foreign)
    own_host = {"adls.sas-token.two.store.example": "sig"}
    assert file_io_for("abfss://c@two.store.example/x", own_host).properties["adls.sas-token"] == "sig"


@pytest.mark.parametrize(
    ("location", "form"),
    [
        ("s3a://b/k=1%3A2/x", "s3://b/k=1%3A2/x"),
        ("s3n://b/k//x", "s3://b/k//x"),
        ("gs://b/k", "gcs://b/k"),
        ("abfss://c@a.dfs.core.windows.net/k/x@y", "abfs://c/k/x@y"),
        ("wasbs://c@a.blob.core.windows.net/k", "abfs://c/k"),
        ("abfs://c/k@x/y", "abfs://c/k@x/y"),
    ],
)
def test_a_location_is_passed_on_in_the_form_that_the_library_reads(location: str, form: str) -> None:
    assert file_io_for(location, {}).own_form(location) == form


class CachedListings:
    """A store whose library keeps the listing of each folder that it has seen, and takes sizes from there, as s3fs does."""

    def __init__(self) -> None:
        self.files = {"b/t/x": 1, "b/t/deep/y": 2}
        self.listings: dict[str, dict[str, int]] = {}

    @staticmethod
    def _strip_protocol(path: str) -> str:
        return path.removeprefix("s3://")

    def find(self, path: str, detail: bool) -> dict[str, dict[str, int]]:
        for name, size in self.files.items():
            self.listings.setdefault(name.rpartition("/")[0], {})[name] = size
        return {name: {"size": size} for name, size in self.files.items()}

    def info(self, path: str) -> dict[str, int]:
        name = self._strip_protocol(path)
        listed = self.listings.get(name.rpartition("/")[0], self.files)
        if name not in listed:
            raise FileNotFoundError(path)
        return {"size": listed[name]}

    def invalidate_cache(self, path: str | None = None) -> None:
        while path:
            self.listings.pop(path, None)
            path = path.rpartition("/")[0]
        if path is None:
            self.listings.clear()


def test_no_listing_is_kept_from_which_a_deleted_file_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CachedListings()
    monkeypatch.setattr(ObjectStoreFileIO, "connect", lambda *_: store)
    io = ObjectStoreFileIO("s3")
    assert [entry["size"] for entry in io.list_entries("s3://b/t", is_deep=True)] == [1, 2]
    assert store.listings == {}
    store.find("", detail=True)
    del store.files["b/t/deep/y"]
    with pytest.raises(NoSuchFileError):
        io.size("s3://b/t/deep/y")
    assert io.size("s3://b/t/x") == 1


def test_an_unknown_scheme_is_refused_before_any_work() -> None:
    with pytest.raises(LocationNotAllowedError, match="floppy"):
        load_file_io({}, "floppy://a/b")
    with pytest.raises(UnsupportedFeatureError, match="floppy"):
        load_file_io({"io.allowed-schemes": "floppy"}, "floppy://a/b")


def test_an_error_names_a_missing_library_and_the_extra_to_install(monkeypatch) -> None:
    def missing(protocol: str, **_: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.filesystem", missing)
    with pytest.raises(UnsupportedFeatureError, match=r"icefloe\[s3\]"):
        load_file_io({"s3.region": "nowhere-1"}, "s3://bucket/warehouse")


def test_an_error_without_an_errno_is_translated_by_its_type(monkeypatch) -> None:
    class Denied:
        def cat_file(self, location: str, **_: object) -> bytes:
            raise PermissionError("Forbidden")

    monkeypatch.setattr("icefloe.io.object_store_file_io._connect", lambda *_: Denied())
    with pytest.raises(StoragePermissionError, match="s3://b/x"):
        ObjectStoreFileIO("s3").read("s3://b/x")
    assert PermissionError("Forbidden").errno != errno.EACCES


class BucketWithoutListing(MemoryFileSystem):
    """A store in memory, called s3, that responds as S3 does where a user may read and write, and not list: a missing key is no 404, but denied."""

    protocol = ("s3",)
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    looked_up: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return MemoryFileSystem._strip_protocol(str(path).replace("s3://", "memory://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        options.pop("max_concurrency", None)
        return bytes(super().cat_file(path, start, end, **options))

    req_kw: ClassVar[dict[str, Any]] = {}

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.removeprefix("s3://").partition("/")
        return bucket, key, None

    def call_s3(self, operation: str, *_: Any, **names: str) -> None:
        assert operation == "head_object"
        self.looked_up.append(names["Key"])
        if f"/{names['Bucket']}/{names['Key']}" not in self.store:
            raise PermissionError("Forbidden")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[BucketWithoutListing]]:
    known = fsspec.registry.get("s3")
    fsspec.register_implementation("s3", BucketWithoutListing, clobber=True)
    object_store_file_io._connect.cache_clear()
    yield BucketWithoutListing
    object_store_file_io._connect.cache_clear()
    if known is not None:
        fsspec.register_implementation("s3", known, clobber=True)
    BucketWithoutListing.clear_instance_cache()
    BucketWithoutListing.store.clear()
    BucketWithoutListing.looked_up.clear()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_table_in_a_bucket_without_the_right_to_list_takes_rows_and_no_new_file_is_looked_up(
    bucket: type[BucketWithoutListing], tmp_path: Path, file_format: str
) -> None:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="s3://b/w")
    catalog.create_namespace("db")
    properties = {"write.format.default": file_format, "write.delete.mode": "merge-on-read"}
    table = catalog.create_table("db.t", pa.schema({"n": pa.int64()}), properties=properties)
    table.append(pa.table({"n": [1, 2]}))
    table.delete("n = 1")
    assert bucket.looked_up == []
    assert table.scan().to_arrow()["n"].to_pylist() == [2]
    assert any(file_format in path for path in bucket.store)
    catalog.close()


def test_a_file_system_and_its_keys_are_kept_as_long_as_it_is_one_of_the_last(bucket: type[BucketWithoutListing]) -> None:
    most = object_store_file_io._connect.cache_info().maxsize
    assert most is not None
    opened = [weakref.ref(file_io_for("s3://b/x", {"s3.access-key-id": f"key-{number}"}).connect("s3://b/x")) for number in range(most + 5)]
    gc.collect()
    assert [store() is None for store in opened] == [True] * 5 + [False] * most
    assert len(bucket._cache) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_its_own_file_systems(bucket: type[BucketWithoutListing]) -> None:
    io = file_io_for("s3://b/x", {"s3.access-key-id": "key"})
    io.write("s3://b/x", b"content")
    before = io.connect("s3://b/x")
    assert io.connect("s3://b/x") is before
    if (child := os.fork()) == 0:
        code = 1
        try:
            code = 0 if io.connect("s3://b/x") is not before and io.read("s3://b/x") == b"content" else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert io.connect("s3://b/x") is before
