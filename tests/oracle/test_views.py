"""Views in one SQLite file with Java's JdbcCatalog and PyIceberg's SqlCatalog: each makes, changes, renames and drops views that the other reads."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.conftest import ORACLES, run
from tests.oracle.java_jdbc import sqlite_driver

from icefloe import SqlCatalog
from icefloe.errors import NoSuchViewError
from icefloe.spec.view.view_metadata import view_problems

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

COUNTS = pa.schema([("type", pa.string()), ("n", pa.int64())])
SPARK_SQL, TRINO_SQL = "SELECT type, count(*) AS n FROM t GROUP BY type", 'SELECT "type", count(*) AS n FROM t GROUP BY 1'

JAVA = """
import json, sys
sys.path.insert(0, sys.argv[2])
from java_session import session
folder, driver, libraries = sys.argv[1], sys.argv[3], sys.argv[5]
catalog = "spark.sql.catalog.lake"
spark = session(folder, **{
    "spark.driver.extraClassPath": driver,
    "spark.driver.extraJavaOptions": "-Djava.library.path=" + libraries,
    catalog: "org.apache.iceberg.spark.SparkCatalog", catalog + ".type": "jdbc", catalog + ".uri": f"jdbc:sqlite:{folder}/catalog.db",
    catalog + ".warehouse": folder + "/warehouse", catalog + ".cache-enabled": "false", catalog + ".clients": "1",
})
iceberg = spark._jvm.org.apache.iceberg
# Spark's own catalog object: its driver keeps a read lock on the file, and another pool of the same process would wait for the lock forever.
jdbc = spark._jsparkSession.sessionState().catalogManager().catalog("lake").icebergCatalog()
parse, db = iceberg.catalog.TableIdentifier.parse, iceberg.catalog.TableIdentifier.parse("db.x").namespace()
schema = lambda shown: iceberg.SchemaParser.fromJson(shown)
results = {}
def rows(sql):
    return [list(row) for row in spark.sql(sql).collect()]
def refused(do):
    try:
        do()
    except Exception as error:
        return str(getattr(error, "java_exception", error))
def shown(name):
    view = jdbc.loadView(parse(name))
    return {
        "uuid": str(view.uuid()), "location": view.location(), "properties": dict(view.properties()),
        "versions": [version.versionId() for version in view.versions()], "history": [entry.versionId() for entry in view.history()],
        "current": view.currentVersion().versionId(), "columns": [field.name() for field in view.schema().columns()],
        "ids": [field.fieldId() for field in view.schema().columns()],
        "namespace": view.currentVersion().defaultNamespace().toString(), "catalog": view.currentVersion().defaultCatalog(),
        "engine": view.currentVersion().summary()["engine-name"],
        "sql": {dialect: [view.sqlFor(dialect).dialect(), view.sqlFor(dialect).sql()] for dialect in ("spark", "TRINO", "duckdb")},
    }
# Read views of another engine.
results["selected"] = rows("select * from lake.db.counts order by 1")
results["selected old"] = rows("select * from lake.db.old order by 1")
results["views"] = sorted(row[1] for row in rows("show views in lake.db"))
results["tables"] = sorted(row[1] for row in rows("show tables in lake.db"))
results["read"] = {name: shown(name) for name in ("db.counts", "db.old")}
# Change views of another engine.
spark.sql("use lake.db")
spark.sql("alter view lake.db.counts set tblproperties ('comment' = 'by java')")
spark.sql("create or replace view lake.db.old as select id from lake.db.t where id > 1")
results["replaced"] = rows("select * from lake.db.old order by 1")
schema_of_counts = schema(sys.argv[4])
(jdbc.loadView(parse("db.counts")).replaceVersion().withQuery("spark", "SELECT type, 7L AS n FROM t").withQuery("trino", "SELECT 7")
    .withSchema(schema_of_counts).withDefaultNamespace(db).commit())
jdbc.renameView(parse("db.to_rename"), parse("db.renamed"))
results["dropped"] = jdbc.dropView(parse("db.to_drop"))
# A name is a table or a view.
results["refused"] = [
    refused(lambda: jdbc.createTable(parse("db.counts"), schema_of_counts)),
    refused(lambda: jdbc.buildView(parse("db.t")).withSchema(schema_of_counts).withQuery("spark", "select 1").withDefaultNamespace(db).create()),
    refused(lambda: jdbc.loadTable(parse("db.counts"))),
]
# Make a view of its own.
builder = jdbc.buildView(parse("db.theirs")).withSchema(schema_of_counts).withQuery("spark", "SELECT type, 1L AS n FROM t").withDefaultNamespace(db)
builder.withDefaultCatalog("lake").withProperty("comment", "theirs").withProperty("write.metadata.compression-codec", "none").create()
for number in range(2, 14):
    view = jdbc.loadView(parse("db.theirs"))
    view.replaceVersion().withQuery("spark", f"SELECT type, {number}L AS n FROM t").withSchema(schema_of_counts).withDefaultNamespace(db).commit()
