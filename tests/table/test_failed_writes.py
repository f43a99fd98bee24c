"""A write of a commit that fails while another writer commits: no row of either is lost, and no file that a table names is missing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.combinations import combinations

from icefloe import SqlCatalog, Table
from icefloe.errors import IcefloeError, NoSuchFileError, StorageUnavailableError
from icefloe.operations.metadata_cache import load_metadata
from icefloe.spec.ports import Content


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def two_in_one(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.append(rows(7))
        transaction.delete("id = 1")


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(rows(7)),
    "delete": lambda table: table.delete("id = 1"),
    "overwrite": lambda table: table.overwrite(rows(7), "id = 2"),
    "rewrite manifests": lambda table: table.rewrite_manifests(),
    "transaction": two_in_one,
}


class FailingIO:
    """Storage whose write of that number fails once, after another writer has committed; counted from 0."""

    def __init__(self, io: Any, failing_write: int, error: type[IcefloeError], meanwhile: Callable[[], object]) -> None:
        self._io, self._left, self._error, self._meanwhile = io, failing_write, error, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        self._left -= 1
        if self._left == -1:
            self._meanwhile()
            raise self._error(f"cannot write {location}", path=location)
        self._io.write(location, content, overwrite=overwrite)

    @property
    def has_failed(self) -> bool:
        return self._left < 0


@pytest.mark.parametrize(("error", "merges"), combinations([NoSuchFileError, StorageUnavailableError], ["true", "false"]))
@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_failed_write_beside_another_writer_loses_no_row_and_names_no_missing_file(
    tmp_path: Path, kind: str, error: type[IcefloeError], merges: str
) -> None:
    properties = {"commit.manifest-merge.enabled": merges, "commit.manifest.min-count-to-merge": "3"}
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    failing_write = 0
    while True:
        name = f"db.t{failing_write}"
        catalog.create_table(name, rows().schema, properties=properties)
        for number in (1, 2):
            catalog.load_table(name).append(rows(number))
        handle = catalog.load_table(name).handle
        io = FailingIO(handle.io, failing_write, error, lambda name=name: catalog.load_table(name).append(rows(100)))
        failed = None
        try:
            OPERATIONS[kind](Table(replace(handle, io=io), load_metadata(handle)))
        except IcefloeError as raised:
            failed = raised
        if not io.has_failed:
            break  # it has no more writes
        found = set(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())
        before = {1, 2, 100}
        after = {"append": {1, 2, 7, 100}, "delete": {2, 100}, "overwrite": {1, 7, 100}, "rewrite manifests": before}.get(kind, {2, 7, 100})
        assert found == (before if failed is not None else after), (failing_write, failed)
        failing_write += 1
    assert failing_write >= 3  # a manifest, a manifest list, a metadata file
    assert failed is None
