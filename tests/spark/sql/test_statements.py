"""Iceberg's SQL extensions through `spark.sql`: partition fields, write order, identifier fields, branches and tags; and their errors."""

import re

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run, append

from icefloe import SqlCatalog
from icefloe.spec.metadata.sort_keys import sort_order_text

pytestmark = pytest.mark.spark


@pytest.fixture
def made(sql: Run) -> Run:
    sql("CREATE TABLE lake.db.t (id BIGINT NOT NULL, kind STRING, ts TIMESTAMP, `a b` INT) USING iceberg")
    return sql


def spec_of(lake: SqlCatalog) -> list[tuple[str, str]]:
    return [(field.name, str(field.transform)) for field in lake.load_table("db.t").spec().fields]


def test_partition_fields_are_added_replaced_and_dropped(made: Run, lake: SqlCatalog) -> None:
    made("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(16, id) AS shard")
    made("alter table lake.db.t add partition field truncate(kind, 4) -- either order")
    made("ALTER TABLE lake.db.t ADD PARTITION FIELD days(ts);")
    assert spec_of(lake) == [("shard", "bucket[16]"), ("kind_trunc_4", "truncate[4]"), ("ts_day", "day")]
    made("ALTER TABLE lake.db.t REPLACE PARTITION FIELD days(ts) WITH `hours`(ts) AS `the hour`")
    made("ALTER TABLE lake.db.t DROP PARTITION FIELD shard")
    made("ALTER TABLE lake.db.t DROP PARTITION FIELD truncate(4, kind)")
    assert spec_of(lake) == [("the hour", "hour")]


def test_write_order_and_distribution_are_set(made: Run, lake: SqlCatalog) -> None:
    for clauses, order, mode in (
        ("ORDERED BY kind, id DESC", "kind ASC NULLS FIRST, id DESC NULLS LAST", "range"),
        ("LOCALLY ORDERED BY (bucket(4, id) DESC NULLS FIRST)", "bucket(4, id) DESC NULLS FIRST", None),
        ("DISTRIBUTED BY PARTITION", "", "hash"),
        ("DISTRIBUTED BY PARTITION LOCALLY ORDERED BY days(ts) NULLS LAST", "day(ts) ASC NULLS LAST", "hash"),
        ("ORDERED BY `a b` DISTRIBUTED BY PARTITION", "`a b` ASC NULLS FIRST", "hash"),
        ("UNORDERED", "", "none"),
    ):
        made("ALTER TABLE lake.db.t WRITE LOCALLY ORDERED BY ts")
        lake.load_table("db.t").remove_properties("write.distribution-mode")  # of the clauses before
        made(f"ALTER TABLE lake.db.t WRITE {clauses}")
        metadata = lake.load_table("db.t").metadata
        assert sort_order_text(metadata) == order, clauses
        assert metadata.properties.get("write.distribution-mode") == mode, clauses


def test_identifier_fields_are_set_and_dropped(made: Run, lake: SqlCatalog) -> None:
    made("ALTER TABLE lake.db.t SET IDENTIFIER FIELDS id")
    assert list(lake.load_table("db.t").schema().identifier_field_ids) == [1]
    made("ALTER TABLE lake.db.t DROP IDENTIFIER FIELDS id")
    assert list(lake.load_table("db.t").schema().identifier_field_ids) == []
    with pytest.raises(Exception, match="not an identifier field"):
        made("ALTER TABLE lake.db.t DROP IDENTIFIER FIELDS kind")


