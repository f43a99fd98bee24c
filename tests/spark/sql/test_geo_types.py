"""GEOMETRY and GEOGRAPHY of Spark 4.1 and later: columns, values, files; and BINARY where the session or the reference system has no such type."""

import struct
from collections.abc import Iterator

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import GeographyType, GeometryType, ListType, LongType, NestedField, Schema, SqlCatalog, StructType
from icefloe.errors import SchemaMismatchError
from icefloe.spec.types import IcebergType

pytestmark = [pytest.mark.spark, pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark has these types since 4.1")]
ENABLED = "spark.sql.geospatial.enabled"


def point(x: float, y: float) -> bytes:
    """Return a point as WKB."""
    return struct.pack("<BIdd", 1, 1, x, y)


A, B, C = point(30, 10), point(-71, 42), point(100, 50)


def geom(wkb: bytes) -> str:
    return f"st_setsrid(st_geomfromwkb(X'{wkb.hex()}'), 4326)"


def geog(wkb: bytes) -> str:
    return f"st_geogfromwkb(X'{wkb.hex()}')"


@pytest.fixture
def shapes(spark: SparkSession, sql: Run) -> Iterator[Run]:
    before = spark.conf.get(ENABLED)
    spark.conf.set(ENABLED, "true")
    yield sql
    spark.conf.set(ENABLED, str(before))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_with_geometries_are_written_changed_and_read(shapes: Run, lake: SqlCatalog, mode: str) -> None:
    modes = ", ".join(f"'write.{name}.mode'='{mode}'" for name in ("delete", "update", "merge"))
    shapes(
        "CREATE TABLE lake.db.g (id BIGINT, p GEOMETRY(4326), q GEOGRAPHY(4326), s STRUCT<n: INT, p: GEOMETRY(4326)>, many ARRAY<GEOMETRY(4326)>) "
        f"USING iceberg TBLPROPERTIES ('format-version'='3', {modes})"
    )
    kinds: list[IcebergType] = [field.field_type for field in lake.load_table("db.g").schema().fields]
    assert kinds[1:3] == [GeometryType(), GeographyType()]
    assert isinstance(kinds[3], StructType)
    assert isinstance(kinds[4], ListType)
    assert (kinds[3].fields[1].field_type, kinds[4].element) == (GeometryType(), GeometryType())
    shapes(
        f"INSERT INTO lake.db.g SELECT /*+ COALESCE(1) */ * FROM VALUES "
        f"(1L, {geom(A)}, {geog(B)}, named_struct('n', 1, 'p', {geom(C)}), array({geom(A)}, NULL)), "
        "(2L, NULL, NULL, NULL, NULL), "
        f"(3L, {geom(B)}, NULL, named_struct('n', 3, 'p', CAST(NULL AS GEOMETRY(4326))), array())"
    )
    read = (
        "SELECT id, st_asbinary(p), st_asbinary(q), s.n, st_asbinary(s.p), transform(many, x -> st_asbinary(x)) FROM lake.db.g ORDER BY id"
    )
    rows = [(1, A, B, 1, C, [A, None]), (2, None, None, None, None, None), (3, B, None, 3, None, [])]
    assert shapes(read) == rows
    assert shapes("SELECT st_srid(p), st_srid(q), st_srid(s.p) FROM lake.db.g WHERE id = 1") == [(4326, 4326, 4326)]
    assert shapes("SELECT id FROM lake.db.g WHERE s IS NULL") == [(2,)]
    assert shapes("SELECT count(p), count(*) FROM lake.db.g WHERE p IS NOT NULL") == [(2, 2)]
    written = lake.load_table("db.g").scan().to_arrow().sort_by("id")
    assert written["p"].to_pylist() == [A, None, B]
    assert written["s"].to_pylist() == [{"n": 1, "p": C}, None, {"n": 3, "p": None}]
    shapes(f"UPDATE lake.db.g SET p = {geom(C)} WHERE id = 1")
    shapes("DELETE FROM lake.db.g WHERE s.n = 3")
    shapes(
        f"MERGE INTO lake.db.g t USING (SELECT 2L AS id, {geom(B)} AS p, {geog(A)} AS q UNION ALL SELECT 4L, {geom(A)}, NULL) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET p = s.p, q = s.q WHEN NOT MATCHED THEN INSERT (id, p, q) VALUES (s.id, s.p, s.q)"
    )
    assert shapes(read) == [(1, C, B, 1, C, [A, None]), (2, B, A, None, None, None), (4, A, None, None, None, None)]
    shapes("CREATE TABLE lake.db.copied TBLPROPERTIES ('format-version'='3') AS SELECT * FROM lake.db.g")
    assert shapes(read.replace("db.g", "db.copied")) == shapes(read)
    shapes("CREATE VIEW lake.db.seen AS SELECT id, p FROM lake.db.g")
    assert shapes("SELECT st_asbinary(p) FROM lake.db.seen WHERE id = 1") == [(C,)]
    shapes("ALTER TABLE lake.db.g ADD COLUMN more GEOMETRY(3857)")
    assert lake.load_table("db.g").schema().find_type("more") == GeometryType("EPSG:3857")


def test_dataframes_with_geometries_are_appended_and_upserted(spark: SparkSession, shapes: Run, lake: SqlCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", GeometryType()))
    table = lake.create_table("db.g", schema, properties={"format-version": "3"})
    frame = spark.sql(f"SELECT 1L AS id, {geom(A)} AS p UNION ALL SELECT 2L, {geom(B)}")
    table.append(frame)
    frame.writeTo("lake.db.g").append()
    table = lake.load_table("db.g")
    assert sorted(table.scan().to_arrow()["p"].to_pylist()) == sorted([A, A, B, B])
    assert dict(table.scan().to_spark().dtypes) == {"id": "bigint", "p": "binary"}
    table.overwrite(frame)
    table.upsert(spark.sql(f"SELECT 2L AS id, {geom(C)} AS p"), join_cols=["id"])
    assert sorted(shapes("SELECT id, st_asbinary(p) FROM lake.db.g")) == [(1, A), (2, C)]
    with pytest.raises(SchemaMismatchError, match=r"p: is geometry\(0\) in the DataFrame, which does not fit geometry in the table"):
        table.append(spark.sql(f"SELECT 1L AS id, st_geomfromwkb(X'{A.hex()}') AS p"))


def test_unknown_reference_systems_and_sessions_without_geo_types_have_binary(spark: SparkSession, shapes: Run, lake: SqlCatalog) -> None:
    kinds = [GeometryType(), GeometryType("EPSG:3857"), GeometryType("srid:0"), GeographyType(), GeometryType("EPSG:9999")]
    kinds_of_edges = [GeographyType("OGC:CRS84", "vincenty"), GeographyType("EPSG:3857")]
    fields = [NestedField(place + 1, f"c{place}", kind) for place, kind in enumerate([*kinds, *kinds_of_edges])]
    table = lake.create_table("db.g", Schema(*fields), properties={"format-version": "3"})
    table.append(pa.table({field.name: [A] for field in fields}))
    found = [kind for _, kind in spark.table("lake.db.g").dtypes]
    assert found == ["geometry(4326)", "geometry(3857)", "geometry(0)", "geography(4326)", "binary", "binary", "binary"]
    assert shapes("SELECT st_asbinary(c0), st_asbinary(c1), st_asbinary(c2), st_asbinary(c3), c4, c5, c6 FROM lake.db.g") == [(A,) * 7]
    spark.conf.set(ENABLED, "false")
    assert {kind for _, kind in spark.table("lake.db.g").dtypes} == {"binary"}
    assert shapes("SELECT * FROM lake.db.g") == [(A,) * 7]


def test_a_column_of_many_reference_systems_is_refused(shapes: Run) -> None:
    with pytest.raises(PySparkException, match=r"type geometry\(any\), whose values have reference systems of their own"):
        shapes("CREATE TABLE lake.db.g (p GEOMETRY(ANY)) USING iceberg TBLPROPERTIES ('format-version'='3')")
    with pytest.raises(PySparkException, match="version 2"):
        shapes("CREATE TABLE lake.db.g (p GEOMETRY(4326)) USING iceberg TBLPROPERTIES ('format-version'='2')")
