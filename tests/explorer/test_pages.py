"""What a reader finds on the pages of a table: its faults, its hierarchy, its history, and every file's content."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from tests.explorer.conftest import Served, base_of, page
from tests.explorer.faulty_table import SIGNS, SMALL_DAY

from icefloe import SqlCatalog
from icefloe.errors import InvalidFilterError, InvalidInputError, NoSuchSnapshotError, StorageError
from icefloe.explorer import HtmlPage, html_page
from icefloe.explorer.page import SECTIONS
from icefloe.explorer.standalone import standalone
from icefloe.table import Table
from icefloe.table.static_table import StaticTable

NOW_MS = 1_800_000_000_000
SMALL = pa.schema([("id", pa.int64()), ("name", pa.string())])


def text_of(content: str) -> str:
    """Return the text that a reader of a page sees."""
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script)\b.*?</\1>", "", content, flags=re.DOTALL)))


@pytest.mark.parametrize("fault", SIGNS)
def test_the_page_of_checks_shows_each_fault(client: TestClient, orders: Table, fault: str) -> None:
    assert SIGNS[fault] in text_of(page(client, f"{base_of(orders)}/checks"))


def test_the_first_page_shows_all_faults_in_plain_words(client: TestClient, orders: Table) -> None:
    text = text_of(page(client, f"{base_of(orders)}/overview"))
    for sign in (
        "does not exist",
        "Small files:",
        f"day={SMALL_DAY}: 30 small of 30 files",
        "Clustering by id:",
        "which is no live data file",
    ):
        assert sign in text
    assert "total-records of snapshot" in text
    assert "Retried commits: 1 of 33" in text


def test_each_concern_that_a_command_mends_has_the_command(client: TestClient, orders: Table) -> None:
    found = re.findall(r'data-copy="([^"]*)"', page(client, f"{base_of(orders)}/overview"))
    assert {command.split()[1] for command in found} >= {"rewrite-data-files", "remove-dangling-deletes", "rewrite-manifests"}
    assert all(command.startswith("icefloe ") and "shop.orders" in command for command in found)


def test_the_hierarchy_leads_from_the_catalog_to_a_file(client: TestClient, orders: Table) -> None:
    whole = page(client, f"{base_of(orders)}/overview")
    assert [
        name for name in ("Catalog", "Metadata file", "Snapshot", "Manifest list", "Manifests", "Files") if f">{name}</text>" not in whole
    ] == []
    zoomed = page(client, f"{base_of(orders)}/overview?manifests=2-2")
    assert "all manifests" in zoomed
    (target,) = set(re.findall(r'href="([^"]*kind=file[^"]*)"', zoomed))
    assert "the file's own footer" in text_of(page(client, html.unescape(target)))


def test_the_history_shows_branches_tags_and_the_retried_commit(client: TestClient, orders: Table) -> None:
    text = text_of(page(client, f"{base_of(orders)}/history"))
    for sign in ("main", "audit", "before-deletes", "retried: 2 attempts", "− delete"):
        assert sign in text


def test_the_evolution_shows_when_schema_and_sort_order_changed(client: TestClient, orders: Table) -> None:
    text = text_of(page(client, f"{base_of(orders)}/evolution"))
    assert "added channel (string)" in text
    assert "from unsorted to identity(id)" in text
    assert "audit created at" in text


def test_the_overlap_of_a_column_shows_why_a_filter_opens_many_files(client: TestClient, orders: Table) -> None:
    text = text_of(page(client, f"{base_of(orders)}/clustering"))
    assert "Overlap of files in id" in text
    assert "the sort is of no use to filters" in text
    day = orders.schema().find_field("day").field_id
    assert "clustering depth 1.00" in re.sub(r"\s+", " ", text_of(page(client, f"{base_of(orders)}/clustering?column={day}")))


def test_the_trace_of_a_query_shows_the_bound_that_decided(client: TestClient, orders: Table) -> None:
    text = text_of(page(client, f"{base_of(orders)}/query?where=day+%3D+%272026-11-07%27+AND+id+%3C+0"))
    assert "id: lower bound" in text
    assert re.search(r"reads 0 of 85 data files", text)
    assert "partition day is 2026-11-02" in text


def test_a_filter_that_cannot_be_parsed_is_an_error_beside_the_box(client: TestClient, orders: Table) -> None:
    response = client.get(f"{base_of(orders)}/query?where=id+%3C%3C")
    assert response.status_code == 200
    assert 'role="alert"' in response.text
    assert 'value="id &lt;&lt;"' in response.text


@pytest.mark.parametrize("measure", ["bytes", "rows", "files", "deletes"])
def test_partitions_are_a_heat_map_by_each_measure(client: TestClient, orders: Table, measure: str) -> None:
    content = page(client, f"{base_of(orders)}/partitions?by={measure}")
    assert content.count('class="c-') >= 10
    assert "day = 2026-11-07: 30 files" in text_of(content)


def test_every_kind_of_file_is_decoded(client: TestClient, orders: Table) -> None:
    base = f"{base_of(orders)}/contents"
    assert '"format-version": 2' in text_of(page(client, f"{base}?kind=metadata"))
    assert '"format-version": 2' in text_of(page(client, f"{base}?kind=metadata&log=1"))
    assert "avro.schema" in page(client, f"{base}?kind=manifest-list")
    assert "partition-spec-id" in page(client, f"{base}?kind=manifest&manifest=1")
    assert "lower bound" in page(client, f"{base}?kind=file&manifest=1&entry=1")
    assert "lower bound" in page(client, f"{base}?kind=file&manifest=33&entry=1")


@pytest.mark.parametrize(
    "query", ["kind=manifest&manifest=999", "kind=file&manifest=1&entry=999", "kind=statistics&number=7", "snapshot=17"]
)
def test_a_place_that_is_not_there_is_an_error_with_a_next_step(client: TestClient, orders: Table, query: str) -> None:
    response = client.get(f"{base_of(orders)}/contents?{query}")
    assert response.status_code in (200, 404)
    assert "Next: " in text_of(response.text)
    assert "Traceback" not in response.text


def test_a_page_shows_the_table_as_of_a_snapshot(client: TestClient, orders: Table) -> None:
    first = orders.metadata.snapshots[0].snapshot_id
    text = text_of(page(client, f"{base_of(orders)}/files?snapshot={first}"))
    assert f"as of snapshot {first}" in text
    assert "9 data files" in text


def test_the_file_without_a_server_has_all_sections_and_faults(orders: Table) -> None:
    content = standalone(orders, NOW_MS, typed="shop.orders", where="id < 10")
    text = text_of(content)
    assert [section.name for section in SECTIONS if f'id="{section.name}"' not in content] == []
    assert [fault for fault, sign in SIGNS.items() if sign not in text] == []
    assert "http" not in re.sub(r"http://www\.w3\.org\S*|http-equiv", "", content)
    assert len(content.encode()) < 2_000_000


def test_the_file_is_a_value_that_is_written_and_shows_itself_in_a_frame(orders: Table, tmp_path: Path) -> None:
    made = html_page(orders, where="id < 10", snapshot="main")
    assert made.write(tmp_path / "orders.html") == tmp_path / "orders.html"
    assert (tmp_path / "orders.html").read_text() == made.html
    assert [path.name for path in tmp_path.iterdir()] == ["orders.html"]
    frame = made._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "<script" not in frame
    assert len(repr(made)) < 100


@pytest.mark.parametrize("arguments", [{"where": "id <"}, {"where": "nothing = 1"}, {"snapshot": "v9"}, {"snapshot": 17}])
def test_a_file_of_a_wrong_filter_or_snapshot_is_refused(orders: Table, arguments: dict[str, Any]) -> None:
    with pytest.raises((InvalidFilterError, NoSuchSnapshotError)) as refused:
        html_page(orders, **arguments)
    assert refused.value.next_step


@pytest.mark.parametrize("path", ["", "nowhere/a.html", "a\0b.html"])
def test_a_file_that_cannot_be_written_is_an_error_with_a_next_step(orders: Table, tmp_path: Path, path: str) -> None:
    made = HtmlPage(name="t", html="<p>")
    with pytest.raises((StorageError, InvalidInputError)) as refused:
        made.write(f"{tmp_path}/{path}" if path else "")
    assert refused.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_snapshots_has_every_page(served: Served, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.empty", SMALL)
    client = served(table)
    for section in SECTIONS:
        assert "Traceback" not in page(client, f"{base_of(table)}/{section.name}")


def test_an_unpartitioned_table_of_version_3_has_every_page(served: Served, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    table = catalog.create_table("db.vectors", SMALL, properties=properties)
    rows = pa.table({"id": list(range(100)), "name": [f"n{number}" for number in range(100)]}, schema=SMALL)
    table.append(rows)
    table.delete("id < 5")
    table.compute_statistics()
    table = catalog.load_table("db.vectors")
    client = served(table)
    for section in SECTIONS:
        assert "alert" not in page(client, f"{base_of(table)}/{section.name}"), section.name
    assert "deletion-vector-v1" in page(client, f"{base_of(table)}/contents?kind=file&manifest=2&entry=1")
    assert "apache-datasketches-theta-v1" in page(client, f"{base_of(table)}/contents?kind=statistics&number=1")


@pytest.mark.parametrize("total", ["99999", None])
def test_a_lost_file_is_found_whatever_the_totals_of_the_summary_are(served: Served, tmp_path: Path, total: str | None) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.wrong", SMALL)
    for number in range(2):
        table.append(pa.table({"id": [number], "name": ["a"]}, schema=SMALL))
    metadata = Path(table.metadata_location)
    document = json.loads(metadata.read_text())
    summary = document["snapshots"][-1]["summary"]
    summary.pop("total-data-files")
    summary.update({} if total is None else {"total-data-files": total})
    metadata.write_text(json.dumps(document))
    lost = next(task.file.file_path for task in table.scan().plan_files())
    Path(lost).unlink()
    reader = StaticTable.from_metadata(str(metadata))
    text = text_of(page(served(reader), f"{base_of(reader)}/checks"))
    assert "Each data file was checked for its existence and size." in text
    assert "does not exist" in text


def test_a_lost_manifest_is_shown_in_its_place_and_other_pages_remain(served: Served, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.lost", SMALL)
    table.append(pa.table({"id": [1], "name": ["a"]}, schema=SMALL))
    manifest = table.current_snapshot().manifests(table.io)[0].manifest_path
    Path(manifest).unlink()
    reader = StaticTable.from_metadata(table.metadata_location)
    client = served(reader)
    text = text_of(page(client, f"{base_of(reader)}/overview"))
    assert "Manifest 1 cannot be read" in text
    assert "does not exist" in text
    assert "append" in text_of(page(client, f"{base_of(reader)}/history"))
    assert "Next: " in text_of(page(client, f"{base_of(reader)}/files"))


def test_a_file_outside_of_the_table_that_the_metadata_log_names_is_not_shown(served: Served, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SMALL)
    table.append(pa.table({"id": [1], "name": ["a"]}, schema=SMALL))
    location = Path(table.metadata_location)
    outside = tmp_path / "outside.metadata.json"
    document = location.read_text()
    outside.write_text(json.dumps({**json.loads(document), "properties": {"kept": "private"}}))
    for entry in table.metadata.metadata_log:
        document = document.replace(entry.metadata_file, str(outside))
    location.write_text(document)
    stored = StaticTable.from_metadata(str(location))
    client = served(stored)
    shown = page(client, f"{base_of(stored)}/contents?kind=metadata&log=1")
    assert "private" not in shown
    assert "not in the table&#x27;s folder" in shown
    evolution = text_of(page(client, f"{base_of(stored)}/evolution"))
    assert "kept" not in evolution
    assert "1 earlier metadata file" in evolution
