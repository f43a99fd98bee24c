"""A Spark SQL job: a table, a day of events, a MERGE of corrections, and a report. Run it as a script, or with spark-submit.

python spark_sql_job.py
"""

import icefloe.spark
from icefloe import load_catalog


def main() -> None:
    """Run the job in the folder where it starts."""
    catalog = load_catalog("lake", uri="lake.db", warehouse="lake")
    spark = icefloe.spark.session(catalogs={"lake": catalog})
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    spark.sql("CREATE TABLE IF NOT EXISTS lake.shop.events (id BIGINT, kind STRING, ts TIMESTAMP) USING iceberg PARTITIONED BY (days(ts))")
    spark.range(1000).selectExpr("id", "if(id % 3 = 0, 'view', 'buy') AS kind", "TIMESTAMP '2024-05-01 00:00:00' AS ts").writeTo(
        "lake.shop.events"
    ).append()
    spark.range(990, 1010).selectExpr("id", "'refund' AS kind", "TIMESTAMP '2024-05-02 00:00:00' AS ts").createOrReplaceTempView(
        "corrections"
    )
    spark.sql("""
        MERGE INTO lake.shop.events t USING corrections s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET kind = s.kind
        WHEN NOT MATCHED THEN INSERT *""")
    spark.sql("SELECT kind, count(*) AS events FROM lake.shop.events GROUP BY kind ORDER BY kind").show()
    spark.sql("SELECT committed_at, operation, summary['total-records'] AS records FROM lake.shop.events.snapshots").show(truncate=False)


if __name__ == "__main__":
    main()
