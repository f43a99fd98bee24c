"""Declarative Pipelines on `icefloe connect-server`: the project of the documentation, run twice, and a table that is refreshed whole."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from tests.spark.test_connect_server import connect_server

from icefloe import Table, load_catalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

pipelines = pytest.importorskip("pyspark.pipelines.cli", reason="this Spark has no pipelines")
HAS_AUTO_CDC = hasattr(pytest.importorskip("pyspark.pipelines"), "create_auto_cdc_flow")
HAS_HISTORY = HAS_AUTO_CDC and pyspark.__version__ >= "4.3"  # SCD type 2
LEFT_OUT = {name for name, is_there in (("customers.py", HAS_AUTO_CDC), ("customer_history.py", HAS_HISTORY)) if not is_there}
DOCUMENT = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
BLOCK = re.compile(r'^```\w+ title="(?P<path>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


def write_project(folder: Path) -> None:
    """Write the files of the documentation's project."""
    for block in BLOCK.finditer(DOCUMENT):
        path = folder / block["path"]
        if path.name not in LEFT_OUT:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"].replace("file:///var/lib/shop/storage", (folder / "storage").as_uri()))


def run_pipeline(project: Path, address: str, *options: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | {"SPARK_REMOTE": address}
    command = [sys.executable, pipelines.__file__, "run", *options]
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=600, check=False)
    printed = ran.stdout + ran.stderr
    assert ran.returncode == 0, printed
    assert "Run is COMPLETED" in printed


def rows_of(table: Table, *columns: str) -> Counter[tuple[object, ...]]:
    rows = table.refresh().scan().to_arrow().select(list(columns)).to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def test_the_documented_project_follows_its_sources(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    catalog = load_catalog("lake", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("shop")
    orders = catalog.create_table("shop.orders", pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("kind", pa.string())]))
    fields = pa.schema([("id", pa.int64()), ("name", pa.string()), ("op", pa.string()), ("lsn", pa.int64())])
    events = catalog.create_table("shop.customer_events", fields, properties={"format-version": "3"})
    orders.append(pa.table({"id": [1, 2, 3], "amount": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"]}))
    events.append(pa.table({"id": [1, 2, 1, 3], "name": ["ann", "bob", "anna", "cat"], "op": [*"IIUI"], "lsn": [1, 2, 3, 4]}))
    project = tmp_path / "project"
    write_project(project)
    with connect_server(tmp_path, "--catalog", "lake", "--warehouse", str(tmp_path / "lake")) as address:
        run_pipeline(project, address)
        totals, cleaned = catalog.load_table("shop.totals"), catalog.load_table("shop.cleaned")
        assert rows_of(totals, "kind", "total") == Counter([("A", 4.0), ("B", 2.0)])
        orders.append(pa.table({"id": [4, 5], "amount": [4.0, 5.0], "kind": ["b", "c"]}))
        events.append(pa.table({"id": [2, 3, 4], "name": ["bobby", "cat", "dan"], "op": [*"UDI"], "lsn": [5, 6, 7]}))
        orders.maintenance.rewrite_data_files(options={"rewrite-all": True})
        events.maintenance.rewrite_data_files(options={"rewrite-all": True})
        run_pipeline(project, address)
        assert rows_of(totals, "kind", "total") == Counter([("A", 4.0), ("B", 6.0), ("C", 5.0)])
        assert rows_of(cleaned, "id", "kind") == Counter([(1, "A"), (2, "B"), (3, "A"), (4, "B"), (5, "C")])
        run_pipeline(project, address, "--full-refresh", "cleaned")
        assert rows_of(cleaned, "id") == Counter([(number,) for number in range(1, 6)])
    if HAS_AUTO_CDC:
        assert rows_of(catalog.load_table("shop.customers"), "id", "name", "lsn") == Counter(
            [(1, "anna", 3), (2, "bobby", 5), (4, "dan", 7)]
        )
    if HAS_HISTORY:
        history = rows_of(catalog.load_table("shop.customer_history"), "id", "name", "__START_AT", "__END_AT")
        closed = [(1, "ann", 1, 3), (2, "bob", 2, 5), (3, "cat", 4, 6)]
        assert history == Counter([*closed, (1, "anna", 3, None), (2, "bobby", 5, None), (4, "dan", 7, None)])
