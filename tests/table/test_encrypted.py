"""A table whose snapshot needs a key is refused before anything of it is read."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, StaticTable
from icefloe.errors import UnsupportedFeatureError


def test_an_encrypted_table_is_refused_by_name(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    metadata = Path(table.metadata_location)
    told = json.loads(metadata.read_text())
    told |= {"format-version": 3, "next-row-id": 1}
    told["snapshots"][-1] |= {"first-row-id": 0, "added-rows": 1}
    told["snapshots"][-1]["key-id"] = "k1"
    told["encryption-keys"] = [{"key-id": "k1", "encrypted-key-metadata": "AAAA"}]
    encrypted = metadata.with_name("99999-encrypted.metadata.json")
    encrypted.write_text(json.dumps(told))
    with pytest.raises(UnsupportedFeatureError, match=r"is encrypted: .*k1"):
        StaticTable.from_metadata(str(encrypted)).scan().to_arrow()
    assert StaticTable.from_metadata(str(metadata)).scan().to_arrow().to_pylist() == [{"id": 1}]
