"""Manifests and manifest lists that a client of the server wrote itself, and in which it names files that are not its own."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.security.forging import rewritten_avro
from tests.server.conftest import SCHEMA, Served, serve
from tests.server.test_access_control import TOKENS, USERS

from icefloe.catalog import load_catalog
from icefloe.io.local_file_io import LocalFileIO

ROWS = pa.table({"id": [1], "day": pa.array([1], pa.int32()), "name": ["a"]}).cast(
    pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.int32()), pa.field("name", pa.string())])
)


@pytest.fixture
def served(warehouse: Path) -> Iterator[Served]:
    """A server with a table in the namespace of a user and one in another, each of one row."""
    with load_catalog("lake", warehouse=str(warehouse)) as catalog:
        served = Served(catalog, serve(catalog, USERS), warehouse)
        for namespace in ("db", "sales"):
            served.ask("POST", "/namespaces", {"namespace": [namespace]}, token=TOKENS["admin"])
            served.ask("POST", f"/namespaces/{namespace}/tables", {"name": "t", "schema": SCHEMA}, token=TOKENS["admin"])
            catalog.load_table(f"{namespace}.t").append(ROWS)
        yield served


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were opened."""
    names: list[str] = []
    for method in ("read", "open_input"):
        monkeypatch.setattr(LocalFileIO, method, recorded(getattr(LocalFileIO, method), names))
    return names


def recorded(method: Any, names: list[str]) -> Any:
    def call(self: LocalFileIO, location: str, *arguments: Any, **options: Any) -> Any:
        names.append(location)
        return method(self, location, *arguments, **options)

    return call


def manifest_of(served: Served, table: str) -> str:
    (manifest,) = served.catalog.load_table(table).inspect.manifests().column("path").to_pylist()
    return str(manifest)


def commit(served: Served, *, manifest: str | None = None, data_file: str | None = None) -> None:
    """Commit a snapshot of `sales.t`, as a client does that wrote its manifest list; with one manifest, or one data file in it.

    Args:
        served: The server.
        manifest: The manifest.
        data_file: The data file in the manifest of the table.
    """
    table = served.ask("GET", "/namespaces/sales/tables/t", token=TOKENS["sales"])["metadata"]
    (snapshot,) = table["snapshots"]
    folder = Path(table["location"], "metadata")
    if data_file is not None:
        manifest, _ = rewritten_avro(manifest_of(served, "sales.t"), folder, lambda entry: entry["data_file"].update(file_path=data_file))
    assert manifest is not None
    size = Path(manifest).stat().st_size
    listed, _ = rewritten_avro(snapshot["manifest-list"], folder, lambda line: line.update(manifest_path=manifest, manifest_length=size))
    forged = {
        **snapshot,
        "snapshot-id": 77,
        "parent-snapshot-id": snapshot["snapshot-id"],
        "sequence-number": table["last-sequence-number"] + 1,
        "timestamp-ms": table["last-updated-ms"] + 1,
        "manifest-list": listed,
    }
    updates = [
        {"action": "add-snapshot", "snapshot": forged},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77},
    ]
    served.ask("POST", "/namespaces/sales/tables/t", {"requirements": [], "updates": updates}, token=TOKENS["sales"])


def planned(served: Served, user: str, status: int) -> str:
    return json.dumps(served.ask("POST", "/namespaces/sales/tables/t/plan", {}, token=TOKENS[user], expect=status))


def purge(served: Served) -> int:
    path = "/v1/namespaces/sales/tables/t?purgeRequested=true"
    return served.client.delete(path, headers={"Authorization": f"Bearer {TOKENS['sales']}"}).status_code


def test_a_data_file_outside_the_warehouse_is_neither_read_nor_deleted(served: Served, opened: list[str]) -> None:
    victim = served.warehouse.parent / "victim.parquet"
    victim.write_bytes(b"kept")
    commit(served, data_file=str(victim))
    opened.clear()
    planned(served, "sales", 200)
    assert purge(served) == 204
    assert victim.read_bytes() == b"kept"
    assert opened
    assert str(victim) not in opened
    assert not list((served.warehouse / "sales" / "t").rglob("*.avro"))


def test_a_manifest_outside_the_warehouse_is_neither_read_nor_deleted(served: Served, opened: list[str]) -> None:
    victim = served.warehouse.parent / "victim.avro"
    shutil.copy(manifest_of(served, "db.t"), victim)
    commit(served, manifest=str(victim))
    opened.clear()
    for user in ("sales", "admin"):
        planned(served, user, 403)
    purge(served)
    assert victim.exists()
    assert opened
    assert str(victim) not in opened


def test_a_manifest_of_another_namespace_is_read_for_its_readers_alone_and_not_deleted(served: Served) -> None:
    victim = manifest_of(served, "db.t")
    (secret,) = Path(served.warehouse, "db").rglob("*.parquet")
    commit(served, manifest=victim)
    assert secret.name not in planned(served, "sales", 403)
    assert secret.name in planned(served, "reader", 200)
    assert secret.name not in planned(served, "sales", 403), "no plan that another user may see is kept for this one"
    purge(served)
    assert Path(victim).exists()
    assert served.catalog.load_table("db.t").scan().to_arrow().num_rows == 1
