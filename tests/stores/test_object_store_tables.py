"""The file-system catalog in an object store whose replies are lost; `tests/object_stores` has the rest, against emulators."""

from collections.abc import Mapping

import pytest

from icefloe.commit.outcome import Committed, Conflicted, Unknown
from icefloe.errors import FileAlreadyExistsError, NoSuchFileError, StorageError
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.ports import Content, whole
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.object_store_tables import NAMESPACE_MARKER, ObjectStoreTables

NAME = ("db", "t")
FOLDER = "s3://lake/db/t/metadata"


class Objects:
    """A store in memory, which loses replies while it `is_away`."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {f"s3://lake/db/{NAMESPACE_MARKER}": b""}
        self.goes_away_at = ""
        self.is_away = False

    def read(self, location: str) -> bytes:
        self._check(location)
        if location not in self.contents:
            raise NoSuchFileError(location)
        return self.contents[location]

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        if location in self.contents and not overwrite:
            raise FileAlreadyExistsError(location)
        self.contents[location] = bytes(whole(content))
        self.is_away = self.is_away or location == self.goes_away_at
        self._check(location)

    def delete(self, location: str) -> None:
        self.contents.pop(location, None)

    def entries(self, location: str) -> tuple[list[str], Mapping[str, int]]:
        rests = {
            name.removeprefix(f"{location}/"): len(content) for name, content in self.contents.items() if name.startswith(f"{location}/")
        }
        return sorted({rest.partition("/")[0] for rest in rests if "/" in rest}), {
            rest: size for rest, size in rests.items() if "/" not in rest
        }

    def objects_below(self, location: str) -> list[str]:
        return [name for name in self.contents if name.startswith(f"{location}/")]

    def _check(self, location: str) -> None:
        if self.is_away:
            raise StorageError("the connection was lost", path=location)


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def store(objects: Objects) -> ObjectStoreTables:
    return ObjectStoreTables("lake", "s3://lake", objects, objects)  # type: ignore[arg-type]  # it has what the catalog calls


def creation(objects: Objects, uuid: str) -> CommitRequest:
    """Return a request to create the table, whose metadata file is written."""
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    metadata = new_table_metadata(schema=schema, location="s3://lake/db/t", table_uuid=uuid, now_ms=1)
    location = f"{FOLDER}/00000-{uuid}.metadata.json"
    objects.write(location, write_table_metadata(metadata))
    return CommitRequest(identifier=NAME, expected=None, new=location)


OWN, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def test_a_creation_whose_reply_was_lost_is_unknown_while_the_store_is_away(objects: Objects, store: ObjectStoreTables) -> None:
    request = creation(objects, OWN)
    objects.goes_away_at = f"{FOLDER}/v1.metadata.json"
    assert isinstance(store.commit([request]), Unknown)
    assert isinstance(store.commit_status([request]), Unknown)
    objects.is_away, objects.goes_away_at = False, ""
    assert isinstance(store.commit_status([request]), Committed)


def test_a_creation_is_found_although_others_have_committed_to_the_new_table_since(objects: Objects, store: ObjectStoreTables) -> None:
    request = creation(objects, OWN)
    assert isinstance(store.commit([request]), Committed)
    objects.write(f"{FOLDER}/v2.metadata.json", objects.read(request.new) + b"\n")
    outcome = store.commit_status([request])
    assert isinstance(outcome, Committed)
    assert outcome.stored[0].location == f"{FOLDER}/v2.metadata.json"
    assert isinstance(store.commit_status([creation(objects, OTHER)]), Conflicted)