def test_branches_and_tags_with_retention(made: Run, lake: SqlCatalog) -> None:
    append(lake, [(1, None, None, None)])
    first = lake.load_table("db.t").metadata.current_snapshot_id
    append(lake, [(2, None, None, None)])
    made(f"ALTER TABLE lake.db.t CREATE BRANCH b AS OF VERSION {first} RETAIN 3 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 4 HOURS")
    made("ALTER TABLE lake.db.t CREATE TAG `v 1` RETAIN 30 MINUTES")
    made("ALTER TABLE lake.db.t CREATE BRANCH IF NOT EXISTS b")
    refs = lake.load_table("db.t").refs()
    branch, tag = refs["b"], refs["v 1"]
    assert (branch.snapshot_id, branch.max_ref_age_ms, branch.min_snapshots_to_keep, branch.max_snapshot_age_ms) == (
        first,
        259_200_000,
        2,
        14_400_000,
    )
    assert (tag.is_branch, tag.max_ref_age_ms) == (False, 1_800_000)
    made("INSERT INTO lake.db.t.branch_b VALUES (9, NULL, NULL, NULL)")
    assert sorted(made("SELECT id FROM lake.db.t VERSION AS OF 'b'")) == [(1,), (9,)]
    made(f"ALTER TABLE lake.db.t REPLACE TAG `v 1` AS OF VERSION {first}")
    made("ALTER TABLE lake.db.t CREATE OR REPLACE BRANCH b")
    refs = lake.load_table("db.t").refs()
    assert (refs["v 1"].snapshot_id, refs["b"].snapshot_id) == (first, refs["main"].snapshot_id)
    made("ALTER TABLE lake.db.t DROP BRANCH b")
    made("ALTER TABLE lake.db.t DROP TAG `v 1`")
    made("ALTER TABLE lake.db.t DROP TAG IF EXISTS `v 1`")
    assert list(lake.load_table("db.t").refs()) == ["main"]
    with pytest.raises(Exception, match="nothing"):
        made("ALTER TABLE lake.db.t DROP BRANCH nothing")


def test_names_are_those_of_the_current_catalog_and_namespace(made: Run, lake: SqlCatalog) -> None:
    made("USE lake.db")
    try:
        made("ALTER TABLE t ADD PARTITION FIELD kind")
        made("ALTER TABLE db.t WRITE UNORDERED")
    finally:
        made("USE spark_catalog.default")
    assert spec_of(lake) == [("kind", "identity")]
    with pytest.raises(ParseException):
        made("ALTER TABLE t ADD PARTITION FIELD kind")


def test_a_wrong_statement_is_refused_at_its_wrong_token(made: Run) -> None:
    for statement, place in (
        ("ALTER TABLE lake.db.t WRITE SIDEWAYS", "near 'SIDEWAYS'.*pos 28"),
        ("ALTER TABLE lake.db.t ADD PARTITION FIELD", "near end of input"),
        ("ALTER TABLE lake.db.t\nCREATE BRANCH b RETAIN 3 WEEKS", "(?s)near 'WEEKS'.*line 2, pos 25"),
        ("ALTER TABLE lake.db.t DROP TAG a b", "the statement should be over"),
        ("ALTER TABLE lake.db.t SHUFFLE", "near 'SHUFFLE'"),
    ):
        with pytest.raises(ParseException, match=place):
            made(statement)


def test_a_missing_table_is_reported_by_the_error_of_spark(made: Run) -> None:
    with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND.*db\.nothing"):
        made("ALTER TABLE lake.db.nothing WRITE UNORDERED")
    with pytest.raises(Exception, match="no partition field"):
        made("ALTER TABLE lake.db.t DROP PARTITION FIELD days(ts)")


def test_order_and_identifiers_survive_show_create_table(made: Run, lake: SqlCatalog) -> None:
    made("ALTER TABLE lake.db.t SET IDENTIFIER FIELDS id")
    made("ALTER TABLE lake.db.t WRITE ORDERED BY bucket(4, id) DESC, kind")
    before = lake.load_table("db.t").metadata
    text = made("SHOW CREATE TABLE lake.db.t")[0][0]
    made("DROP TABLE lake.db.t")
    made(text)
    after = lake.load_table("db.t").metadata
    assert (sort_order_text(after), after.properties) == (sort_order_text(before), before.properties)
    assert after.schema().identifier_field_ids == before.schema().identifier_field_ids


