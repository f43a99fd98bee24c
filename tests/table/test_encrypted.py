"""Encrypted tables are refused before their files are read, and before plain files are written beside the encrypted ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import icefloe.inspect
from icefloe import IntegerType, SqlCatalog, StaticTable, Table
from icefloe.errors import UnsupportedFeatureError

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def encrypted(catalog: SqlCatalog, tmp_path: Path) -> Table:
    """Return a table whose second snapshot has a key, and whose manifest list is the first bytes of an encrypted stream."""
    table = catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    table.append(ROWS)
    table.append(ROWS)
    metadata = json.loads(Path(table.metadata_location).read_text())
    metadata["encryption-keys"] = [{"key-id": "k1", "encrypted-key-metadata": "AAAA"}]
    metadata["snapshots"][-1] |= {"key-id": "k1", "manifest-list": f"{tmp_path}/list.avro"}
    (tmp_path / "list.avro").write_bytes(b"AGS1" + bytes(60))
    (tmp_path / "encrypted.metadata.json").write_text(json.dumps(metadata))
    return catalog.register_table("db.encrypted", str(tmp_path / "encrypted.metadata.json"))


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file() and not path.name.startswith("catalog.db")}


NEEDS_THE_KEY: dict[str, Callable[[Table], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "count": lambda table: table.scan().count(),
    "files of the snapshot": lambda table: icefloe.inspect.metadata_table(table, "files").to_arrow(),
    "append": lambda table: table.append(ROWS),
    "delete": lambda table: table.delete("id = 1"),
    "overwrite": lambda table: table.overwrite(ROWS, "id = 1"),
    "upsert": lambda table: table.upsert(ROWS, ["id"]),
    "delete by key": lambda table: table.delete_keys(ROWS, key_columns=["id"]),
    "rewrite of manifests": lambda table: table.rewrite_manifests(),
    "statistics": lambda table: table.compute_statistics(),
}


@pytest.mark.parametrize("what", NEEDS_THE_KEY)
def test_the_error_for_operations_on_an_encrypted_snapshot_names_the_key(encrypted: Table, tmp_path: Path, what: str) -> None:
    before = files(tmp_path)
    with pytest.raises(UnsupportedFeatureError, match=r"is encrypted: its snapshot \d+ can only be read with the key 'k1'"):
        NEEDS_THE_KEY[what](encrypted)
    assert files(tmp_path) == before


def test_operations_that_need_no_key_succeed(encrypted: Table) -> None:
    first, second = encrypted.snapshots()
    encrypted.set_properties({"owner": "me"})
    with encrypted.update_schema() as update:
        update.add_column("more", IntegerType())
    encrypted.manage_snapshots().create_tag(tag_name="before", snapshot_id=first.snapshot_id).commit()
    assert encrypted.scan(snapshot_id=first.snapshot_id).to_arrow().to_pylist() == ROWS.to_pylist()
    assert encrypted.metadata.snapshot_by_id(second.snapshot_id).key_id == "k1"
    assert [key.key_id for key in encrypted.metadata.encryption_keys] == ["k1"]
    assert StaticTable.from_metadata(encrypted.metadata_location).scan(snapshot_id=first.snapshot_id).count() == 2


def test_writes_to_a_table_that_requires_encryption_are_refused(catalog: SqlCatalog, tmp_path: Path) -> None:
    # With this table property Java's writers encrypt all later files.
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"})
    table.append(ROWS)
    table.set_properties({"encryption.key-id": "k1"})
    before = files(tmp_path)
    for write in (
        lambda: table.append(ROWS),
        lambda: table.delete("id = 1"),
        lambda: table.delete("true"),
        lambda: table.upsert(ROWS, ["id"]),
        lambda: table.delete_keys(ROWS, key_columns=["id"]),
    ):
        with pytest.raises(
            UnsupportedFeatureError,
            match=r"must be encrypted with the key 'k1' \(property encryption\.key-id\); Icefloe writes no encrypted files",
        ):
            write()
    assert files(tmp_path) == before
    assert table.scan().count() == 2
    table.remove_properties("encryption.key-id")
    table.append(ROWS)
    assert table.scan().count() == 4