jdbc.loadView(parse("db.theirs")).updateLocation().setLocation(folder + "/moved").commit()
results["theirs"] = shown("db.theirs")
spark.sql("create view lake.db.by_spark (type comment 'a type', n) comment 'counts' as select type, count(*) from t group by type")
print(json.dumps(results))
"""
JAVA_AGAIN = (
    JAVA[: JAVA.index("# Read views of another engine.")]
    + """
results["read"] = shown("db.theirs")
results["selected"] = rows("select * from lake.db.theirs order by 1") + rows("select * from lake.db.by_spark order by 1")
print(json.dumps(results))
"""
)
PYICEBERG = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
catalog = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=f"file://{sys.argv[1]}/warehouse")
results = {"tables": sorted(".".join(name) for name in catalog.list_tables("db")), "exists": catalog.table_exists("db.counts")}
for what, do in {
    "load": lambda: catalog.load_table("db.counts"),
    "drop": lambda: catalog.drop_table("db.counts"),
    "rename": lambda: catalog.rename_table("db.counts", "db.other"),
    "create": lambda: catalog.create_table("db.counts", pa.schema([("n", pa.int64())])),
}.items():
    try:
        do()
        results[what] = "done"
    except Exception as error:
        results[what] = type(error).__name__
catalog.load_table("db.t").append(pa.table({"id": pa.array([9], pa.int64()), "type": ["c"]}))
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[SqlCatalog, Path, dict[str, Any]]:
    """Return a catalog with views of Icefloe, after Java has read and changed them and made its own; and Java's results."""
    sqlite_driver()  # skips the test without a driver
    folder = tmp_path_factory.mktemp("views")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("type", pa.string())]))
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "type": ["a", "b", "a"]}))
    catalog.create_view("db.counts", {"spark": SPARK_SQL, "trino": TRINO_SQL}, COUNTS, properties={"comment": "ours"})
    old = catalog.create_view("db.old", "SELECT id, type FROM lake.db.t", table.schema(), default_namespace="elsewhere")
    for number in range(2, 5):
        catalog.replace_view("db.old", f"SELECT {number}", pa.schema([("n", pa.int32())]))
    old.rollback_to_version(1)
    for name in ("db.to_rename", "db.to_drop"):
        catalog.create_view(name, SPARK_SQL, COUNTS)
    results = json.loads(java(JAVA, folder))
    return catalog, folder, results


def java(script: str, folder: Path) -> str:
    schema_of_counts = json.dumps(
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "type", "required": False, "type": "string"},
                {"id": 2, "name": "n", "required": False, "type": "long"},
            ],
        }
    )
    jar, libraries = sqlite_driver()
    return run("java", "-c", script, str(folder), str(ORACLES), str(jar), schema_of_counts, libraries).splitlines()[-1]


def test_java_reads_and_selects_through_views_of_icefloe(lake: tuple[SqlCatalog, Path, dict[str, Any]]) -> None:
    _, folder, results = lake
    assert results["selected"] == [["a", 2], ["b", 1]]
    assert results["selected old"] == [[1, "a"], [2, "b"], [3, "a"]]
    assert results["views"] == ["counts", "old", "to_drop", "to_rename"]
    assert "t" in results["tables"]
    counts, old = results["read"]["db.counts"], results["read"]["db.old"]
    assert counts["sql"] == {"spark": ["spark", SPARK_SQL], "TRINO": ["trino", TRINO_SQL], "duckdb": ["spark", SPARK_SQL]}
    assert (counts["columns"], counts["ids"], counts["namespace"], counts["catalog"]) == (["type", "n"], [1, 2], "db", None)
    assert (counts["properties"], counts["engine"]) == ({"comment": "ours"}, "icefloe")
    assert counts["location"] == f"{folder}/warehouse/db/counts"
    assert (old["versions"], old["history"], old["current"], old["namespace"]) == ([1, 2, 3, 4], [1, 2, 3, 4, 1], 1, "elsewhere")


