"""Decisions of a plan are made when they are read, and are those of a test of each file at once."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.scan.test_scan_planner import BY_MONTH, MARCH, Warehouse, added, data_file
from tests.spec.brute_force import SCHEMA, filters, some_columns
from tests.spec.random_files import columns_of, specs, tables

from icefloe.scan import decisions as module
from icefloe.scan.decisions import DecidedFiles, Decision, DecisionList, Decisions, Reason
from icefloe.scan.pruning import FileMetricsEvaluator, explain
from icefloe.spec.expressions.bind import bind
from icefloe.spec.manifest.manifest_columns import ManifestColumns

FILES = 3_000


def decision(level: str, number: int, *, kept: bool) -> Decision:
    return Decision(level=level, path=str(number), kept=kept, reason=Reason.MAY_MATCH, explanation="", bytes=number, records=number)


def decided_files(paths: list[str], kept: list[bool]) -> DecidedFiles:
    lengths = pa.array(range(len(paths)), pa.int64())
    return DecidedFiles(
        level="file",
        files=pa.table({"file_path": pa.array(paths, pa.string()), "file_size_in_bytes": lengths, "record_count": lengths}),
        kept=np.array(kept, dtype=bool),
        explained=lambda files, rows: [
            (Reason.MAY_MATCH, f"{path} {row}") for path, row in zip(files["file_path"].to_pylist(), rows, strict=True)
        ],
        partitions=lambda files: files["file_path"].to_pylist(),
    )


def made(source: DecidedFiles) -> list[Decision]:
    """Make the decisions about all files, one after another."""
    return [
        Decision(
            level="file",
            path=path,
            kept=bool(source.kept[row]),
            reason=Reason.MAY_MATCH,
            explanation=f"{path} {row}",
            bytes=row,
            records=row,
            partition=path,
        )
        for row, path in enumerate(source.files["file_path"].to_pylist())
    ]


@settings(max_examples=examples(100))
@given(st.data())
def test_decisions_are_those_of_all_sources_in_the_order_of_their_keys(data: Any) -> None:
    outcomes = data.draw(st.lists(st.lists(st.booleans(), max_size=6), min_size=1, max_size=4))
    sources: list[Any] = []
    expected: list[tuple[int, Decision]] = []
    for number, kept in enumerate(outcomes):
        keys = data.draw(st.lists(st.integers(0, 5), min_size=len(kept), max_size=len(kept)))
        if data.draw(st.booleans()):
            source: Any = decided_files([f"{number}/{row}" for row in range(len(kept))], kept)
            eager = made(source)
        else:
            eager = [decision("manifest", row, kept=keep) for row, keep in enumerate(kept)]
            source = DecisionList(level="manifest", entries=eager)
        sources.append((source, np.array(keys, dtype=np.int64)))
        expected += zip(keys, eager, strict=True)
    expected.sort(key=lambda pair: pair[0])
    lazy, listed = Decisions.in_order(sources), [one for _, one in expected]
    part = data.draw(st.slices(len(listed)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEP", 2)
        assert list(lazy) == listed
        assert list(lazy[part]) == listed[part]
    assert lazy == tuple(listed)
    assert [lazy[index] for index in range(-len(lazy), len(lazy))] == listed * 2
    for level in ("file", "manifest"):
        for kept_only in (True, False):
            of_level = lazy.of_level(level, kept=kept_only)
            assert list(of_level) == [one for one in listed if one.level == level and one.kept is kept_only]


@settings(max_examples=examples(200))
@given(st.data())
def test_the_explanation_of_some_files_is_that_of_the_test_of_all(data: Any) -> None:
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    files = data.draw(tables(spec, columns))
    bound = bind(data.draw(filters(columns)), SCHEMA)
    table = columns_of(files, spec)
    rows = data.draw(st.lists(st.integers(0, len(files) - 1), max_size=6)) if files else []
    some = ManifestColumns(table.entries.take(pa.array(rows, pa.int64())))
    # Each file is tested again among all of them, so that nothing that an explanation remembers is used.
    whole = [FileMetricsEvaluator(table, bound, spec, SCHEMA).explain(row) for row in rows]
    assert explain(some, bound, spec, SCHEMA) == whole


@pytest.fixture
def many() -> Warehouse:
    """Return a table of two manifests with many files."""
    warehouse = Warehouse()
    for start in (0, FILES // 2):
        files = [added(data_file(f"f{number}", (MARCH, "JFK"), number, number)) for number in range(start, start + FILES // 2)]
        warehouse.add_manifest(f"m{start}.avro", BY_MONTH, files)
    return warehouse


def test_a_plan_makes_no_decision_about_a_file_before_it_is_read(many: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def counted(**facts: Any) -> Decision:
        paths.append(facts["path"])
        return Decision(**facts)

    monkeypatch.setattr(module, "Decision", counted)
    decisions = many.plan("i >= 2000", explain=True).decisions
    skipped = decisions.of_level("file", kept=False)
    assert (len(decisions), len(skipped), len(decisions.of_level("file", kept=True)), paths) == (FILES + 2, 2000, 1000, [])
    assert [(one.path, one.explanation) for one in skipped[1998:]] == [
        ("f1998", "i: upper bound 1998 < 2000"),
        ("f1999", "i: upper bound 1999 < 2000"),
    ]
    assert paths == ["f1998", "f1999"]
    assert [one.path for one in decisions if one.level == "file"] == [f"f{number}" for number in range(FILES)]


def test_the_reason_is_that_of_the_test_where_bounds_contradict_the_partition() -> None:
    warehouse = Warehouse()
    odd = replace(data_file("odd", (MARCH, "JFK"), 0, 9), lower_bounds={3: b"A"}, upper_bounds={3: b"B"})
    warehouse.add_manifest("m.avro", BY_MONTH, [added(odd)])
    plan = warehouse.plan("s = 'JFK'", explain=True, include_statistics=True)
    (decision_about_file,) = plan.decisions.of_level("file", kept=False)
    assert (decision_about_file.reason, decision_about_file.explanation) == (Reason.BY_METRICS, "s: upper bound 'B' < 'JFK'")


def test_files_of_each_round_of_a_plan_of_enough_rows_follow_their_manifest(many: Warehouse) -> None:
    rows_of_a_manifest = 10 * FILES // 2
    paths = [one.path for one in many.plan("i >= 0", explain=True, enough_rows=rows_of_a_manifest + 1).decisions]
    half = [f"f{number}" for number in range(FILES // 2)]
    assert paths == ["m0.avro", *half, f"m{FILES // 2}.avro", *(f"f{number}" for number in range(FILES // 2, FILES))]


def test_manifests_behind_enough_rows_are_not_counted_as_read(many: Warehouse) -> None:
    plan = many.plan("i >= 0", explain=True, enough_rows=1)
    assert (plan.manifests_total, plan.manifests_read, plan.files_in_skipped_manifests) == (2, 1, FILES // 2)
    first, last = (one for one in plan.decisions if one.level == "manifest")
    assert (plan.manifest_bytes_read, plan.manifest_bytes_skipped) == (first.bytes, last.bytes)
    assert (last.path, last.kept, last.reason) == (f"m{FILES // 2}.avro", False, Reason.ENOUGH_ROWS)


def test_an_explained_plan_can_be_pickled(many: Warehouse) -> None:
    for plan in (many.plan("i >= 2000", explain=True), many.plan("i >= 2000").explain()):
        assert list(pickle.loads(pickle.dumps(plan)).decisions[:3]) == list(plan.decisions[:3])
