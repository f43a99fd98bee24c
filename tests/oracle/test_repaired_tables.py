"""Tables that were broken with real bytes and repaired: DuckDB and Java read the rows that Icefloe reads, and that were there before."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from tests.checks.breaks import BREAKS
from tests.checks.file_breaks import FILE_BREAKS, file_of
from tests.oracle.conftest import ORACLES, run
from tests.oracle.rows import comparable
from tests.oracle.test_every_operation import _DUCKDB, _JAVA
from tests.repair.broken_table import BrokenTable
from tests.repair.test_repairs_of_rules import STATE_KEEPING

Step = tuple[str, str, int, list[str]]


def rows_of(broken: BrokenTable) -> list[str]:
    return comparable(broken.table.scan().to_arrow().to_pylist())


def step(name: str, broken: BrokenTable) -> Step:
    table = broken.table
    return name, table.metadata_location, table.metadata.refs["main"].snapshot_id, rows_of(broken)


def of_rules(folder: Path) -> list[Step]:
    """Break each rule whose repair keeps the rows, and repair it."""
    steps = []
    for rule, breaking in STATE_KEEPING.items():
        place = folder / rule
        place.mkdir()
        broken = (BrokenTable.of if rule in BREAKS else BrokenTable.of_files)(place, breaking.version)
        before = rows_of(broken)
        broken.break_by(breaking)
        if rule in ("dangling-delete", "dangling-vector"):
            before = rows_of(broken)
        assert broken.plan().apply().repairs
        assert rows_of(broken) == before, rule
        steps.append(step(rule, broken))
    return steps


def lost_data_file(broken: BrokenTable) -> None:
    file_of(broken.stored).unlink()


def lost_delete_file(broken: BrokenTable) -> None:
    file_of(broken.stored, 1).unlink()


def damaged_file(broken: BrokenTable) -> None:
    broken.break_by(FILE_BREAKS["file-damaged"])


def lost_manifest(broken: BrokenTable) -> None:
    broken.stored.manifests()[0].unlink()


def lost_delete_manifest(broken: BrokenTable) -> None:
    broken.stored.manifests(1)[0].unlink()


def lost_rewritten_manifest(broken: BrokenTable) -> None:
    table = broken.table
    table.append(pa.table({"day": ["a"], "n": [0], "x": [1.0]}))
    table.rewrite_manifests()
    paths = broken.table.inspect.manifests().to_pylist()
    Path(next(one["path"] for one in paths if one["content"] == 0)).unlink()


def lost_metadata(broken: BrokenTable) -> None:
    Path(broken.location()).unlink()


def lost_metadata_folder(broken: BrokenTable) -> None:
    for path in Path(broken.location()).parent.glob("*.metadata.json"):
        path.unlink()


CHANGES: Sequence[tuple[Callable[[BrokenTable], None], str | None]] = (
    (lost_data_file, None),
    (lost_delete_file, "drop-lost-delete-files"),
    (damaged_file, "drop-damaged-files"),
    (lost_manifest, "rebuild-manifests-from-files"),
    (lost_manifest, "drop-lost-manifests"),
    (lost_delete_manifest, "drop-lost-manifests"),
    (lost_rewritten_manifest, None),
    (lost_metadata, "restore-metadata"),
    (lost_metadata, "rebuild-metadata"),
    (lost_metadata_folder, "rebuild-metadata"),
)


def of_lost_files(folder: Path, version: int) -> list[Step]:
    """Lose a file of each level, and repair the table by each way."""
    steps = []
    for lose, named in CHANGES:
        place = folder / f"{lose.__name__} {named} {version}"
        place.mkdir()
        # The last commit of the other table changed metadata only, so that no manifest list shows it.
        broken = (BrokenTable.of if lose is lost_metadata else BrokenTable.of_files)(place, version)
        lose(broken)
        planned = broken.plan(*([named] if named else []))
        assert planned.chosen, (lose.__name__, named, str(planned))
        planned.apply()
        steps.append(step(f"{lose.__name__}, {named}, version {version}", broken))
    return steps


@pytest.mark.oracle
@pytest.mark.slow
def test_others_read_the_rows_of_repaired_tables(tmp_path: Path, java_script: Callable[..., str]) -> None:
    steps = [*of_rules(tmp_path), *of_lost_files(tmp_path, 2), *of_lost_files(tmp_path, 3)]
    chosen = tmp_path / "chosen.json"
    chosen.write_text(json.dumps([(location, snapshot) for _, location, snapshot, _ in steps]))
    by_duckdb = run("duckdb", "-c", _DUCKDB, str(ORACLES), str(chosen)).splitlines()
    by_java = [
        line[8:] for line in java_script(_JAVA.format(chosen=str(chosen)), str(tmp_path)).splitlines() if line.startswith("READING ")
    ]
    assert len(by_duckdb) == len(by_java) == len(steps)
    differences = [
        (engine, name, found, expected)
        for (name, _, _, expected), *rows in zip(steps, by_duckdb, by_java, strict=True)
        for engine, found in zip(("DuckDB", "Java"), rows, strict=True)
        if comparable(json.loads(found)) != expected
    ]
    assert differences == []
