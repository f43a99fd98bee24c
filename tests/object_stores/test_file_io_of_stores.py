"""The contract of a file IO on emulators of S3, Azure and Google Cloud Storage."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.emulators import ObjectStore

from icefloe.errors import FileAlreadyExistsError, NoSuchFileError
from icefloe.io.bulk_delete import delete_files
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.listing import files_of

pytestmark = pytest.mark.emulator
NAMES = (
    "plain",
    "a=1%3A2/x",
    "with blank",
    "plus+",
    "per%cent",
    "at@sign",
    "é表",
    "a=x&b=y",
    "~tilde",
    "semi;colon",
    "'quote'",
    "br(ack)ets",
)


@pytest.mark.parametrize("name", NAMES)
def test_an_object_of_an_unusual_name_is_written_read_and_deleted(store: ObjectStore, name: str) -> None:
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    location = f"{store.bucket}/t/{name}"
    io.write(location, b"content")
    assert (io.read(location), io.size(location), io.exists(location)) == (b"content", 7, True)
    with io.open_input(location) as file:
        assert file.read() == b"content"
    assert files_of(io, f"{store.bucket}/t") == [location]
    io.delete(location)
    io.delete(location)
    assert not io.exists(location)


def test_a_missing_object_is_an_error_that_names_it(store: ObjectStore) -> None:
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    for call in (io.read, io.size, io.open_input):
        with pytest.raises(NoSuchFileError) as raised:
            call(f"{store.bucket}/t/missing")
        assert raised.value.path == f"{store.bucket}/t/missing"
    assert not io.exists(f"{store.bucket}/t/missing")


def test_one_of_many_writers_creates_an_object_and_the_others_are_refused(store: ObjectStore) -> None:
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    location = f"{store.bucket}/t/v1"

    def create(writer: int) -> int | None:
        try:
            io.write(location, f"writer {writer}".encode())
        except FileAlreadyExistsError:
            return None
        return writer

    with ThreadPoolExecutor(6) as threads:
        winners = [writer for writer in threads.map(create, range(6)) if writer is not None]
    assert len(winners) == 1
    assert io.read(location) == f"writer {winners[0]}".encode()
    io.write(location, b"other", overwrite=True)
    assert io.read(location) == b"other"


def test_an_object_is_created_again_with_the_same_content_after_a_lost_reply(store: ObjectStore) -> None:
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    io.write(f"{store.bucket}/t/m.json", b"{}")
    io.write(f"{store.bucket}/t/m.json", b"{}")
    with pytest.raises(FileAlreadyExistsError):
        io.write(f"{store.bucket}/t/m.json", b"{ }")


def test_a_long_stream_is_uploaded_in_parts_and_read_in_ranges(store: ObjectStore) -> None:
    io = load_file_io({**store.properties, "s3.multipart.part-size-bytes": str(5 * 1024 * 1024)}, store.bucket, is_trusted=True)
    content = os.urandom(1024 * 1024) * 13
    with io.open_output(f"{store.bucket}/t/long") as out:
        for start in range(0, len(content), 3_000_000):
            out.write(content[start : start + 3_000_000])
    assert io.size(f"{store.bucket}/t/long") == len(content)
    with io.open_input(f"{store.bucket}/t/long") as file:
        assert file.read_at(100, 7_000_000) == content[7_000_000:7_000_100]
        file.seek(5)
        assert file.read(9_000_000) == content[5:9_000_005]
        file.seek(-10, 2)
        assert file.read(100) == content[-10:]
    assert io.read(f"{store.bucket}/t/long") == content
    with pytest.raises(FileAlreadyExistsError):
        io.open_output(f"{store.bucket}/t/long")


def test_many_objects_are_deleted_together(store: ObjectStore) -> None:
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    locations = [f"{store.bucket}/t/f{number}" for number in range(30)] + [f"{store.bucket}/t/odd*name?[1]"]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda location: io.write(location, b"x"), locations))
    io.write(f"{store.bucket}/t/oddXname1", b"kept, though the name above is a pattern that it matches")
    assert delete_files(io, [*locations, f"{store.bucket}/t/missing"]) == []
    assert files_of(io, f"{store.bucket}/t") == [f"{store.bucket}/t/oddXname1"]


def test_a_pickled_file_io_reads_the_same_objects(store: ObjectStore) -> None:
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    io.write(f"{store.bucket}/x", b"1")
    assert pickle.loads(pickle.dumps(io)).read(f"{store.bucket}/x") == b"1"


@pytest.mark.parametrize(("fixture", "schemes"), [("s3", ("s3", "s3a", "s3n")), ("gcs", ("gs", "gcs")), ("azure", ("abfss", "abfs"))])
def test_other_names_of_a_scheme_read_the_same_object(request: pytest.FixtureRequest, fixture: str, schemes: tuple[str, ...]) -> None:
    store: ObjectStore = request.getfixturevalue(fixture)
    io = load_file_io(store.properties, store.bucket, is_trusted=True)
    rest = store.bucket.partition("://")[2]
    for scheme in schemes:
        io.write(f"{scheme}://{rest}/{scheme}", scheme.encode())
    for written in schemes:
        for read in schemes:
            assert io.read(f"{read}://{rest}/{written}") == written.encode()


def test_azure_reads_locations_of_the_older_driver(azure: ObjectStore) -> None:
    io = load_file_io(azure.properties, azure.bucket, is_trusted=True)
    io.write(f"{azure.bucket}/x", b"1")
    assert io.read(f"{azure.bucket}/x".replace("abfss://", "wasbs://").replace(".dfs.", ".blob.")) == b"1"
