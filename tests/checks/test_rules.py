"""Each rule of `icefloe.checks` is found where it is broken, and only there; a table that Icefloe wrote breaks none."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.checks.breaks import BREAKS, MORE_BREAKS, Break
from tests.checks.file_breaks import FILE_BREAKS
from tests.checks.stored_table import StoredTable
from tests.inspect.test_catalog_validation import CATALOG_BREAKS

from icefloe import SqlCatalog
from icefloe.checks.finding import Severity
from icefloe.checks.rules import RULES, rule_named
from icefloe.spec.tolerance import Deviation


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_that_icefloe_wrote_breaks_no_rule(tmp_path: Path, version: int) -> None:
    result = StoredTable.written(tmp_path, version).validated()
    assert result.findings == ()
    assert result.counts == {}
    assert (result.snapshots, result.manifests > 0, result.files > 0) == (5, True, True)


def test_every_rule_has_a_test_that_breaks_it() -> None:
    assert BREAKS.keys() | FILE_BREAKS.keys() | CATALOG_BREAKS.keys() == {rule.id for rule in RULES}


def test_every_deviation_that_a_tolerant_read_accepts_has_the_id_of_a_rule() -> None:
    assert {str(deviation) for deviation in Deviation} <= {rule.id for rule in RULES}


def test_the_ids_of_rules_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], StoredTable]:
    """Return a function that restores a sound table of a format version: paths in it are absolute, so a copy is put where it was written."""
    folder = tmp_path_factory.mktemp("tables")
    tables: dict[int, StoredTable] = {}

    def restored(version: int) -> StoredTable:
        place, copy = folder / f"v{version}", folder / f"copy{version}"
        if version not in tables:
            place.mkdir()
            tables[version] = StoredTable.written(place, version)
            shutil.copytree(place, copy)
        shutil.rmtree(place)
        shutil.copytree(copy, place)
        return tables[version]

    return restored


@pytest.mark.parametrize("rule_id", BREAKS)
def test_a_broken_rule_is_found_and_no_other(sound: Callable[[int], StoredTable], rule_id: str) -> None:
    broken = BREAKS[rule_id]
    stored = sound(broken.version)
    broken.change(stored)
    result = stored.validated(broken.arguments)
    assert {finding.rule for finding in result.findings} == {rule_id}, [finding.message for finding in result.findings]
    for finding in result.findings:
        assert finding.severity is rule_named(rule_id).severity
        assert finding.table == "t"
        assert finding.message
        assert finding.next_step
        assert finding.file
    assert result.counts[rule_id] == len(result.findings)
    assert rule_named(rule_id).severity in Severity


@pytest.mark.parametrize(("rule_id", "broken"), MORE_BREAKS, ids=[rule_id for rule_id, _ in MORE_BREAKS])
def test_another_break_of_a_rule_is_found_with_what_follows_from_it_and_no_other(
    sound: Callable[[int], StoredTable], rule_id: str, broken: Break
) -> None:
    stored = sound(broken.version)
    broken.change(stored)
    found = stored.findings()
    assert rule_id in {finding.rule for finding in found}
    assert {finding.rule for finding in found} <= {rule_id, *broken.also}, [finding.message for finding in found]


@pytest.mark.parametrize(("bound", "zero"), [("lower_bound", 0.0), ("upper_bound", -0.0)])
def test_a_partition_summary_with_a_zero_of_the_wrong_sign_is_found(tmp_path: Path, bound: str, zero: float) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("x", pa.float64())]), partition_spec=["x"])
    table.append(pa.table({"x": [0.0, -0.0]}))
    stored = StoredTable(Path(table.metadata_location))
    assert stored.findings() == ()
    stored.edit_list(lambda rows: rows[0]["partitions"][0].update({bound: struct.pack("<d", zero)}))
    assert {finding.rule for finding in stored.findings()} == {"manifest-partition-summary"}
