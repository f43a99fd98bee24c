"""`icefloe validate`: its exit codes, `--fail-on`, and SARIF that has the shape of its published schema."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.cli.conftest import Command
from tests.validation.stored_table import StoredTable

# The properties that the SARIF 2.1.0 schema allows for each kind of object that is written here, and those that it requires.
SHAPES: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"$schema", "version", "runs", "properties"}, {"version", "runs"}),
    "run": ({"tool", "results", "artifacts", "invocations", "properties"}, {"tool"}),
    "driver": ({"name", "version", "informationUri", "rules", "properties"}, {"name"}),
    "rule": ({"id", "name", "shortDescription", "fullDescription", "help", "helpUri", "defaultConfiguration", "properties"}, {"id"}),
    "result": ({"ruleId", "ruleIndex", "level", "message", "locations", "properties"}, {"message"}),
    "location": ({"id", "physicalLocation", "logicalLocations", "message", "properties"}, set()),
    "logical": ({"name", "index", "fullyQualifiedName", "decoratedName", "parentIndex", "kind", "properties"}, set()),
}
LEVELS = {"none", "note", "warning", "error"}


def has_shape(kind: str, value: dict[str, Any]) -> None:
    allowed, required = SHAPES[kind]
    assert value.keys() <= allowed, kind
    assert required <= value.keys(), kind


@pytest.fixture
def stored(tmp_path: Path) -> StoredTable:
    """Return a table in a folder whose name has characters that a URI must not have."""
    folder = tmp_path / "a lake #1 100%"
    folder.mkdir()
    return StoredTable.written(folder)


def test_a_sound_table_is_no_fault_and_its_sarif_has_no_result(icefloe: Command, stored: StoredTable) -> None:
    assert icefloe("validate", stored.metadata).exit_code == 0
    result = icefloe("validate", stored.metadata, "--sarif")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"][0]["results"] == []


def test_sarif_has_the_shape_of_its_schema_and_names_files_by_uris(icefloe: Command, stored: StoredTable) -> None:
    stored.edit(lambda document: document.update({"last-sequence-number": 2, "location": "relative/\x1b[31m\n<b>"}))
    stored.manifests()[0].unlink()
    result = icefloe("validate", stored.metadata, "--sarif")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    has_shape("log", document)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    has_shape("run", run)
    driver = run["tool"]["driver"]
    has_shape("driver", driver)
    for rule in driver["rules"]:
        has_shape("rule", rule)
        assert rule["defaultConfiguration"]["level"] in LEVELS
        assert rule["shortDescription"]["text"]
    assert len(run["results"]) >= 3
    for one in run["results"]:
        has_shape("result", one)
        assert one["level"] in LEVELS
        assert driver["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["message"]["text"].isprintable()
        for location in one["locations"]:
            has_shape("location", location)
            for logical in location["logicalLocations"]:
                has_shape("logical", logical)
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert uri.isascii()
            assert not set(uri) & set(' #"<>\\^`{|}\n')
            assert urlsplit(uri).path == uri
            assert str(stored.metadata.parents[2]) in unquote(uri)


@pytest.mark.parametrize(("least", "of_warning", "of_error"), [("error", 0, 1), ("warning", 1, 1), ("note", 1, 1), ("never", 0, 0)])
def test_the_exit_code_depends_on_the_severity_of_fail_on(
    icefloe: Command, stored: StoredTable, least: str, of_warning: int, of_error: int
) -> None:
    stored.edit(lambda document: document["snapshots"][-1]["summary"].update({"total-records": "99"}))
    assert icefloe("validate", stored.metadata, "--fail-on", least).exit_code == of_warning
    stored.edit(lambda document: document.update({"last-sequence-number": 2}))
    assert icefloe("validate", stored.metadata, "--fail-on", least).exit_code == of_error


def test_json_has_the_findings_and_two_forms_at_once_are_refused(icefloe: Command, stored: StoredTable) -> None:
    stored.edit(lambda document: document.update({"last-sequence-number": 2}))
    found = json.loads(icefloe("validate", stored.metadata, "--json").stdout)
    assert [finding["rule"] for finding in found["tables"][0]["findings"]] == ["last-sequence-number"]
    assert icefloe("validate", stored.metadata, "--json", "--sarif").exit_code == 1
    assert icefloe("validate", stored.metadata, "--fail-on", "sometimes").exit_code == 2
    assert icefloe("validate", "--snapshot", "main").exit_code == 1
