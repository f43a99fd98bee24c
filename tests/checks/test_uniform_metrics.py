"""`statistics_are_clean` is only a quick way to the findings of `metrics_rules`: whatever it passes has none."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.checks import metrics_rules
from icefloe.checks.entry_rules import EntryReport
from icefloe.checks.finding import Findings
from icefloe.checks.manifest_entries import METRICS, ManifestEntries
from icefloe.checks.metrics_rules import MetricsContext, check_metrics
from icefloe.checks.uniform_metrics import statistics_are_clean
from icefloe.spec.manifest.manifest_columns import WHOLE_FIELDS
from icefloe.spec.types import DateType, DoubleType, LongType, PrimitiveType, StringType, TimestampType

TYPES: dict[int, PrimitiveType] = {1: LongType(), 2: DoubleType(), 3: StringType(), 4: LongType(), 5: TimestampType(), 6: DateType()}
CONTEXT = MetricsContext(types=TYPES, field_ids=frozenset(TYPES), top_level_ids=frozenset({1, 2, 3}))
COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
longs = st.sampled_from([struct.pack("<q", number) for number in (-5, 0, 7)])
BOUNDS = {
    1: longs,
    2: st.sampled_from([struct.pack("<d", number) for number in (-1.5, -0.0, 0.0, 2.5)]),
    3: st.sampled_from([b"", b"a", "\u00e9".encode()]),
    4: longs,
    5: longs,
    6: st.sampled_from([struct.pack("<i", number) for number in (-5, 7)]),
}
ODD_BOUNDS = st.sampled_from([struct.pack("<d", float("nan")), b"\xff", struct.pack("<i", 9), b"", None])


def sometimes(draw: Any) -> bool:
    return bool(draw(st.integers(0, 24)) == 0)


@st.composite
def manifests(draw: Any) -> list[dict[str, Any]]:
    """Return entries that mostly have the same fields with right values, and sometimes other ones."""
    ids = draw(st.lists(st.sampled_from(list(TYPES)), unique=True, min_size=1))
    entries = []
    for _ in range(draw(st.integers(1, 4))):
        records = draw(st.integers(0, 9))
        entry: dict[str, Any] = {"record_count": records, "content": draw(st.sampled_from([0, 0, 0, 1, 2]))}
        for name in METRICS:
            mine = draw(st.permutations(ids)) if sometimes(draw) else ids
            mine = [*mine, draw(st.sampled_from([1, 9, 2147483546]))] if sometimes(draw) else mine
            values = []
            for field_id in mine:
                if name in COUNTS:
                    value = (
                        draw(st.sampled_from([-1, 3, None]))
                        if sometimes(draw)
                        else records
                        if name == "value_counts"
                        else draw(st.integers(0, records))
                    )
                else:
                    value = draw(ODD_BOUNDS) if sometimes(draw) or field_id not in BOUNDS else draw(BOUNDS[field_id])
                values.append((field_id, value))
            entry[name] = None if sometimes(draw) else values
        if draw(st.booleans()):  # mostly in order
            for place, (field_id, _) in enumerate(entry["lower_bounds"] or []):
                upper = dict(entry["upper_bounds"] or [])
                if field_id in upper:
                    entry["lower_bounds"][place] = (field_id, upper[field_id])
        entries.append(entry)
    return entries


def entries_of(rows: list[dict[str, Any]]) -> ManifestEntries:
    columns: dict[str, Any] = {
        "file_path": pa.array([f"/f{place}" for place in range(len(rows))]),
        "record_count": pa.array([row["record_count"] for row in rows], pa.int64()),
        "content": pa.array([row["content"] for row in rows], pa.int32()),
    }
    for name in METRICS:
        columns[name] = pa.array([row[name] for row in rows], WHOLE_FIELDS.field(name).type)
    return ManifestEntries(columns, (), len(rows), 1, None)


def findings_of(entries: ManifestEntries) -> Findings:
    findings = Findings()
    check_metrics(EntryReport(findings, entries, "/m.avro", 1), CONTEXT)
    return findings


@given(manifests())
@settings(max_examples=examples(400))
def test_the_quick_test_changes_no_finding(rows: list[dict[str, Any]]) -> None:
    quick = findings_of(entries_of(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_rules, "statistics_are_clean", lambda *_: False)
        whole = findings_of(entries_of(rows))
    assert quick.counts == whole.counts
    assert quick.kept == whole.kept


def test_sound_uniform_statistics_are_passed_by_the_quick_test() -> None:
    pair = struct.pack("<q", 3)
    row = {
        "record_count": 2,
        "content": 0,
        "value_counts": [(1, 2), (4, 9)],
        "null_value_counts": [(4, 0), (1, 1)],
        "nan_value_counts": None,
    }
    entries = entries_of([{**row, "lower_bounds": [(1, pair)], "upper_bounds": [(1, pair)]}] * 3)
    assert statistics_are_clean(entries, CONTEXT.bound_types, CONTEXT.field_ids, CONTEXT.top_level_ids)
