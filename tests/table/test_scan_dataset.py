"""The rows of a table as a PyArrow dataset, and through DataFusion where that is installed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from icefloe import load_catalog
from icefloe.operations.scan_dataset import ScanDataset


def renamed(warehouse: str, version: str) -> Any:
    """Return a table with odd names, a renamed column and deleted rows, in a warehouse at a path or a URL."""
    catalog = load_catalog("c", uri="sqlite://", warehouse=warehouse)
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("a.b c", pa.string()), ("U", pa.uuid())])
    table = catalog.create_table("db.t", schema, properties={"format-version": version})
    table.append(pa.table({"id": [1, 2, 3], "a.b c": ["x", "y", None], "U": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid())}))
    with table.update_schema() as update:
        update.rename_column("id", "ident")
    table.delete("ident = 2")
    return table


def test_a_dataset_reads_the_columns_of_a_query_and_tests_its_filter(tmp_path: Path) -> None:
    dataset = ScanDataset(renamed(str(tmp_path), "3").scan())
    (part,) = dataset.get_fragments(pc.field("ident") > 1)
    assert dataset.schema.names == ["ident", "a.b c", "U"]
    assert part.scanner(dataset.schema, columns=["a.b c"], filter=pc.field("ident") > 1, batch_size=2).to_table().to_pydict() == {
        "a.b c": [None]
    }
    assert part.scanner(dataset.schema, columns=["ident"], filter=pc.field("a.b c") == "x").to_table().to_pydict() == {"ident": [1]}
    assert part.scanner(dataset.schema, columns=[]).to_table().num_rows == 2
    assert part.scanner().to_table().schema.names == ["ident", "a.b c", "U"]


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_datafusion_reads_tables_at_paths_with_renamed_columns_and_deletes(tmp_path: Path, scheme: str, version: str) -> None:
    datafusion = pytest.importorskip("datafusion", reason="the engine is not installed: pip install 'icefloe[datafusion]'")
    session = datafusion.SessionContext()
    session.register_table("t", renamed(f"{scheme}{tmp_path}", version))
    assert session.sql("SELECT count(*) n, sum(ident) s FROM t").to_pydict() == {"n": [2], "s": [4]}
    assert session.sql("""SELECT "a.b c" AS x FROM t WHERE ident > 1 OR "a.b c" LIKE 'y%'""").to_pydict() == {"x": [None]}
    assert session.sql("SELECT a.ident FROM t a JOIN t b ON a.ident = b.ident WHERE a.ident IN (1, 2)").to_pydict() == {"ident": [1]}
