"""Spark beside the in-process engine on a table whose schema and spec change between the writes: both read the same rows, and Spark writes by the new form."""

from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from tests.oracle.rows import comparable

from icefloe import DecimalType, DoubleType, LongType, SqlCatalog, StringType
from icefloe.table import Table

pytestmark = pytest.mark.spark


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "kind": ["abc"[n % 3] for n in numbers],
            "ratio": pa.array([n / 4 for n in numbers], pa.float32()),
            "price": pa.array([Decimal(n * 25).scaleb(-2) for n in numbers], pa.decimal128(9, 2)),
            "place": pa.array([{"x": n, "y": "y"} for n in numbers], pa.struct([("x", pa.int32()), ("y", pa.string())])),
        }
    )


def on_spark(table: Table, row_filter: str | None = None, snapshot_id: int | None = None) -> list[str]:
    return comparable([row.asDict(recursive=True) for row in table.scan(row_filter, snapshot_id=snapshot_id).to_spark().collect()])


def in_process(table: Table, row_filter: str | None = None, snapshot_id: int | None = None) -> list[str]:
    return comparable(table.scan(row_filter, snapshot_id=snapshot_id).to_arrow().to_pylist())


@pytest.mark.parametrize("version", ["1", "2"])
def test_spark_reads_and_writes_an_evolved_table_as_this_process_does(spark: SparkSession, lake: SqlCatalog, version: str) -> None:
    table = lake.create_table("db.t", rows(0, 1).schema, partition_spec=["kind"], properties={"format-version": version})
    table.append(rows(0, 20))
    with table.update_spec() as spec:
        spec.remove_field("kind").add_field("id", "bucket[3]")
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("ratio", DoubleType()).update_column("price", DecimalType(20, 2))
        update.rename_column("ratio", "rate").rename_column("place.x", "ex").delete_column("place.y").add_column("place.z", StringType())
        update.add_column("ratio", StringType()).move_first("ratio").delete_column("kind")
    with table.update_sort_order() as order:
        order.desc("id")
    frame = spark.sql(
        "select id + 1099511627776 as id, string(id) as ratio, double(id) as rate, decimal(id) as price, "
        "named_struct('ex', int(id), 'z', 'zed') as place from range(5)"
    )
    assert table.append(frame).engine == "spark"
    filters = (None, "id > 15", "rate < 2", "ratio is null", "ratio = '3'", "price = 1.25", "place.ex = 3")
    frames = [table.scan(row_filter).to_spark().withColumn("filter", lit(str(row_filter))) for row_filter in filters]
    found = [row.asDict(recursive=True) for row in reduce(DataFrame.unionAll, frames).collect()]
    for row_filter in filters:
        kept = [{name: row[name] for name in row if name != "filter"} for row in found if row["filter"] == str(row_filter)]
        assert comparable(kept) == in_process(table, row_filter), row_filter
    assert len(in_process(table)) == 25
    assert table.delete("rate = 3 or place.ex = 4").engine == "spark"
    assert on_spark(table) == in_process(table)
    assert len(on_spark(table)) == 21
    first = table.snapshots()[0].snapshot_id
    assert on_spark(table, "kind = 'a'", first) == in_process(table, "kind = 'a'", first)


@pytest.mark.filterwarnings("ignore::icefloe.errors.FormatWarning")  # of another size than its entry states
def test_a_column_without_a_field_id_in_a_file_with_ids_is_null_to_both(spark: SparkSession, lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    table.append(pa.table({"a": [1, 2], "b": ["x", "y"]}))
    (task,) = table.scan().plan_files()
    columns = [pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"}), pa.field("b", pa.string())]
    pq.write_table(pa.table([[1, 2], ["x", "y"]], schema=pa.schema(columns)), task.file.file_path)
    assert on_spark(table) == in_process(table) == comparable([{"a": 1, "b": None}, {"a": 2, "b": None}])
    assert on_spark(table, "b is null and a = 2") == in_process(table, "b is null and a = 2") == []
