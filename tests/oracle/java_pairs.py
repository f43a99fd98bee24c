"""A script for the Python of the Java oracle: every pair of `tests/table/isolation_pairs.py` through Java's own core API, one JSON object for each pair.

`test_isolation.py` reads this file as text, since it runs in another environment, where `spark` is the session of the oracle.
"""

import json
import tempfile

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

spark = globals()["spark"]
jvm = spark._jvm
iceberg = jvm.org.apache.iceberg
gateway = spark.sparkContext._gateway
IN_A = iceberg.expressions.Expressions.equal("name", "a")
tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
schema = iceberg.SchemaParser.fromJson(
    '{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": false, "type": "long"},'
    ' {"id": 2, "name": "name", "required": false, "type": "string"}]}'
)
spec = iceberg.PartitionSpec.builderFor(schema).identity("name").build()


def rows(path, name):
    return (
        iceberg.DataFiles.builder(spec)
        .withPath(path)
        .withFormat("parquet")
        .withFileSizeInBytes(1000)
        .withRecordCount(10)
        .withPartitionPath(f"name={name}")
        .build()
    )


def deletes(path):
    return (
        iceberg.FileMetadata.deleteFileBuilder(spec).withPath(path).withFileSizeInBytes(1000).withRecordCount(1).withPartitionPath("name=a")
    )


def keys(path):
    ids = gateway.new_array(jvm.int, 1)
    ids[0] = 1
    return deletes(path).withFormat("parquet").ofEqualityDeletes(ids).build()


def marks(path, version):
    made = deletes(path).ofPositionDeletes().withReferencedDataFile("old")
    if version > 2:
        return made.withFormat("puffin").withContentOffset(4).withContentSizeInBytes(41).build()
    return made.withFormat("parquet").build()


class Plan:
    def __init__(self, table, level, who, version):
        self.table, self.is_serializable, self.who, self.version = table, level == "serializable", who, version
        self.since = table.currentSnapshot().snapshotId()

    def new(self):
        return rows(f"new-{self.who}", "a")

    def checked(self, change, data, no_deletes):
        change.validateFromSnapshot(self.since)
        if self.is_serializable:
            getattr(change, data)()
        getattr(change, no_deletes)()
        return change

    def overwritten(self, change):
        return self.checked(change, "validateNoConflictingData", "validateNoConflictingDeletes")

    def row_delta(self):
        change = self.table.newRowDelta().conflictDetectionFilter(IN_A)
        return self.checked(change, "validateNoConflictingDataFiles", "validateNoConflictingDeleteFiles")

    def positions(self):
        required = jvm.java.util.Collections.singletonList("old")
        change = self.row_delta().addDeletes(marks(f"marks-{self.who}", self.version))
        return change.validateDataFilesExist(required).validateDeletedFiles()

    def rewrite(self):
        return self.table.newRewrite().deleteFile(OLD).addFile(self.new()).validateFromSnapshot(self.since)

    def expire(self):
        change = self.table.expireSnapshots().cleanExpiredFiles(False)
        gone = [snapshot.snapshotId() for snapshot in self.table.snapshots()][: None if self.who == "first" else 1]
        if self.who == "first":
            self.table.newFastAppend().appendFile(rows("unrelated-0", "b")).commit()
            gone.append(self.table.currentSnapshot().snapshotId())
            self.table.newFastAppend().appendFile(rows("unrelated-1", "b")).commit()
        for snapshot_id in gone:
            change.expireSnapshotId(snapshot_id)
        return change


OLD = rows("old", "a")
OPERATIONS = {
    "fast append": lambda plan: plan.table.newFastAppend().appendFile(plan.new()),
    "merge append": lambda plan: plan.table.newAppend().appendFile(plan.new()),
    "overwrite by files": lambda plan: plan.overwritten(
        plan.table.newOverwrite().deleteFile(OLD).addFile(plan.new()).conflictDetectionFilter(IN_A)
    ),
    "overwrite by filter": lambda plan: plan.overwritten(plan.table.newOverwrite().overwriteByRowFilter(IN_A).addFile(plan.new())),
    "replace partitions": lambda plan: plan.overwritten(plan.table.newReplacePartitions().addFile(plan.new())),
    "delete by filter": lambda plan: plan.table.newDelete().deleteFromRowFilter(IN_A),
    "delete files": lambda plan: plan.table.newDelete().deleteFile(OLD).validateFilesExist(),
    "row delta: rows": lambda plan: plan.row_delta().addRows(plan.new()),
    "row delta: positions": lambda plan: plan.positions(),
    "row delta: keys": lambda plan: plan.row_delta().addDeletes(keys(f"keys-{plan.who}")),
    "rewrite": lambda plan: plan.rewrite(),
    "rewrite, age kept": lambda plan: plan.rewrite().dataSequenceNumber(1),
    "properties": lambda plan: plan.table.updateProperties().set(f"key-{plan.who}", "1"),
    "schema": lambda plan: plan.table.updateSchema().addColumn(f"column_{plan.who}", iceberg.types.Types.LongType.get()),
    "partition spec": lambda plan: plan.table.updateSpec().addField(f"bucket_{plan.who}", iceberg.expressions.Expressions.bucket("id", 4)),
    "expire": lambda plan: plan.expire(),
}


def live(table):
    found = {}
    tasks = table.newScan().planFiles().iterator()
    while tasks.hasNext():
        task = tasks.next()
        found[task.file().location()] = sorted(delete.location() for delete in task.deletes())
    return sorted(found.items())


def run(planned, first, level, version, location):
    properties = {"format-version": str(version), "commit.retry.num-retries": "0"}
    table = tables.create(schema, spec, properties, location)
    table.newFastAppend().appendFile(OLD).appendFile(rows("elsewhere", "b")).commit()
    table.newFastAppend().appendFile(rows("other", "a")).commit()
    change = OPERATIONS[planned](Plan(tables.load(location), level, "second", version))
    OPERATIONS[first](Plan(tables.load(location), level, "first", version)).commit()
    try:
        change.commit()
        refused = ""
    except (Py4JJavaError, CapturedException) as error:
        refused = str(error)
    return {"planned": planned, "first": first, "level": level, "refused": refused, "files": live(tables.load(location))}


# Operations without checks have no isolation level, and only position deletes differ in version 2.
CHECKED = tuple(name for name in OPERATIONS if name.startswith(("overwrite", "replace", "row delta")))
PAIRS = [("serializable", planned, first) for planned in OPERATIONS for first in OPERATIONS]
PAIRS += [("snapshot", planned, first) for planned in CHECKED for first in OPERATIONS]

with tempfile.TemporaryDirectory() as folder:
    for number, (level, planned, first) in enumerate(PAIRS):
        if VERSION > 2 or "row delta: positions" in (planned, first):  # noqa: F821  set before this text
            print(json.dumps(run(planned, first, level, VERSION, f"{folder}/t{number}")), flush=True)  # noqa: F821
