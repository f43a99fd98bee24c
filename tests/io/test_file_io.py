"""The contract of every file IO: local, memory, and fsspec (with its memory store in place of an object store)."""

import pickle
import uuid

import pytest

from icefloe.errors import FileAlreadyExistsError, NoSuchFileError
from icefloe.io.file_io_by_scheme import SchemeFileIO, load_file_io
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.io.object_store_file_io import ObjectStoreFileIO
from icefloe.spec.ports import FileIO


@pytest.fixture(params=["local", "file-uri", "memory", "fsspec", "by-scheme"])
def place(request, tmp_path) -> tuple[FileIO, str]:
    unique = uuid.uuid4().hex
    return {
        "local": (LocalFileIO(), f"{tmp_path}/deep/er"),
        "file-uri": (LocalFileIO(), f"file://{tmp_path}/deep/er"),
        "memory": (MemoryFileIO(), f"memory://{unique}/deep"),
        "fsspec": (ObjectStoreFileIO("memory"), f"memory://{unique}/deep"),
        "by-scheme": (SchemeFileIO(), f"file:{tmp_path}/deep"),
    }[request.param]


def test_written_content_is_read(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.write(f"{root}/a=1%3A2/x", b"content")
    assert io.read(f"{root}/a=1%3A2/x") == b"content"
    assert io.size(f"{root}/a=1%3A2/x") == 7
    assert io.exists(f"{root}/a=1%3A2/x")


def test_a_write_to_an_existing_file_is_refused_and_its_content_kept(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.write(f"{root}/x", b"first")
    with pytest.raises(FileAlreadyExistsError, match="exists already"):
        io.write(f"{root}/x", b"second")
    assert io.read(f"{root}/x") == b"first"


def test_an_overwrite_replaces_the_content(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.write(f"{root}/x", b"first", overwrite=True)
    io.write(f"{root}/x", b"second", overwrite=True)
    assert io.read(f"{root}/x") == b"second"


def test_the_error_names_a_missing_file(place: tuple[FileIO, str]) -> None:
    io, root = place
    for ask in (io.read, io.size, io.open_input):
        with pytest.raises(NoSuchFileError) as raised:
            ask(f"{root}/missing")
        assert raised.value.path == f"{root}/missing"
    assert not io.exists(f"{root}/missing")


def test_deleting_twice_is_not_an_error(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.write(f"{root}/x", b"1")
    io.delete(f"{root}/x")
    io.delete(f"{root}/x")
    assert not io.exists(f"{root}/x")


def test_streams_write_and_seek(place: tuple[FileIO, str]) -> None:
    io, root = place
    with io.open_output(f"{root}/new/x") as out:
        out.write(b"0123")
        out.write(b"4567")
        assert out.tell() == 8
    with io.open_input(f"{root}/new/x") as file:
        file.seek(2)
        assert file.read(3) == b"234"
        assert file.size() == 8


def test_a_stream_never_replaces_a_file(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.write(f"{root}/x", b"first")
    with pytest.raises(FileAlreadyExistsError):
        io.open_output(f"{root}/x")
    assert io.read(f"{root}/x") == b"first"


def test_a_pickled_file_io_reads_the_same_files(place: tuple[FileIO, str]) -> None:
    io, root = place
    io.write(f"{root}/x", b"1")
    assert pickle.loads(pickle.dumps(io)).read(f"{root}/x") == b"1"


def test_the_scheme_chooses_the_storage() -> None:
    chosen = SchemeFileIO({"s3.region": "eu-west-1", "uri": "sqlite://"})
    assert isinstance(chosen.at("/x"), LocalFileIO)
    assert isinstance(chosen.at("file:///x"), LocalFileIO)
    assert isinstance(chosen.at("memory://x"), MemoryFileIO)
    assert chosen.at("s3a://b/x") == ObjectStoreFileIO("s3", {"s3.region": "eu-west-1"}, "s3")


def test_the_repr_does_not_contain_secret_keys() -> None:
    shown = repr(load_file_io({"s3.secret-access-key": "sesame"})) + repr(SchemeFileIO({"s3.secret-access-key": "sesame"}).at("s3://b/x"))
    assert "sesame" not in shown
