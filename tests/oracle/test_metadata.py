"""Metadata, updates, requirements and views as JSON: the parsers of Java and PyIceberg read what Icefloe writes, and write what Icefloe reads."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.spec.metadata.made_up_tables import START, with_snapshots
from tests.spec.metadata.test_update_json import REQUIREMENTS, UPDATES
from tests.spec.view.test_view import UPDATES as VIEW_UPDATES
from tests.spec.view.test_view import document as view_document
from tests.spec.view.test_view import read as read_view

from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.requirement import requirement_from_json
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import SetSnapshotRef
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsBlob, StatisticsFile
from icefloe.spec.metadata.statistics_updates import SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import AddEncryptionKey
from icefloe.spec.metadata.update_json import update_from_json
from icefloe.spec.view.view_metadata_json import read_view_metadata
from icefloe.spec.view.view_updates import view_update_from_json, view_update_to_json

pytestmark = pytest.mark.oracle
Run = Callable[..., str]

JAVA = """
import json
iceberg = spark._jvm.org.apache.iceberg
parsers = {
    "table": iceberg.TableMetadataParser,
    "update": iceberg.MetadataUpdateParser,
    "requirement": getattr(iceberg, "UpdateRequirementParser", None) or iceberg.rest.requests.UpdateRequirementParser,
    "view": iceberg.view.ViewMetadataParser,
}
for line in open(sys.argv[1] + "/documents.jsonl"):
    kind, text = json.loads(line)
    parser = parsers[kind]
    print("{" + json.dumps(kind) + ": " + parser.toJson(parser.fromJson(text)) + "}")
"""
PYICEBERG = """
import sys
from pydantic import BaseModel
from pyiceberg.table.metadata import TableMetadataUtil
for path in sys.argv[1:]:
    # Its own method refuses to write version 3; the model behind it does not.
    print(BaseModel.model_dump_json(TableMetadataUtil.parse_raw(open(path).read()), by_alias=True, exclude_none=True))
"""


def tables() -> list[TableMetadata]:
    """Return the metadata of a table of each version, with everything that the version has."""
    made = []
    for version in (1, 2, 3):
        # PyIceberg accepts no other type of blob, and no malformed uuid.
        blob = StatisticsBlob(type="apache-datasketches-theta-v1", snapshot_id=2, sequence_number=2, fields=(1,), properties={"ndv": "2"})
        updates: list[Any] = [
            SetSnapshotRef("gold", SnapshotRef(snapshot_id=2, type="tag", max_ref_age_ms=5)),
            SetSnapshotRef("b", SnapshotRef(snapshot_id=1, min_snapshots_to_keep=1, max_snapshot_age_ms=2)),
            SetStatistics(
                StatisticsFile(snapshot_id=2, statistics_path="s", file_size_in_bytes=9, file_footer_size_in_bytes=4, blob_metadata=(blob,))
            ),
            SetPartitionStatistics(PartitionStatisticsFile(snapshot_id=2, statistics_path="p", file_size_in_bytes=9)),
        ]
        if version > 2:
            updates.append(AddEncryptionKey(EncryptedKey(key_id="k", encrypted_key_metadata="QQ==", encrypted_by_id="m")))
        made.append(apply_updates(with_snapshots(3, version), updates, START + 50))
        made.append(with_snapshots(0, version))
    return [replace(one, table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1") for one in made]


def test_java_reads_what_is_written_and_writes_the_same(java_script: Run, tmp_path: Path) -> None:
    metadata = tables()
    documents = [("table", write_table_metadata(one).decode()) for one in metadata]
    documents += [("update", json.dumps(shown)) for _, shown in UPDATES]
    documents += [("update", json.dumps(view_update_to_json(update))) for update, _ in VIEW_UPDATES]
    documents += [("requirement", json.dumps(shown)) for _, shown in REQUIREMENTS]
    documents += [("view", json.dumps(view_document()))]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    answered = [json.loads(line) for line in java_script(JAVA, str(tmp_path)).splitlines() if line.startswith("{")]
    assert len(answered) == len(documents)
    found: dict[str, list[Any]] = {kind: [reply[kind] for reply in answered if kind in reply] for kind, _ in documents}
    assert [read_table_metadata(json.dumps(one).encode(), "java") for one in found["table"]] == metadata
    assert [read_view_metadata(json.dumps(one).encode(), "java") for one in found["view"]] == [read_view(view_document())]
    assert [requirement_from_json(one) for one in found["requirement"]] == [made for made, _ in REQUIREMENTS]
    mine = [shown for _, shown in UPDATES]
    for shown, java in zip(mine, found["update"], strict=False):
        # Java does not keep a last column id, and writes the highest of the schema.
        assert update_from_json({**java, "last-column-id": None}) == update_from_json({**shown, "last-column-id": None})
    for (update, _), java in zip(VIEW_UPDATES, found["update"][len(mine) :], strict=True):
        assert view_update_from_json({**java, "last-column-id": None}) == update


def test_pyiceberg_reads_what_is_written_and_writes_the_same(pyiceberg: Run, tmp_path: Path) -> None:
    metadata = [one for one in tables() if one.format_version > 1]
    paths = [tmp_path / f"{number}.json" for number in range(len(metadata))]
    for path, one in zip(paths, metadata, strict=True):
        path.write_bytes(write_table_metadata(one))
    answered = pyiceberg(PYICEBERG, *map(str, paths)).splitlines()
    for mine, line in zip(metadata, answered, strict=True):
        theirs = read_table_metadata(line.encode(), "pyiceberg")
        assert (theirs.format_version, theirs.table_uuid, theirs.refs) == (mine.format_version, mine.table_uuid, mine.refs)
        assert [(snapshot.snapshot_id, snapshot.first_row_id, snapshot.added_rows) for snapshot in theirs.snapshots] == [
            (snapshot.snapshot_id, snapshot.first_row_id, snapshot.added_rows) for snapshot in mine.snapshots
        ]
        assert theirs.next_row_id == mine.next_row_id
        assert list(theirs.statistics) == list(mine.statistics)
        assert list(theirs.partition_statistics) == list(mine.partition_statistics)
