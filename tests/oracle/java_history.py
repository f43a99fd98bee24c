"""Tables that the Java implementation wrote in all its ways, and the rows that it reads: scripts for its session, and their output as values.

Every table is read at every snapshot, by every branch and tag, and as of every time that its log names.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

# Prints a line for each read: the table, the metadata file, the point in time or reference, and the rows.
READINGS = r"""
import json, pathlib

def plain(value):
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else str(value)

def reading(name, how, rows, metadata):
    lines = [json.dumps(row.asDict(recursive=True), default=plain, sort_keys=True) for row in rows]
    print("READING " + json.dumps({"table": name, "how": how, "metadata": metadata, "rows": lines}))

def current_metadata(name):
    folder = pathlib.Path(sys.argv[1], "db", name, "metadata")
    found = [(int(path.name[1:].split(".")[0]), str(path)) for path in folder.glob("v*.metadata.json")]
    return max(found)[1]

def read_every_way(name):
    metadata = current_metadata(name)
    table = "j.db." + name
    reading(name, {}, spark.table(table).collect(), metadata)
    for row in spark.sql(f"select snapshot_id from {table}.snapshots").collect():
        reading(name, {"snapshot": row[0]}, spark.sql(f"select * from {table} version as of {row[0]}").collect(), metadata)
    for row in spark.sql(f"select name from {table}.refs").collect():
        reading(name, {"ref": row[0]}, spark.sql(f"select * from {table} version as of '{row[0]}'").collect(), metadata)
    for row in spark.sql(f"select unix_millis(made_current_at) from {table}.history").collect():
        rows = spark.sql(f"select * from {table} timestamp as of timestamp_millis({row[0]})").collect()
        reading(name, {"as of": row[0]}, rows, metadata)
"""

TABLES = r"""
import os
sql = spark.sql
warehouse = sys.argv[1]
MOR = "'write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'"
COLUMNS = '''id bigint not null, flag boolean, small int, f float, d double, money decimal(9,2), wide decimal(38,10), day date, at timestamp_ntz,
atz timestamp, text string, raw binary, st struct<x:int,y:struct<z:string>>, li array<int>, ma map<string,bigint>'''
ROWS = '''select /*+ COALESCE(1) */ id, id % 2 = 0, int(-id), float(id/4), double(if(id=5,'NaN',-id/8)), cast(id*7-5 as decimal(9,2)),
cast(id*100000000000000001 as decimal(38,10)), date'1969-12-30'+int(id), timestamp_ntz'1969-12-31 23:59:59.999999'+make_interval(0,0,0,0,0,int(id)),
timestamp'2020-01-01 00:00:00.000001'+make_interval(0,0,0,int(id)), if(id=2,null,concat('t',id)), unhex(concat('FF0',id%10)),
if(id=1,null,named_struct('x',int(id),'y',if(id=2,null,named_struct('z',concat('z',id))))), if(id=3,null,array(int(id),null)), map('k',id)
from range({}, {})'''
names = []

def create(name, columns, more="", **properties):
    listed = ",".join(f"'{key.replace('__', '.').replace('_', '-')}'='{value}'" for key, value in properties.items())
    sql(f"create table j.db.{name} ({columns}) using iceberg {more} tblproperties ({listed})")
    names.append(name)
    return "j.db." + name

# Every version with every file format: rows deleted and updated, partitions that evolve.
for version in (1, 2, 3):
    for form in ("parquet", "orc", "avro"):
        t = create(f"v{version}_{form}", COLUMNS, "partitioned by (bucket(2, id))", format_version=version, write__format__default=form)
        if version > 1:
            sql(f"alter table {t} set tblproperties ({MOR})")
        sql(f"insert into {t} " + ROWS.format(1, 8))
        sql(f"delete from {t} where id in (3, 4)")
        sql(f"alter table {t} replace partition field bucket(2, id) with days(at)")
        sql(f"insert into {t} " + ROWS.format(8, 12))
        sql(f"update {t} set text = 'new' where id in (2, 9)")
        sql(f"alter table {t} drop column d")
        sql(f"alter table {t} add column st.w double after x")
        sql(f"alter table {t} alter column small type bigint")
        sql(f"alter table {t} rename column text to label")
        sql(f"delete from {t} where id = 5 or id = 10")

# A table that was upgraded twice, with rows of every version.
t = create("upgraded", "id bigint, g int", "partitioned by (g)", format_version=1)
for version in (1, 2, 3):
    if version > 1:
        sql(f"alter table {t} set tblproperties ('format-version'='{version}', {MOR})")
    sql(f"insert into {t} select /*+ COALESCE(1) */ id, int(id % 2) from range({version * 10}, {version * 10 + 6})")
    sql(f"delete from {t} where id % 10 = 3")
sql(f"delete from {t} where id % 10 = 4")

# Files without field ids, under a name mapping, with partition values in their paths.
spark.range(6).selectExpr("id", "concat('a', id) as s", "int(id % 2) as g").write.partitionBy("g").parquet(warehouse + "/plain")
t = create("added", "id bigint, s string, g int", "partitioned by (g)", format_version=2)
sql(f"call j.system.add_files(table => 'db.added', source_table => '`parquet`.`{warehouse}/plain`')")
sql(f"alter table {t} rename column s to label")
sql(f"alter table {t} add column more int")
sql(f"insert into {t} values (100, 'new', 1, 5)")
for form in ("orc", "avro"):
    if form == "orc":
        spark.range(6).selectExpr("id", "concat('a', id) as s", "named_struct('x', id, 'y', array(id)) as n").write.orc(f"{warehouse}/plain_orc")
    create(f"added_{form}", "id bigint, s string, n struct<x:bigint,y:array<bigint>>", format_version=2)
    sql(f"call j.system.add_files(table => 'db.added_{form}', source_table => '`{form}`.`{warehouse}/plain_{form}`')")

