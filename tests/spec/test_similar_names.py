"""Which unknown names count as misspellings of known ones."""

import pytest
from tests.java_names import TABLE_PROPERTIES

from icefloe.similar_names import similar_name
from icefloe.spec.metadata.table_properties import KNOWN_NAMES


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("write.parquet.compresion-codec", "write.parquet.compression-codec"),
        ("write.parquet.compression_codec", "write.parquet.compression-codec"),
        ("write.format.defualt", "write.format.default"),
        ("wirte.format.default", "write.format.default"),
        ("Write.Delete.Mode", "write.delete.mode"),
        ("format_version", "format-version"),
        ("comit.retry.num-retries", "commit.retry.num-retries"),
        ("write.metadata.metric.column.id", "write.metadata.metrics.column."),
    ],
)
def test_a_misspelling_has_its_known_name(written: str, meant: str) -> None:
    assert similar_name(written, KNOWN_NAMES) == meant


@pytest.mark.parametrize(
    "name", ["owner", "comment", "team", "quality.rules", "dbt.model", "write.metadata.metrics.column.any", "write.own-tool.batch", ""]
)
def test_names_of_the_user_are_no_misspellings(name: str) -> None:
    assert similar_name(name, KNOWN_NAMES) is None


@pytest.mark.parametrize("name", [name + ("c" if name.endswith(".") else "") for name in TABLE_PROPERTIES])
def test_every_property_of_java_is_known(name: str) -> None:
    assert similar_name(name, KNOWN_NAMES) is None


def test_a_name_of_another_first_part_is_compared_with_names_of_that_part() -> None:
    assert similar_name("gcs.endpoint", ["s3.endpoint", "gcs.project-id"]) is None
    assert similar_name("s3.endpont", ["s3.endpoint", "gcs.project-id"]) == "s3.endpoint"


def test_a_beginning_is_compared_without_the_name_that_the_user_chose() -> None:
    for name in ("snapshot-propertie.job", "snapshot-propety.a", "Snapshot_Propertys.a.longer.name"):
        assert similar_name(name, ["branch", "snapshot-property."]) == "snapshot-property."
    assert similar_name("snapshots.job", ["branch", "snapshot-property."]) is None
