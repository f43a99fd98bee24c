"""`icefloe demo`: its data, its folder and its text; and whole runs with Spark."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.inspect.example import make_lake

from icefloe import SqlCatalog
from icefloe.cli.demo_data import EVENTS_A_FILE, FLIGHTS, FLIGHTS_SCHEMA, event_files, flights_csv, packed_flights
from icefloe.cli.demo_folder import DemoFolder, prepare
from icefloe.cli.demo_story import print_story
from icefloe.errors import AlreadyExistsError, NotInstalledError, StorageError


def test_all_flights_are_written_with_the_stated_columns(tmp_path: Path) -> None:
    path = flights_csv(packed_flights(), tmp_path)
    with open(path, encoding="utf-8") as file:
        header = next(file).strip().split(",")
        assert sum(1 for _ in file) == FLIGHTS
    assert header == [column.split()[0] for column in FLIGHTS_SCHEMA.split(",")]


def test_an_error_about_missing_flights_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.cli.demo_data.FLIGHTS_PACKAGE", "no_such_package")
    with pytest.raises(NotInstalledError, match=r"icefloe\[demo\]"):
        packed_flights()


def test_the_events_are_equal_in_every_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = event_files(tmp_path / "a"), event_files(tmp_path / "b")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in first]
    assert digests == [hashlib.sha256(path.read_bytes()).hexdigest() for path in second]
    events = [json.loads(line) for path in first for line in path.read_text().splitlines()]
    assert [event["id"] for event in events] == list(range(1, 3 * EVENTS_A_FILE + 1))
    assert list(events[0]) == ["id", "type", "time", "source", "text"]
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    counts = Counter(event["type"] for event in events)
    assert set(counts) == {"c8y_Event", "c8y_LocationUpdate", "c8y_Measurement", "c8y_Alarm"}
    assert min(counts.values()) > 5_000


def test_an_earlier_demonstration_is_replaced_only_with_the_option(tmp_path: Path) -> None:
    prepare(tmp_path / "d", replace=False)
    (tmp_path / "d" / "catalog.db").write_text("old")
    (tmp_path / "d" / "demo").mkdir()
    (tmp_path / "d" / "mine.txt").write_text("kept")
    with pytest.raises(AlreadyExistsError, match="--replace"):
        prepare(tmp_path / "d", replace=False)
    prepare(tmp_path / "d", replace=True)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["icefloe.yaml", "input", "mine.txt"]


def test_other_files_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("other content")
    with pytest.raises(AlreadyExistsError, match="not from a demonstration"):
        prepare(tmp_path, replace=True)
    assert (tmp_path / "catalog.db").read_text() == "other content"


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        prepare(tmp_path / "file" / "d", replace=False)


def test_the_written_configuration_leads_to_the_catalog(tmp_path: Path, icefloe: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = prepare(tmp_path / "d", replace=False)
    SqlCatalog("lake", uri=folder.uri, warehouse=str(folder.path)).create_namespace("demo")
    monkeypatch.setenv("ICEFLOE_HOME", str(folder.path))
    assert json.loads(icefloe("list", "--json").stdout)["namespaces"][0]["name"] == "demo"


def test_the_text_describes_every_level(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = make_lake(tmp_path)
    monkeypatch.setattr("icefloe.cli.demo_story.FLIGHTS_TRACED", "type = 'c8y_Event' AND id > 590")
    print_story(DemoFolder(tmp_path), catalog, table, table, ["append: done"])
    text = capsys.readouterr().out
    chapters = (
        "The catalog",
        "The metadata file",
        "The history",
        "The manifest list",
        "A manifest",
        "A data file",
        "The whole tree",
        "What metadata costs",
    )
    places = [text.index(f". {chapter} ") for chapter in (*chapters, "Why a query reads what it reads", "Continue yourself")]
    assert places == sorted(places)
    for expected in (
        "iceberg_namespace_properties",
        "snapshot log",
        "metadata log",
        "lower bound",
        "row group 1",
        "6. In all",
        "iceberg_scan(",
    ):
        assert expected in text
    assert "\x1b" not in text


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demonstration") / "warehouse"
    command = [Path(sys.executable).with_name("icefloe"), "demo", "--dir", folder, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return folder, found


@pytest.mark.spark
def test_the_demonstration_writes_all_rows(demonstration: tuple[Path, dict[str, Any]]) -> None:
    flights, events = demonstration[1]["tables"]
    assert flights["rows_read_back"] == FLIGHTS
    assert [write["operation"] for write in events["writes"]] == ["append", "append", "delete", "append"]
    deleted = events["writes"][2]
    assert (deleted["engine"], deleted["rewritten_files"]) == ("metadata", 0)
    assert events["rows_read_back"] == 3 * EVENTS_A_FILE - deleted["deleted_records"]
    assert len(events["snapshots"]) == 4


@pytest.mark.spark
def test_the_trace_of_the_demonstration_skips_manifests_and_data_files(demonstration: tuple[Path, dict[str, Any]]) -> None:
    trace = demonstration[1]["trace"]
    assert trace["where"] == "type = 'c8y_Event' AND time > '2024-01-01'"
    assert [decision["explanation"] for decision in trace["manifests"]["skipped"]] == ["partition time_month: upper 2023-11 < 2024-01"]
    assert len(trace["files"]["skipped"]) > len(trace["files"]["kept"]) > 0
    assert trace["totals"]["data_size_skipped"] > 0.5 * trace["totals"]["data_size"]


@pytest.mark.spark
@pytest.mark.spark
def test_the_demonstration_s_tables_read_back_equal_to_their_files(demonstration: tuple[Path, dict[str, Any]]) -> None:
    folder = demonstration[0]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    lines = (line for path in sorted((folder / "input").glob("events-*.jsonl")) for line in path.read_text().splitlines())
    wanted = {event["id"]: event for event in map(json.loads, lines)}
    rows = catalog.load_table("demo.events").scan().to_arrow().to_pylist()
    last = 2 * EVENTS_A_FILE
    kept = {key for key, event in wanted.items() if event["type"] != "c8y_LocationUpdate" or key > last}
    assert {row["id"] for row in rows} == kept
    for row in rows:
        event = wanted[row["id"]]
        assert (row["type"], row["source"], row["text"]) == (event["type"], event["source"], event["text"])
        assert row["time"].isoformat(timespec="milliseconds").replace("+00:00", "Z") == event["time"]


@pytest.mark.spark
def test_a_second_demonstration_in_one_folder_is_refused(demonstration: tuple[Path, dict[str, Any]], icefloe: Command) -> None:
    result = icefloe("demo", "--dir", demonstration[0])
    assert result.exit_code == 1
    assert "contains a demonstration already" in result.stderr