# Branches and tags over a schema that changes.
t = create("refs", "id bigint, s string, g int", "partitioned by (truncate(2, s))", format_version=2)
sql(f"insert into {t} select id, concat('k', id), int(id) from range(5)")
sql(f"alter table {t} create tag first")
sql(f"alter table {t} create branch side")
sql(f"insert into {t}.branch_side select id, 'side', 1 from range(10, 12)")
sql(f"insert into {t} values (5, 'main', 7)")
sql(f"alter table {t} drop column g")
sql(f"alter table {t} add column h double")
sql(f"insert into {t}.branch_side values (12, 'late', 1.5)")
sql(f"delete from {t}.branch_side where id = 1")
sql(f"alter table {t} create tag late as of version " + str(sql(f"select snapshot_id from {t}.refs where name = 'side'").collect()[0][0]))
sql(f"call j.system.rollback_to_snapshot('db.refs', " + str(sql(f"select snapshot_id from {t}.refs where name = 'first'").collect()[0][0]) + ")")
sql(f"insert into {t} values (6, 'again', 2.5)")

# Partition columns and columns of sort orders that are no more; manifests, files and snapshots that were tidied.
t = create("dropped", "id bigint, s string, g int", "partitioned by (g, bucket(4, s))", format_version=2)
sql(f"insert into {t} select id, concat('k', id), int(id % 3) from range(9)")
sql(f"alter table {t} drop partition field g")
sql(f"alter table {t} drop partition field bucket(4, s)")
sql(f"alter table {t} drop column g")
sql(f"insert into {t} values (100, 'x')")
sql(f"alter table {t} drop column s")
sql(f"alter table {t} add column s int")
sql(f"insert into {t} values (101, 7)")
t = create("tidied", "id bigint, s string", "partitioned by (truncate(1, s))", format_version=3, write__metadata__compression_codec="gzip",
           commit__manifest__min_count_to_merge=2)
sql(f"alter table {t} set tblproperties ({MOR})")
sql(f"alter table {t} write ordered by id desc nulls last")
for start in range(0, 12, 3):
    sql(f"insert into {t} select id, concat(id % 2, 'k') from range({start}, {start + 3})")
sql(f"delete from {t} where id in (1, 4)")
sql("call j.system.rewrite_manifests('db.tidied')")
sql("call j.system.rewrite_data_files(table => 'db.tidied', where => 'id < 6', options => map('rewrite-all','true'))")
sql("call j.system.rewrite_position_delete_files(table => 'db.tidied', options => map('rewrite-all','true'))")
sql(f"update {t} set s = 'late' where id = 7")
sql("call j.system.expire_snapshots(table => 'db.tidied', older_than => timestamp'2100-01-01', retain_last => 3)")

# Whole contents replaced, merged and truncated.
t = create("merged", "id bigint, s string, g int", "partitioned by (g)", format_version=3)
sql(f"alter table {t} set tblproperties ({MOR})")
sql(f"insert into {t} select id, concat('k', id), int(id % 2) from range(8)")
sql(f"merge into {t} a using (select id, concat('m', id) s, 1 g from range(5, 11)) b on a.id = b.id when matched and a.id = 6 then delete "
    "when matched then update set s = b.s when not matched then insert *")
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
sql(f"insert overwrite {t} values (50, 'over', 0)")
sql(f"delete from {t} where g = 1 and id > 8")
sql(f"insert overwrite {t} partition (g = 7) values (60, 'static')")
sql(f"truncate table {t}")
sql(f"insert into {t} values (70, null, null)")
for name in names:
    read_every_way(name)
"""

SIX = "for name in ('v1_cow', 'v2_posdel', 'v3_dv', 'evo', 'eqdel', 'v3x'):\n    read_every_way(name)\n"


def plain_avro(folder: Path) -> None:
    """Write a file of plain Avro, which Spark alone cannot write, to be added to a table of Java."""
    inner = {
        "type": "record",
        "name": "n",
        "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": {"type": "array", "items": "long"}}],
    }
    fields = [{"name": "id", "type": "long"}, {"name": "s", "type": ["null", "string"]}, {"name": "n", "type": ["null", inner]}]
    rows = [{"id": number, "s": f"a{number}", "n": {"x": number, "y": [number]}} for number in range(6)]
    (folder / "plain_avro").mkdir()
    with (folder / "plain_avro" / "part-0.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "row", "fields": fields}), rows)


@dataclass(frozen=True)
class Reading:
    """Rows of a table as Java read them, at the current state ({}) or at one `snapshot`, `ref` or `as of` time."""

    table: str
    how: dict[str, Any]
    metadata: str
    rows: list[dict[str, Any]]


def readings(java_script: Callable[..., str], script: str, folder: Path) -> list[Reading]:
    printed = java_script(READINGS + script, str(folder))
    printed_readings = [json.loads(line.removeprefix("READING ")) for line in printed.splitlines() if line.startswith("READING ")]
    return [Reading(one["table"], one["how"], one["metadata"], [json.loads(row) for row in one["rows"]]) for one in printed_readings]
