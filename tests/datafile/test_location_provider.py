"""Locations of new data files, also those with a hash for object stores, as Java's and PyIceberg's providers choose them."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import Table, load_catalog
from icefloe.spec.metadata.data_location import hash_folders

ROWS = pa.table({"id": [1, 2], "kind": ["a b", "c"]})


# The expected hashes are those of tests of Java's ObjectStoreLocationProvider.
@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("a", "0101/0110/1001/10110010"),
        ("b", "1110/0111/1110/00000011"),
        ("c", "0010/1101/0110/01011111"),
        ("d", "1001/0001/0100/01110011"),
    ],
)
def test_the_hash_of_a_name_is_that_of_java(name: str, folders: str) -> None:
    assert hash_folders(name) == folders


def table_of(folder: Path, **properties: str) -> Table:
    catalog = load_catalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/w")
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table("db.t", ROWS.schema, partition_spec=["kind"], properties=properties)
    table.append(ROWS)
    return table


def paths_of(table: Table) -> list[str]:
    return sorted(task.file.file_path for task in table.scan().plan_files())


def check(path: str, folder: str, rest_of: str) -> None:
    assert path.startswith(f"{folder}/")
    hashed = path.removeprefix(f"{folder}/")[:23]
    rest = path.removeprefix(f"{folder}/{hashed}")
    assert hashed == hash_folders(rest[1:].removeprefix(rest_of))


def test_files_are_below_hashes_and_then_in_the_folder_of_their_partition(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"write.object-storage.enabled": "true"})
    for path in paths_of(table):
        check(path, f"{table.location()}/data", "")
        assert "/kind=a+b/" in path or "/kind=c/" in path
    table.delete("id = 1")
    assert table.scan().to_arrow()["id"].to_pylist() == [2]


def test_the_folder_of_the_partition_is_left_out_by_a_property(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"})
    for path in paths_of(table):
        check(path, f"{table.location()}/data", "")
        assert "kind=" not in path
        assert path.removeprefix(f"{table.location()}/data/")[23] == "-"


def test_files_elsewhere_are_below_the_hash_and_the_names_of_the_table(tmp_path: Path) -> None:
    table = table_of(tmp_path, **{"write.object-storage.enabled": "true", "write.data.path": f"{tmp_path}/shared"})
    for path in paths_of(table):
        assert path.startswith(f"{tmp_path}/shared/")
        assert path.removeprefix(f"{tmp_path}/shared/")[23:].startswith("/db/t/kind=")


@pytest.mark.parametrize(
    ("properties", "folder"),
    [
        ({"write.object-storage.path": "X/o"}, "data"),
        ({"write.object-storage.path": "X/o", "write.object-storage.enabled": "true"}, "X/o"),
        ({"write.folder-storage.path": "X/f"}, "X/f"),
        ({"write.folder-storage.path": "X/f", "write.data.path": "X/d"}, "X/d"),
    ],
)
def test_the_folder_is_that_of_the_property_which_java_reads_first(tmp_path: Path, properties: dict[str, str], folder: str) -> None:
    table = table_of(tmp_path, **{name: text.replace("X", str(tmp_path)) for name, text in properties.items()})
    expected = folder.replace("X", str(tmp_path)) if folder.startswith("X") else f"{table.location()}/{folder}"
    assert all(path.startswith(f"{expected}/") for path in paths_of(table))
