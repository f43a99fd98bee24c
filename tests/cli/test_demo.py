"""`icefloe demo`: its data, its folder and its text; and runs with Spark, of few rows and whole ones."""

import hashlib
import itertools
import json
import subprocess
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.inspect.example import make_lake
from typer.testing import CliRunner

from icefloe import SqlCatalog
from icefloe.cli.application import app
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


def test_the_events_are_equal_in_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.cli.demo_data.EVENTS_A_FILE", 6_000)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = event_files(tmp_path / "a"), event_files(tmp_path / "b")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in first]
    assert digests == [hashlib.sha256(path.read_bytes()).hexdigest() for path in second]
    events = [json.loads(line) for path in first for line in path.read_text().splitlines()]
    assert [event["id"] for event in events] == list(range(1, 18_001))
    assert list(events[0]) == ["id", "type", "time", "source", "text"]
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    counts = Counter(event["type"] for event in events)
    assert set(counts) == {"c8y_Event", "c8y_LocationUpdate", "c8y_Measurement", "c8y_Alarm"}
    assert min(counts.values()) > 1_000


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


@dataclass(frozen=True)
class Demonstration:
    """What a run of the command printed, and how many rows its data has."""

    folder: Path
    printed: dict[str, Any]
    flights: int
    events_a_file: int


@pytest.fixture(
    scope="module", params=[pytest.param(False, id="few rows, in this process"), pytest.param(True, id="whole", marks=pytest.mark.slow)]
)
def demonstration(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    folder = tmp_path_factory.mktemp("demonstration") / "warehouse"
    words = ["demo", "--dir", str(folder), "--json"]
    if request.param:
        done = subprocess.run([Path(sys.executable).with_name("icefloe"), *words], capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        return Demonstration(folder, json.loads(done.stdout), FLIGHTS, EVENTS_A_FILE)
    request.getfixturevalue("spark")  # the session that the command uses
    with zipfile.ZipFile(packed_flights()) as archive, archive.open("flights.csv") as file:
        lines = list(itertools.islice(file, 4_001))
    with zipfile.ZipFile(packed := folder.parent / "few.zip", "w") as archive:
        archive.writestr("flights.csv", b"".join(lines))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("icefloe.cli.demo.packed_flights", lambda: packed)
        patched.setattr("icefloe.cli.demo_data.EVENTS_A_FILE", 2_000)
        result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr[-3000:]
    return Demonstration(folder, json.loads(result.stdout), 4_000, 2_000)


@pytest.mark.spark
def test_the_demonstration_writes_all_rows(demonstration: Demonstration) -> None:
    flights, events = demonstration.printed["tables"]
    assert flights["rows_read_back"] == demonstration.flights
    assert [write["operation"] for write in events["writes"]] == ["append", "append", "delete", "append"]
    deleted = events["writes"][2]
    assert (deleted["engine"], deleted["rewritten_files"]) == ("metadata", 0)
    assert events["rows_read_back"] == 3 * demonstration.events_a_file - deleted["deleted_records"]
    assert len(events["snapshots"]) == 4


@pytest.mark.spark
def test_the_trace_of_the_demonstration_skips_manifests_and_data_files(demonstration: Demonstration) -> None:
    trace = demonstration.printed["trace"]
    assert trace["where"] == "type = 'c8y_Event' AND time > '2024-01-01'"
    assert [decision["explanation"] for decision in trace["manifests"]["skipped"]] == ["partition time_month: upper 2023-11 < 2024-01"]
    assert len(trace["files"]["skipped"]) > len(trace["files"]["kept"]) > 0
    assert trace["totals"]["data_size_skipped"] > 0.5 * trace["totals"]["data_size"]


@pytest.mark.spark
def test_the_demonstration_s_tables_read_back_equal_to_their_files(demonstration: Demonstration) -> None:
    folder = demonstration.folder
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    lines = (line for path in sorted((folder / "input").glob("events-*.jsonl")) for line in path.read_text().splitlines())
    wanted = {event["id"]: event for event in map(json.loads, lines)}
    rows = catalog.load_table("demo.events").scan().to_arrow().to_pylist()
    last = 2 * demonstration.events_a_file
    kept = {key for key, event in wanted.items() if event["type"] != "c8y_LocationUpdate" or key > last}
    assert {row["id"] for row in rows} == kept
    for row in rows:
        event = wanted[row["id"]]
        assert (row["type"], row["source"], row["text"]) == (event["type"], event["source"], event["text"])
        assert row["time"].isoformat(timespec="milliseconds").replace("+00:00", "Z") == event["time"]


@pytest.mark.spark
def test_a_second_demonstration_in_one_folder_is_refused(demonstration: Demonstration, icefloe: Command) -> None:
    result = icefloe("demo", "--dir", demonstration.folder)
    assert result.exit_code == 1
    assert "contains a demonstration already" in result.stderr
