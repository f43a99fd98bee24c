"""`icefloe changes`: what it writes, once and while it follows a table, where it continues, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe import Catalog, Table, load_catalog
from icefloe.cli import changes_command
from icefloe.cli.changes_command import POSITION_NAME

Run = Callable[..., list[dict[str, Any]]]
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("place", pa.struct([("city", pa.string()), ("zip", pa.list_(pa.int32()))]))]
)


def rows(*ids: int, city: str = "Bern") -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "place": {"city": city, "zip": [number]}} for number in ids], SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    (tmp_path / "lake").mkdir()
    catalog = load_catalog(warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = catalog.create_table("db.t", SCHEMA, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    table.upsert(rows(3, 4, city="Genf"), ["id"])
    return table


@pytest.fixture
def changed(icefloe: Callable[..., Any], tmp_path: Path) -> Run:
    """Run the command, and return the lines that it writes to standard output."""

    def run(*words: object) -> list[dict[str, Any]]:
        result = icefloe("changes", "db.t", "--warehouse", tmp_path / "lake", *words)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


def short(lines: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(line["_change_type"], line["id"], line["place"]["city"]) for line in lines]


EVERYTHING = [
    *(("INSERT", number, "Bern") for number in (1, 2, 3)),
    ("DELETE", 2, "Bern"),
    ("DELETE", 3, "Bern"),
    *(("INSERT", number, "Genf") for number in (3, 4)),
]


def test_every_change_is_a_line_of_json_with_its_snapshot(table: Table, changed: Run) -> None:
    lines = changed()
    assert short(lines) == EVERYTHING
    first, second, _ = table.snapshots()
    assert [*lines[0]] == ["id", "place", "_change_type", "_commit_snapshot_id", "_commit_timestamp"]
    assert lines[0]["place"] == {"city": "Bern", "zip": [1]}
    assert [line["_commit_snapshot_id"] for line in lines[:4]] == [first.snapshot_id] * 3 + [second.snapshot_id]
    assert lines[3]["_commit_timestamp"].startswith("20")
    assert lines[3]["_commit_timestamp"].endswith("Z")
    assert short(changed("--from", first.snapshot_id, "--until", second.snapshot_id)) == EVERYTHING[3:4]
    assert short(changed("--from", "rows")) == [("INSERT", 1, "Bern"), ("INSERT", 3, "Genf"), ("INSERT", 4, "Genf")]
    updates = [("UPDATE_BEFORE", 3, "Bern"), ("UPDATE_AFTER", 3, "Genf"), ("INSERT", 4, "Genf")]
    assert sorted(short(changed("--from", second.snapshot_id, "--updates", "--key", "id"))) == sorted(updates)
    assert [set(line) for line in changed("--columns", "id", "--where", "id = 4")] == [
        {"id", "_change_type", "_commit_snapshot_id", "_commit_timestamp"}
    ]


def test_each_start_continues_at_the_stored_position(table: Table, changed: Run, tmp_path: Path) -> None:
    position = ("--position", tmp_path / "state" / "position")
    assert short(changed(*position)) == EVERYTHING
    assert changed(*position, "--from", "beginning") == []
    table.append(rows(5))
    table.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert short(changed(*position)) == [("INSERT", 5, "Bern")]
    table.append(rows(6))
    table.expire_snapshots(table.current_snapshot().timestamp_ms + 1, retain_last=1)
    assert short(changed(*position)) == [("INSERT", 6, "Bern")], "a position needs no snapshot before its own"
    now = ("--position", tmp_path / "other")
    assert changed(*now, "--from", "now") == []
    table.delete("id = 6")
    assert short(changed(*now, "--from", "now")) == [("DELETE", 6, "Bern")]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_folder_has_a_file_for_each_snapshot_with_changes(table: Table, changed: Run, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "out"
    options = ("--folder", folder, "--format", kind)
    changed(*options, "--until", table.snapshots()[0].snapshot_id)
    (folder / POSITION_NAME).unlink()  # as if the command had ended before it stored its position
    table.maintenance.rewrite_data_files(options={"rewrite-all": True})
    changed(*options)
    files = sorted(path for path in folder.iterdir() if path.name != POSITION_NAME)
    assert [path.name.split("-")[1].split(".")[0] for path in files] == [str(snapshot.snapshot_id) for snapshot in table.snapshots()[:3]]
    read = [pq.read_table(path).to_pylist() if kind == "parquet" else map(json.loads, path.read_text().splitlines()) for path in files]
    assert short([line for lines in read for line in lines]) == EVERYTHING


def test_all_rows_are_written_once_though_the_first_start_is_killed(
    table: Table, changed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_die(run: Any, committed: Any) -> None:
        run.sink.write(committed)
        raise SystemError

    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(changes_command._Delivery, "write", write_and_die)
        with pytest.raises(SystemError):
            changed("--from", "rows", "--folder", folder)
    table.append(rows(9))
    changed("--from", "rows", "--folder", folder)
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    assert short(lines) == [("INSERT", 1, "Bern"), ("INSERT", 3, "Genf"), ("INSERT", 4, "Genf"), ("INSERT", 9, "Bern")]


def test_following_writes_what_is_committed_until_ctrl_c(
    table: Table, icefloe: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = iter([lambda: table.append(rows(7)), lambda: None, lambda: table.update_schema().add_column("n", "int").commit()])

    def sleep(seconds: float) -> None:
        assert seconds == 2
        commit = next(commits, None)
        if commit is None:
            table.append(pa.table({"id": [8], "n": pa.array([1], pa.int32())}))
            monkeypatch.setattr(changes_command, "sleep", interrupt)
        else:
            commit()

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(changes_command, "sleep", sleep)
    options = ("--follow", "--interval", 2, "--folder", tmp_path / "out", "--from", "now")
    result = icefloe("changes", "db.t", "--warehouse", tmp_path / "lake", *options)
    assert result.exit_code == 130
    assert "the same command continues at the position in" in " ".join(result.stderr.split())
    lines = [json.loads(line) for path in sorted((tmp_path / "out").glob("*.jsonl")) for line in path.read_text().splitlines()]
    assert [(line["id"], line.get("n")) for line in lines] == [(7, None), (8, 1)]


def test_a_position_that_does_not_fit_is_refused(
    catalog: Catalog, table: Table, icefloe: Callable[..., Any], tmp_path: Path, changed: Run
) -> None:
    def refused(*words: object) -> str:
        result = icefloe("changes", "db.t", "--warehouse", tmp_path / "lake", *words)
        assert result.exit_code == 1
        assert result.stdout == ""
        return " ".join(result.stderr.split())

    position = tmp_path / "position"
    changed("--position", position)
    assert "is one of the branch 'main', and --branch is 'audit'" in refused("--position", position, "--branch", "audit")
    kept = table.snapshots()[1].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(kept).commit()
    assert "it was rolled back or replaced" in refused("--position", position)
    position.write_text("{")
    assert "is not the position of a reader of changes" in refused("--position", position)
    changed("--position", tmp_path / "old")
    for number in (10, 11):
        table.append(rows(number))
    table.expire_snapshots(table.current_snapshot().timestamp_ms + 1, retain_last=1)
    assert f"after snapshot {kept}" in (text := refused("--position", tmp_path / "old"))
    assert "was expired" in text
    assert "remove the position" in text
    catalog.drop_table("db.t")
    catalog.create_table("db.t", SCHEMA)
    assert "the position is that of the table with the UUID" in refused("--position", tmp_path / "old")
    for words, text in (
        (("--follow", "--until", "main"), "both --follow and --until are given"),
        (("--mode", "netChanges"), "netChanges compares several"),
        (("--from", "2020-13-01"), "there is no branch or tag '2020-13-01'"),
        (("--columns", "nothing"), "have no column 'nothing'"),
        (("--updates",), "identifier fields"),
        (("--branch", "nothing"), "has no branch or tag 'nothing'"),
        (("--from", "9" * 5000), "there is no branch or tag '9999"),
    ):
        assert text in refused(*words)


def test_a_position_before_the_first_snapshot_skips_no_expired_one(
    catalog: Catalog, icefloe: Callable[..., Any], tmp_path: Path, changed: Run
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    position = ("--position", tmp_path / "position")
    assert changed(*position) == []
    for number in (1, 2, 3):
        table.append(rows(number))
    table.expire_snapshots(table.current_snapshot().timestamp_ms + 1, retain_last=2)
    result = icefloe("changes", "db.t", "--warehouse", tmp_path / "lake", *position)
    assert result.exit_code == 1
    assert "db.t since its beginning are unknown: snapshots before" in " ".join(result.stderr.split())
    assert [line["id"] for line in changed("--until", "now")] == [2, 3], "without a position the beginning is the oldest snapshot"
    assert changed("--until", "beginning") == []
    assert [line["id"] for line in changed("--position", tmp_path / "other")] == [2, 3]


def test_a_position_that_a_tag_keeps_does_not_skip_expired_snapshots(
    table: Table, icefloe: Callable[..., Any], tmp_path: Path, changed: Run
) -> None:
    changed("--position", tmp_path / "position")
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "kept").commit()
    table.append(rows(5))
    gone = table.current_snapshot().snapshot_id
    table.append(rows(6))
    table.expire_snapshots(snapshot_ids=[gone])
    result = icefloe("changes", "db.t", "--warehouse", tmp_path / "lake", "--position", tmp_path / "position")
    assert result.exit_code == 1
    assert "or snapshots after it were expired: the oldest of 'main' is" in " ".join(result.stderr.split())


@pytest.mark.parametrize("content", [b'{"table_uuid": "\xff"}', b'{"other": ' + b"[" * 60_000], ids=["bytes", "depth"])
def test_a_file_that_is_no_position_is_refused(table: Table, icefloe: Callable[..., Any], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "position").write_bytes(content)
    result = icefloe("changes", "db.t", "--warehouse", tmp_path / "lake", "--position", tmp_path / "position")
    assert result.exit_code == 1
    assert "is not the position of a reader of changes" in " ".join(result.stderr.split())
