"""Pruning of manifests by their partition summaries: no matching row is lost, and the bound that decides is explained."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, filters, some_columns, truth
from tests.spec.random_files import manifest_of, specs, tables

from icefloe.errors import ManifestFormatError
from icefloe.scan.pruning import explain_manifests, manifest_mask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform, MonthTransform


@settings(max_examples=examples(300))
@given(st.data())
def test_no_manifest_with_a_matching_row_is_skipped(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    groups = [data.draw(tables(spec, columns)) for _ in range(2)]
    expression = data.draw(filters(columns))
    contains_nan = data.draw(st.sampled_from([True, None]))
    bound = bind(expression, SCHEMA)
    manifests = [manifest_of(files, spec, contains_nan) for files in groups]
    mask = manifest_mask(manifests, bound, {spec.spec_id: spec}, SCHEMA)
    explanations = explain_manifests(manifests, bound, {spec.spec_id: spec}, SCHEMA)
    for files, keep, explanation in zip(groups, mask, explanations, strict=True):
        assert keep or not any(truth(expression, row) is True for file in files for row in file.rows), (str(bound), files)
        assert not keep or explanation == ""
        assert "unknown" not in explanation


MONTHLY = PartitionSpec(
    PartitionField(7, 1000, MonthTransform(), "time_hour_month"), PartitionField(3, 1001, IdentityTransform(), "origin")
)


def manifest(*summaries, spec_id=0):
    return ManifestFile(
        manifest_path="m.avro", manifest_length=1, partition_spec_id=spec_id, added_snapshot_id=1, partitions=tuple(summaries) or None
    )


def months(lower, upper, *, null=False):
    return PartitionFieldSummary(null, False, struct.pack("<i", lower), struct.pack("<i", upper))


EWR_TO_JFK = PartitionFieldSummary(False, None, b"EWR", b"JFK")
ONLY_NULL = PartitionFieldSummary(True, False, None, None)
FLAGLESS = PartitionFieldSummary(False, False, None, None)


@pytest.mark.parametrize(
    ("text", "summaries", "explanation"),
    [
        ("t >= '2013-06-01'", (months(516, 518), EWR_TO_JFK), "partition time_hour_month: upper 2013-03 < 2013-06"),
        ("t < '2013-01-01'", (months(516, 518), EWR_TO_JFK), "partition time_hour_month: lower 2013-01 > 2012-12"),
        ("s = 'LGA'", (months(516, 518), EWR_TO_JFK), "partition origin: upper 'JFK' < 'LGA'"),
        ("s IS NULL", (months(516, 518), EWR_TO_JFK), "partition origin: no nulls"),
        ("s = 'LGA'", (months(516, 518), ONLY_NULL), "partition origin: only nulls"),
        ("t < '2013-01-01' OR s = 'A'", (months(516, 518), EWR_TO_JFK),
         "partition time_hour_month: lower 2013-01 > 2012-12 and partition origin: lower 'EWR' > 'A'"),
    ],
)  # fmt: skip
def test_a_manifest_is_skipped_by_the_summary_that_decides(text, summaries, explanation):
    assert explain_manifests([manifest(*summaries)], bind(parse_filter(text), SCHEMA), {0: MONTHLY}, SCHEMA) == [explanation]


@pytest.mark.parametrize(
    ("text", "summaries"),
    [
        ("t >= '2013-06-01'", ()),
        ("t >= '2013-06-01'", (months(516, 518),)),  # not as many summaries as fields
        ("t >= '2013-03-31'", (months(516, 518), EWR_TO_JFK)),
        ("t IS NULL", (months(516, 518, null=True), EWR_TO_JFK)),
        ("s = 'LGA'", (months(516, 518), FLAGLESS)),
        ("s != 'EWR'", (months(516, 518), PartitionFieldSummary(True, False, b"EWR", b"EWR"))),
        ("i = 1", (months(516, 518), EWR_TO_JFK)),
        ("s = 'A' OR i = 1", (months(516, 518), EWR_TO_JFK)),
        ("s = 'LGA'", (months(516, 518), PartitionFieldSummary(False, False, b"EWR", b"\xff\xfe"))),
    ],
)
def test_what_a_summary_does_not_rule_out_is_kept(text, summaries):
    assert manifest_mask([manifest(*summaries)], bind(parse_filter(text), SCHEMA), {0: MONTHLY}, SCHEMA).tolist() == [True]


@pytest.mark.parametrize(("contains_nan", "kept"), [(None, True), (True, True), (False, False)])
def test_nan_that_a_summary_does_not_rule_out_is_above_its_upper_bound(contains_nan, kept):
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "f"))
    summary = PartitionFieldSummary(False, contains_nan, struct.pack("<d", 1.0), struct.pack("<d", 2.0))
    assert manifest_mask([manifest(summary)], bind(parse_filter("f > 5"), SCHEMA), {0: spec}, SCHEMA).tolist() == [kept]


def test_each_manifest_is_tested_with_its_own_spec():
    bucketed = PartitionSpec(PartitionField(1, 1002, BucketTransform(8), "i_bucket"), spec_id=1)
    bucket = BucketTransform(8).apply(SCHEMA.find_type("i"), 5)
    other = struct.pack("<i", (bucket + 1) % 8)
    manifests = [
        manifest(PartitionFieldSummary(False, False, other, other), spec_id=1),
        manifest(months(516, 518), EWR_TO_JFK),
        manifest(PartitionFieldSummary(False, False, struct.pack("<i", bucket), struct.pack("<i", bucket)), spec_id=1),
    ]
    mask = manifest_mask(manifests, bind(parse_filter("i = 5"), SCHEMA), {0: MONTHLY, 1: bucketed}, SCHEMA)
    assert mask.tolist() == [False, True, True]


def test_an_unknown_partition_spec_is_named():
    with pytest.raises(ManifestFormatError, match=r"m\.avro .*partition spec 9"):
        manifest_mask([manifest(spec_id=9)], bind(parse_filter("i = 5"), SCHEMA), {0: MONTHLY}, SCHEMA)
