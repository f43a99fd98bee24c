"""Whatever a metadata file, manifest list or manifest holds, validation ends with findings, in little time and memory."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.checks.stored_table import StoredTable
from tests.fuzz import mutate
from tests.repetitions import examples

from icefloe.checks.rules import RULES
from icefloe.checks.table_validation import ValidationArguments, ValidationResult, validate_table
from icefloe.checks.validation import Validation
from icefloe.errors import NoSuchFileError
from icefloe.io.local_file_io import LocalFileIO

CASES = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
IDS = {rule.id for rule in RULES}
# Damage of bytes, and damage within a file that is whole otherwise.
DAMAGE: dict[str, tuple[mutate.Mutate, ...]] = {
    "metadata": (mutate.any_json, mutate.json_or_bytes, mutate.packed_json),
    "manifest list": (mutate.avro, mutate.avro_sizes, mutate.any_bytes),
    "manifest": (mutate.avro, mutate.avro_sizes, mutate.any_bytes),
}


class Damaged:
    """Local storage in which some files have other bytes."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._stored = LocalFileIO()

    def read(self, location: str) -> bytes:
        return self._files[location] if location in self._files else self._stored.read(location)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stored, name)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[int, StoredTable]:
    return {version: StoredTable.written(tmp_path_factory.mktemp(f"v{version}"), version) for version in (1, 2, 3)}


def location_of(stored: StoredTable, kind: str, chance: random.Random) -> str:
    if kind == "metadata":
        return str(stored.metadata)
    if kind == "manifest list":
        return str(chance.choice(stored.lists()))
    return str(chance.choice([*stored.manifests(0), *stored.manifests(1)]))


def checked(stored: StoredTable, files: Mapping[str, bytes]) -> ValidationResult:
    """Validate, and use the result in every form."""
    result = validate_table("t", str(stored.metadata), Damaged(files), ValidationArguments(most_findings=20))  # type: ignore[arg-type]
    assert set(result.counts) <= IDS
    assert all(result.counts[finding.rule] >= 1 for finding in result.findings)
    shown = Validation(name="t", tables=(result,))
    json.loads(shown.to_json())
    json.dumps(shown.to_sarif())
    assert str(shown).startswith("validation of t")
    assert "<script" not in shown._repr_html_()
    return result


@pytest.mark.parametrize("kind", DAMAGE)
@CASES
@example(41992, 1)  # a path that is too long for the file system
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3]))
def test_damage_is_a_finding_or_harmless_and_never_an_exception(tables: dict[int, StoredTable], kind: str, seed: int, version: int) -> None:
    chance = random.Random(seed)
    stored = tables[version]
    location = location_of(stored, kind, chance)
    damage = chance.choice(DAMAGE[kind])
    checked(stored, {location: damage(chance, [Path(location).read_bytes()])})


@CASES
@example(208, 3)  # a partition field id that a spec has twice
@given(st.integers(0, 2**32), st.sampled_from([2, 3]))
def test_damage_of_all_files_at_once_is_no_exception(tables: dict[int, StoredTable], seed: int, version: int) -> None:
    chance = random.Random(seed)
    stored = tables[version]
    files = {}
    for kind in DAMAGE:
        location = location_of(stored, kind, chance)
        files[location] = DAMAGE[kind][0](chance, [Path(location).read_bytes()])
    checked(stored, files)


HOSTILE: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda document: document.update({"schemas": {}, "snapshots": 5, "refs": [], "partition-specs": None, "sort-orders": "x"}),
    lambda document: document.update({"properties": {"schema.name-mapping.default": "[" * 5_000}}),
    lambda document: document["refs"].update({"<script>alert(1)</script>\n\x1b[31m" * 1000: {"snapshot-id": 3, "type": "tag"}}),
    lambda document: document["snapshots"][0].update({"manifest-list": "\x00" + "x" * 100_000}),
    lambda document: document["snapshots"][0].update({"summary": {"total-records": "9" * 100_000, "operation": "<script>"}}),
    lambda document: document.update({"snapshots": [dict(document["snapshots"][0]) for _ in range(3_000)]}),
    lambda document: document["schemas"][0]["fields"].extend(
        {"id": 1, "name": f"c{n}", "required": False, "type": "int"} for n in range(20_000)
    ),
    lambda document: document.update({"last-column-id": 10**30, "last-updated-ms": -(10**18), "current-schema-id": True}),
    lambda document: document["partition-specs"][0]["fields"].append(
        {"source-id": [[]], "transform": "bucket[999999999999]", "name": "", "field-id": -1}
    ),
)


@pytest.mark.parametrize("change", HOSTILE)
def test_a_hostile_value_is_a_finding(tables: dict[int, StoredTable], change: Callable[[dict[str, Any]], object]) -> None:
    stored = tables[2]
    document = stored.document()
    change(document)
    result = checked(stored, {str(stored.metadata): json.dumps(document).encode()})
    assert result.counts
    assert all(len(finding.message) < 2_000 for finding in result.findings)
    assert len(result.findings) <= 20 * len(result.counts)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"5", b"null", b"{}", b"\x1f\x8b\x08", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b'{"format-version": 1e9}'],
)
def test_a_file_that_is_no_metadata_is_a_finding(tables: dict[int, StoredTable], content: bytes) -> None:
    stored = tables[2]
    assert checked(stored, {str(stored.metadata): content}).counts


def test_findings_are_counted_beyond_their_maximum(tables: dict[int, StoredTable]) -> None:
    stored = tables[2]
    document = stored.document()
    document["refs"].update({f"r{n}": {"snapshot-id": 3, "type": "tag"} for n in range(500)})
    result = checked(stored, {str(stored.metadata): json.dumps(document).encode()})
    assert result.counts == {"ref-without-snapshot": 500}
    assert len(result.findings) == 20


def test_a_table_without_its_manifest_lists_has_a_finding_for_each(tables: dict[int, StoredTable]) -> None:
    class Gone(Damaged):
        def read(self, location: str) -> bytes:
            if location.endswith(".avro"):
                raise NoSuchFileError("gone", path=location)
            return super().read(location)

    for stored in tables.values():
        result = validate_table("t", str(stored.metadata), Gone({}))  # type: ignore[arg-type]
        assert set(result.counts) == {"manifest-list-missing"}
        assert result.counts["manifest-list-missing"] == 5
