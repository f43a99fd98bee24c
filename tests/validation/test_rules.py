"""Each rule of `icefloe.validation` is found where it is broken, and only there; a table that Icefloe wrote breaks none."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.validation.breaks import BREAKS
from tests.validation.file_breaks import FILE_BREAKS
from tests.validation.stored_table import StoredTable
from tests.validation.test_catalog_validation import CATALOG_BREAKS

from icefloe.kernel.tolerance import Deviation
from icefloe.validation.finding import Severity
from icefloe.validation.rules import RULES, rule_named


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
