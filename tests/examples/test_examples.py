"""The programs in `examples/` run as they are, in an empty folder, and the pages that print one print all of it."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import load_catalog
from icefloe.spark.runtime.java_runtime import find_java

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(folder: Path, name: str, *arguments: str, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def rows(folder: Path, name: str) -> pa.Table:
    catalog = load_catalog("lake", uri=f"{folder}/lake.db", warehouse=f"{folder}/lake")
    return catalog.load_table(name).scan().to_arrow()


def test_the_daily_upsert_writes_a_file_once_and_sets_bad_lines_aside(tmp_path: Path) -> None:
    header = "id,customer,amount,changed_at\n"
    (tmp_path / "1.csv").write_text(
        header + '1,ann,10.5,2024-05-01 10:00:00\n2,"b, c",1,2024-05-01 11:00:00\n2,"b, c",2,2024-05-01 12:00:00\n3,x\n'
    )
    assert "0 updated, 2 inserted, 0 unchanged" in run(tmp_path, "daily_upsert.py", "1.csv")
    assert (tmp_path / "1.csv.bad").read_text() == "1.csv: 2 values instead of 4: 3,x\n"
    assert "0 updated, 0 inserted, 2 unchanged" in run(tmp_path, "daily_upsert.py", "1.csv")
    (tmp_path / "2.csv").write_text(header + "1,ann,11,2024-05-02 10:00:00\n5,eve,3,2024-05-02 10:00:00\n")
    assert "1 updated, 1 inserted, 0 unchanged" in run(tmp_path, "daily_upsert.py", "2.csv")
    assert dict(zip(*rows(tmp_path, "shop.orders").select(["id", "amount"]).to_pydict().values(), strict=True)) == {1: 11.0, 2: 2.0, 5: 3.0}


def test_the_daily_upsert_reads_line_breaks_within_quotes(tmp_path: Path) -> None:
    # Arrow reads blocks of 1 MiB, and values lie on both sides of their ends.
    lines = [f'{number},"customer\n{"x" * 60}\n{number}",1,2024-05-01 10:00:00\n' for number in range(40_000)]
    (tmp_path / "1.csv").write_text("id,customer,amount,changed_at\n" + "".join(lines))
    assert "0 updated, 40000 inserted, 0 unchanged" in run(tmp_path, "daily_upsert.py", "1.csv")
    assert rows(tmp_path, "shop.orders")["customer"].to_pylist().count(f"customer\n{'x' * 60}\n7") == 1


def test_the_daily_upsert_reports_a_file_that_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,customer,amount,changed_at\nx,ann,10.5,2024-05-01 10:00:00\n")
    assert "invalid value 'x'" in run(tmp_path, "daily_upsert.py", "1.csv", code=1)
    run(tmp_path, "daily_upsert.py", "2.csv", code=1)
    assert rows(tmp_path, "shop.orders").num_rows == 0


def test_the_dirty_csv_file_is_loaded_without_its_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "trips.csv").write_text(
        'id,kind,fare,pickup\n1,taxi,1.5,2024-05-01\n2,bike,three,2024-05-01\n3,boat\n4,"a, b",,2024-06-01\n'
    )
    printed = run(tmp_path, "dirty_csv.py", "trips.csv")
    assert "2 rows loaded, 2 bad rows" in printed
    assert "line 3, column fare: is not a double" in printed
    assert (tmp_path / "_trips.csv.bad-rows").read_text().count("\n") == 3
    assert sorted(rows(tmp_path, "taxi.trips")["kind"].to_pylist()) == ["a, b", "taxi"]


def test_the_notebook_runs_and_every_view_is_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    views = 0
    for cell in json.loads((EXAMPLES / "look_inside.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "clear the outputs before you commit a notebook"
            *statements, last = "".join(cell["source"]).split("\n")
            exec("\n".join(statements), names)  # noqa: S102
            shown = eval(last, names)  # noqa: S307
            views += "<div" in getattr(shown, "_repr_html_", str)()
    assert views >= 5
    assert shown == (600, 990)


@pytest.mark.slow
@pytest.mark.spark
def test_the_spark_sql_job_runs(tmp_path: Path) -> None:
    assert "refund" in run(tmp_path, "spark_sql_job.py")
    assert rows(tmp_path, "shop.events").num_rows == 1010


@pytest.mark.slow
@pytest.mark.spark
def test_the_connect_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not find_java().has_vector_module:
        pytest.skip("PySpark starts its Connect server with the module jdk.incubator.vector, which the only Java here is built without")
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    printed = run(tmp_path, "connect_job.py")
    assert "1 row inserted, 1 row updated" in printed
    assert rows(tmp_path, "shop.items").num_rows == 3


def test_the_page_about_jobs_prints_the_whole_program() -> None:
    assert f"```python\n{(EXAMPLES / 'daily_upsert.py').read_text()}```\n" in (ROOT / "docs" / "jobs.md").read_text()


def test_every_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.iterdir() if path.name != "README.md" and f"({path.name})" not in listed] == []
