"""A table whose metadata names files outside of its folder: a copy reads none of them, and writes nothing outside of the target."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.combinations import combinations
from tests.maintenance.test_rewrite_data_files import made
from tests.maintenance.test_rewrite_table_path import files_below

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.table import Table

SECRET = b"secret " * 20


@pytest.fixture
def table(tmp_path: Path) -> Table:
    (tmp_path / "from").mkdir()
    (tmp_path / "secret").write_bytes(SECRET)
    table = made(tmp_path / "from", 2, **{"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": [1, 2], "kind": ["a", "b"]}))
    table.compute_statistics(["id"])
    return table


def tampered(table: Table, tmp_path: Path, change: object) -> Table:
    """Return the table whose metadata file has another statistics path."""
    metadata = json.loads(Path(table.metadata_location).read_text())
    change(metadata)  # type: ignore[operator]
    path = Path(table.metadata_location).with_name("00009-tampered.metadata.json")
    path.write_text(json.dumps(metadata))
    catalog = SqlCatalog("other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=str(tmp_path / "from"))
    catalog.create_namespace("db")
    return catalog.register_table("db.t", str(path))


@pytest.mark.parametrize(
    ("path", "place"),
    combinations(
        ["{secret}", "{location}/../../../secret", "{location}2/x", "{location}/metadata/./x", "relative/x"],
        ["statistics", "snapshots", "metadata-log"],
    ),
)
def test_a_path_outside_of_the_table_is_refused(table: Table, tmp_path: Path, path: str, place: str) -> None:
    text = path.format(secret=tmp_path / "secret", location=table.location())
    key = {"statistics": "statistics-path", "snapshots": "manifest-list", "metadata-log": "metadata-file"}[place]
    wrong = tampered(table, tmp_path, lambda metadata: metadata[place][0].__setitem__(key, text))
    before = files_below(tmp_path)
    target = tmp_path / "to/a/b/t"
    with pytest.raises((InvalidInputError, OSError)):
        wrong.maintenance.rewrite_table_path(wrong.location(), str(target), copy=True)
    after = {name: content for name, content in files_below(tmp_path).items() if not name.startswith(str(target))}
    assert after == before
    assert not any(SECRET in content for content in files_below(target).values())


@pytest.mark.parametrize("path", ["{secret}", "{location}/data/../../../../secret"])
def test_a_data_file_outside_of_the_table_is_refused(table: Table, tmp_path: Path, path: str) -> None:
    text = path.format(secret=tmp_path / "secret", location=table.location())
    file = table.scan().plan_files()[0].file
    snapshot = table.current_snapshot()
    assert snapshot is not None
    with table.update_snapshot().fast_append() as update:
        update.append_file(type(file)(**{name: getattr(file, name) for name in file.__slots__} | {"file_path": text}))
    with pytest.raises(InvalidInputError, match="source prefix"):
        table.maintenance.rewrite_table_path(table.location(), str(tmp_path / "to/t"), copy=True)
    assert files_below(tmp_path / "to") == {}
