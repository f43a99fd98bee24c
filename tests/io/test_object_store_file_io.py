"""Properties and missing libraries of object stores; the contract of every file IO is tested in `test_file_io.py`."""

import errno

import pytest

from icefloe.errors import LocationNotAllowedError, StoragePermissionError, UnsupportedFeatureError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.object_store_file_io import ObjectStoreFileIO, fsspec_options


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
        "config_kwargs": {"connect_timeout": 2.5},
    }


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
        def cat_file(self, location: str) -> bytes:
            raise PermissionError("Forbidden")

    monkeypatch.setattr("icefloe.io.object_store_file_io._connect", lambda *_: Denied())
    with pytest.raises(StoragePermissionError, match="s3://b/x"):
        ObjectStoreFileIO("s3").read("s3://b/x")
    assert PermissionError("Forbidden").errno != errno.EACCES