def test_columns_and_fields_match_in_any_case_unless_the_session_is_case_sensitive(
    made: Run, lake: SqlCatalog, spark: SparkSession
) -> None:
    made("ALTER TABLE lake.db.t WRITE ORDERED BY ID, TRUNCATE(2, Kind)")
    assert sort_order_text(lake.load_table("db.t").metadata) == "id ASC NULLS FIRST, truncate(2, kind) ASC NULLS FIRST"
    made("ALTER TABLE lake.db.t SET IDENTIFIER FIELDS ID")
    made("ALTER TABLE lake.db.t DROP IDENTIFIER FIELDS Id")
    made("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(4, ID)")
    made("ALTER TABLE lake.db.t ADD PARTITION FIELD Kind AS K")
    made("ALTER TABLE lake.db.t REPLACE PARTITION FIELD ID_BUCKET_4 WITH days(TS)")
    made("ALTER TABLE lake.db.t DROP PARTITION FIELD k")
    assert spec_of(lake) == [("ts_day", "day")]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(Exception, match="no field 'ID'"):
            made("ALTER TABLE lake.db.t WRITE ORDERED BY ID")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_replacing_a_missing_branch_or_field_is_refused(made: Run, lake: SqlCatalog) -> None:
    made("INSERT INTO lake.db.t (id, kind, ts, `a b`) VALUES (1, 'a', NULL, NULL)")
    for kind in ("BRANCH", "TAG"):
        with pytest.raises(Exception, match=f"there is no {kind.lower()} 'typo'"):
            made(f"ALTER TABLE lake.db.t REPLACE {kind} typo")
    assert set(lake.load_table("db.t").refs()) == {"main"}


def test_session_variables_and_nested_comments_are_parsed(made: Run, lake: SqlCatalog, spark: SparkSession) -> None:
    spark.conf.set("the.table", "lake.db.t")
    try:
        made("ALTER TABLE ${the.table} /* one /* two */ */ CREATE BRANCH a -- and \\\n so on\n RETAIN 2 DAYS")
        made("CREATE VIEW lake.db.v /* one /* two */ */ AS SELECT id FROM ${the.table}; -- that is all")
    finally:
        spark.conf.unset("the.table")
    assert lake.load_table("db.t").refs()["a"].max_ref_age_ms == 2 * 86_400_000
    assert lake.load_view("db.v").sql_for("spark").sql == "SELECT id FROM lake.db.t"


def test_a_transform_with_wrong_arguments_is_refused_by_its_text(made: Run) -> None:
    for call in ("bucket(4, id, kind)", "bucket(4)", "zorder(id, kind)", "bucket(4, 5, id)"):
        with pytest.raises(Exception, match=re.escape(f"{call} is not a transform")):
            made(f"ALTER TABLE lake.db.t ADD PARTITION FIELD {call}")


def test_numbers_may_have_a_type_suffix_and_a_sign(made: Run, lake: SqlCatalog) -> None:
    made("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(4L, id)")
    assert spec_of(lake) == [("id_bucket_4", "bucket[4]")]
    with pytest.raises(Exception, match=r"bucket\[-1\]"):
        made("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(-1, id)")


def test_errors_of_create_table_like_name_the_source(made: Run, lake: SqlCatalog) -> None:
    made("CREATE VIEW lake.db.v AS SELECT id FROM lake.db.t")
    for source in ("lake.db.v", "lake.db.nothing", "lake.db.t.files"):
        with pytest.raises(Exception, match=f"no Iceberg table {source}"):
            made(f"CREATE TABLE lake.db.u LIKE {source}")
    with pytest.raises(Exception, match="USING delta does not create an Iceberg table"):
        made("CREATE TABLE lake.db.u LIKE lake.db.t USING delta")
    made("CREATE TABLE lake.db.u LIKE lake.db.t USING avro")
    assert lake.load_table("db.u").properties["write.format.default"] == "avro"


@pytest.mark.usefixtures("no_temporary_views")
def test_a_catalog_without_a_current_namespace_has_no_tables_of_one_name(made: Run) -> None:
    made("USE lake")
    try:
        assert (made("SHOW TABLES"), made("SHOW VIEWS"), made("DROP TABLE IF EXISTS t"), made("DROP VIEW IF EXISTS t")) == ([], [], [], [])
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            made("SELECT * FROM t")
    finally:
        made("USE spark_catalog.default")
