"""Tables with deletes of every kind and with row lineage, as Java wrote them: rows and metadata columns are those that Java reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.rows import comparable

from icefloe import StaticTable

pytestmark = pytest.mark.oracle

LINEAGE = ("_row_id", "_last_updated_sequence_number")
PLACE = ("_file", "_pos", "_spec_id")


def newest(folder: Path) -> str:
    found = list((folder / "metadata").glob("*.metadata.json"))
    return str(max(found, key=lambda path: json.loads(path.read_text())["last-updated-ms"]))


@pytest.mark.parametrize("name", ["v1_cow", "v2_posdel", "v3_dv", "evo", "eqdel", "v3x"])
def test_rows_are_those_that_java_reads_of_its_own_tables(java_tables: Path, name: str) -> None:
    expected = [json.loads(row) for row in json.loads((java_tables / "expected.json").read_text())[name]]
    table = StaticTable.from_metadata(newest(java_tables / "db" / name))
    assert comparable(table.scan().to_arrow().to_pylist()) == comparable(expected)
    assert table.scan().count() == len(expected)


def test_row_ids_and_positions_are_those_that_java_reads(java_tables: Path, java_script: Callable[..., str], tmp_path: Path) -> None:
    """Java runs the commits that move and change rows, and reads the file, the position and the row id of each row."""
    printed = java_script(
        """
import json
mor = "'write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'"
for name, properties in (("cow", ""), ("mor", "," + mor)):
    t = "j.db." + name
    spark.sql(f"create table {t} (id bigint, g int) using iceberg tblproperties ('format-version'='3'{properties})")
    for start in (0, 10):
        spark.sql(f"insert into {t} select /*+ COALESCE(1) */ id, int(id%3) from range({start},{start + 10})")
    spark.sql(f"delete from {t} where id in (3, 13, 14)")
    spark.sql(f"update {t} set g = 7 where id = 5")
    spark.sql(f"alter table {t} add partition field bucket(2, id)")
    spark.sql(f"insert into {t} values (50, 1), (51, 2)")
    spark.sql(f"call j.system.rewrite_data_files(table => 'db.{name}', where => 'id < 10', options => map('rewrite-all','true'))")
    columns = "id, g, _row_id, _last_updated_sequence_number, _file, _pos, _spec_id, _partition"
    for row in spark.sql(f"select {columns} from {t}").collect():
        print(json.dumps({"table": name} | row.asDict(recursive=True)))
""",
        str(tmp_path),
    )
    java_rows_of_all = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for name in ("cow", "mor"):
        table = StaticTable.from_metadata(newest(tmp_path / "db" / name))
        expected = [{key: value for key, value in row.items() if key != "table"} for row in java_rows_of_all if row["table"] == name]
        found = table.scan(selected_fields=("*", *LINEAGE, *PLACE, "_partition")).to_arrow().to_pylist()
        assert len(expected) == 19
        assert comparable(found) == comparable(expected)
    for name in ("v3_dv", "v3x"):
        rows: list[dict[str, Any]] = (
            StaticTable.from_metadata(newest(java_tables / "db" / name)).scan(selected_fields=("*", *LINEAGE)).to_arrow().to_pylist()
        )
        assert len({row["_row_id"] for row in rows}) == len(rows)
