"""Random tables, with appends, deletes of every kind and changes of schema and partitioning: Spark's rows are those of the in-process reader."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.comparing import same_rows
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions

from icefloe import DoubleType, LongType, SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark

METADATA = ("_file", "_pos", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")


@pytest.mark.parametrize("seed", range(4))
def test_spark_and_this_process_read_the_same_rows_of_random_tables(spark: SparkSession, lake: SqlCatalog, seed: int) -> None:
    chosen = random.Random(seed)
    version = chosen.choice([2, 3])
    table = lake.create_table(
        "db.t",
        _rows(chosen, ["id", "kind", "value"]).schema,
        partition_spec=chosen.choice([[], ["kind"], ["bucket(2, id)"]]),
        properties={"format-version": str(version)},
    )
    for _ in range(chosen.randint(6, 10)):
        _step(chosen, table)
    columns = [field.name for field in table.schema().fields]
    same_rows(table)
    same_rows(table, "id > 3 AND kind IS NOT NULL", *chosen.sample(columns, 2), *METADATA)
    same_rows(table, "TRUE", "id", "_deleted", "_pos")


def _step(chosen: random.Random, table: Table) -> None:
    match chosen.choice(["append", "append", "positions", "positions", "keys", "form", "schema", "spec", "copy"]):
        case "append":
            table.append(_rows(chosen, [field.name for field in table.schema().fields]))
        case "positions":
            files = [task.file for task in table.scan().plan_files()]
            delete_positions(table, {file.file_path: _some(chosen, file.record_count) for file in files if chosen.random() < 0.6})
        case "keys":
            names = chosen.choice([["id"], ["kind"], ["kind", "id"]])
            delete_keys_everywhere(table, _rows(chosen, names, most=2), names)
        case "form":
            table.set_properties({"write.format.default": chosen.choice(["parquet", "parquet", "orc", "avro"])})
        case "schema":
            with table.update_schema() as update:
                name = f"more_{len(table.schema().fields)}"
                default = 5 if table.format_version == 3 and chosen.random() < 0.7 else None
                update.add_column(name, chosen.choice([LongType(), DoubleType()]), default_value=default)
        case "spec":
            with table.update_spec() as update:
                for field in table.spec().fields:
                    update.remove_field(field.name)
                if not table.spec().fields:
                    update.add_field("kind", "identity", f"kind_{len(table.specs())}")
        case "copy":
            table.delete(f"id = {chosen.randint(0, 9)}")


def _some(chosen: random.Random, count: int) -> list[int]:
    return sorted(chosen.sample(range(count), chosen.randint(0, count // 2)))


def _rows(chosen: random.Random, names: list[str], most: int = 12) -> pa.Table:
    count = chosen.randint(1, most)
    values = {
        "id": pa.array([chosen.choice([None, *range(10)]) for _ in range(count)], pa.int64()),
        "kind": pa.array([chosen.choice([None, "a", "b"]) for _ in range(count)], pa.string()),
    }
    more = pa.array([chosen.choice([None, 1.0, 2.0]) for _ in range(count)], pa.float64())
    found = {name: values.get(name, more) for name in names if name in values or name == "value"}
    return pa.table(found)