def test_icefloe_reads_what_java_changed_of_views_of_icefloe(lake: tuple[SqlCatalog, Path, dict[str, Any]]) -> None:
    catalog, _, results = lake
    counts = catalog.load_view("db.counts")
    assert str(counts.uuid()) == results["read"]["db.counts"]["uuid"]
    assert counts.properties["comment"] == "by java"
    assert [version.version_id for version in counts.versions] == [1, 2]
    assert (counts.sql_for("spark").sql, counts.sql_for("trino").sql) == ("SELECT type, 7L AS n FROM t", "SELECT 7")  # type: ignore[union-attr]
    assert counts.current_version().summary["engine-name"] == "spark"
    assert len(counts.metadata.schemas) == 1, "Java found the schema that we had written"
    old = catalog.load_view("db.old")
    assert (old.current_version().version_id, results["replaced"]) == (5, [[2], [3]])
    assert [entry.version_id for entry in old.history()] == [1, 2, 3, 4, 1, 5]
    assert catalog.load_view("db.renamed").current_version().dialects == ("spark",)
    assert results["dropped"] is True
    with pytest.raises(NoSuchViewError):
        catalog.load_view("db.to_drop")


def test_a_name_is_a_table_or_a_view_for_java_too(lake: tuple[SqlCatalog, Path, dict[str, Any]]) -> None:
    over_view, over_table, as_table = lake[2]["refused"]
    assert "View with same name already exists" in over_view or "AlreadyExistsException" in over_view
    assert "Table with same name already exists" in over_table
    assert "NoSuchTableException" in as_table


def test_icefloe_reads_and_changes_what_java_made(lake: tuple[SqlCatalog, Path, dict[str, Any]]) -> None:
    catalog, folder, results = lake
    view = catalog.load_view("db.theirs")
    theirs = results["theirs"]
    assert (str(view.uuid()), view.location(), dict(view.properties)) == (theirs["uuid"], theirs["location"], theirs["properties"])
    assert sorted(version.version_id for version in view.versions) == sorted(theirs["versions"]) == list(range(4, 14))
    assert [entry.version_id for entry in view.history()] == theirs["history"]
    assert view.sql_for("spark").sql == "SELECT type, 13L AS n FROM t"  # type: ignore[union-attr]
    assert view.current_version().default_catalog is None
    assert (view.version(4).summary["engine-name"], view.metadata_location.endswith(".metadata.json")) == ("spark", True)  # type: ignore[union-attr]
    spark_made = catalog.load_view("db.by_spark")
    assert spark_made.schema().fields[0].doc == "a type"
    assert spark_made.properties["comment"] == "counts"
    assert (spark_made.current_version().default_catalog, spark_made.current_version().default_namespace) == (None, ("db",))

    with view.replace_version() as update:
        update.with_query("spark", "SELECT type, 99L AS n FROM t WHERE id = 1").with_query("trino", "SELECT 99")
    with view.update_properties() as properties:
        properties.set("write.metadata.compression-codec", "gzip")
    assert list(view_problems(view.metadata)) == []
    again = json.loads(java(JAVA_AGAIN, folder))
    assert again["selected"] == [["a", 99], ["a", 2], ["b", 1]]
    assert again["read"]["sql"]["TRINO"] == ["trino", "SELECT 99"]
    assert again["read"]["versions"] == [version.version_id for version in view.versions]
    assert (again["read"]["history"], again["read"]["current"]) == ([entry.version_id for entry in view.history()], 14)


def test_pyiceberg_shares_the_file_and_sees_tables_alone(lake: tuple[SqlCatalog, Path, dict[str, Any]], pyiceberg: Any) -> None:
    catalog, folder, _ = lake
    before = catalog.load_view("db.counts")
    results = json.loads(pyiceberg(PYICEBERG, str(folder)).splitlines()[-1])
    assert results == {
        "tables": ["db.t"],
        "exists": False,
        "load": "NoSuchTableError",
        "drop": "NoSuchTableError",
        "rename": "NoSuchTableError",
        "create": "TableAlreadyExistsError",
    }
    assert catalog.load_view("db.counts") == before
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 4
    connection = sqlite3.connect(folder / "catalog.db")
    kinds = dict(connection.execute("select table_name, iceberg_type from iceberg_tables").fetchall())
    connection.close()
    assert kinds["t"] == "TABLE"
    assert {name for name, kind in kinds.items() if kind == "VIEW"} == {"counts", "old", "renamed", "theirs", "by_spark"}
