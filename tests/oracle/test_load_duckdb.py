"""The dirty file of `tests/loading` as DuckDB's reader takes it: the same rows, and the same bad lines."""

import json
from pathlib import Path

import pytest
from tests.loading.test_file_load import BAD_LINES, COLUMNS, DIRTY
from tests.oracle.conftest import run

from icefloe import SqlCatalog
from icefloe.loading import load_files

pytestmark = pytest.mark.oracle

_SCRIPT = """
import json, sys, duckdb
columns = {'id': 'BIGINT', 'name': 'VARCHAR', 'at': 'DATE'}
options = f"header=true, columns={columns}, auto_detect=false, store_rejects=true"
rows = duckdb.sql(f"select id, name, cast(columns('at') as varchar) from read_csv('{sys.argv[1]}', {options})")
print(json.dumps(rows.fetchall()))
print(json.dumps(duckdb.sql("select distinct line, error_type::varchar from reject_errors order by line").fetchall()))
"""
# DuckDB's kinds of errors, and the beginning of Icefloe's reasons.
_REASONS = {
    "CAST": "is not a ",
    "MISSING COLUMNS": "has 2 values",
    "TOO MANY COLUMNS": "has 4 values",
    "UNQUOTED VALUE": "has ",
    "INVALID ENCODING": "is not UTF-8",
}


def test_rows_and_bad_lines_are_those_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.loading.bad_rows.LISTED", 100)
    (tmp_path / "dirty.csv").write_bytes(DIRTY)
    rows, rejects = map(json.loads, run("duckdb", "-c", _SCRIPT, str(tmp_path / "dirty.csv")).splitlines())
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake"))
    result = load_files(catalog, "n.t", str(tmp_path / "dirty.csv"), columns=COLUMNS, bad_rows="skip")

    loaded = [[row["id"], row["name"], str(row["at"])] for row in result.table.scan().to_arrow().sort_by("id").to_pylist()]
    # DuckDB takes everything after a quote that is not closed as one bad row; here the next line is a row again.
    assert loaded == [*rows, [11, "last", "2024-01-16"]]
    kinds: dict[int, set[str]] = {}
    for record, kind in rejects:
        # DuckDB numbers records, and the third one has two lines.
        kinds.setdefault(record + 1, set()).add(_REASONS[kind])
    assert sorted(kinds) == BAD_LINES == [bad.line for bad in result.first_bad_rows]
    assert all(any(bad.reason.startswith(reason) for reason in kinds[bad.line]) for bad in result.first_bad_rows)
