"""`rewrite_data_files` with `zorder(...)` and `hilbert(...)`: the same rows, in files that range filters on any of the columns skip."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import IcefloeError, InvalidInputError
from icefloe.table.table import Table

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.float64()), ("name", pa.string()), ("kind", pa.string())])


def made(folder: Path, *spec: str, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"format-version": "3", **properties})


def scattered(table: Table, files: int, rows: int = 2_000) -> None:
    numbers = random.Random(7)
    for _ in range(files):
        x, y = [numbers.randrange(1_000_000) for _ in range(rows)], [numbers.random() for _ in range(rows)]
        table.append(pa.table([x, y, [f"https://{value}" for value in x], ["ab"[value % 2] for value in x]], schema=SCHEMA))


def of_right_size(table: Table) -> dict[str, int]:
    size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
    return {"target-file-size-bytes": size, "min-file-size-bytes": size // 2, "max-file-size-bytes": size * 3}


def content(table: Table) -> list[str]:
    return sorted(map(str, table.scan(selected_fields=(*SCHEMA.names, "_row_id", "_last_updated_sequence_number")).to_arrow().to_pylist()))


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("zorder(x, y)", marks=pytest.mark.slow),
        pytest.param("hilbert(x, y)", marks=pytest.mark.slow),
        "HILBERT(x, `y`, name)",
        "zorder(x,y,name,kind)",
    ],
)
def test_filters_on_any_column_of_a_curve_open_few_files_and_the_next_run_has_nothing_to_do(tmp_path: Path, order: str) -> None:
    table = made(tmp_path)
    scattered(table, 16)
    before, right = content(table), of_right_size(table)
    result = table.maintenance.rewrite_data_files(strategy="sort", sort_order=order, options=right)
    assert (result.rewritten_files, list(result.reasons), result.failed) == (16, ["bounds overlap"], ())
    assert content(table) == before
    files = len(table.scan().plan_files())
    assert len(table.scan("x < 100000 and y < 0.1").plan_files()) <= files / 3
    for row_filter in ("x between 450000 and 460000", "y between 0.45 and 0.46"):
        assert len(table.scan(row_filter).plan_files()) <= files * 0.7
    assert {task.file.sort_order_id for task in table.scan().plan_files()} <= {None, 0}
    assert table.maintenance.rewrite_data_files(sort_order=order, options=right, dry_run=True).rewritten_files == 0


def test_only_new_scattered_files_are_placed_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    scattered(table, 20)
    right = of_right_size(table)
    table.maintenance.rewrite_data_files(sort_order="hilbert(x, y)", options=right)
    scattered(table, 4)
    result = table.maintenance.rewrite_data_files(sort_order="hilbert(x, y)", options=right)
    assert (result.rewritten_files, list(result.reasons)) == (4, ["bounds overlap"])


def test_nulls_nan_and_negative_zero_stay_as_they_are(tmp_path: Path) -> None:
    table = made(tmp_path)
    nan = float("nan")
    for _ in range(5):
        table.append(pa.table([[None, -5, 5, None], [nan, -0.0, None, -1e300], [None, "", "\U0001f600", "a"], [None] * 4], schema=SCHEMA))
    before = content(table)
    for order in ("zorder(x, y, name)", "hilbert(y, x)", "hilbert(kind, y)"):
        table.maintenance.rewrite_data_files(sort_order=order, options={"rewrite-all": True})
        assert content(table) == before


def test_columns_with_one_value_in_each_partition_are_left_out(tmp_path: Path) -> None:
    table = made(tmp_path, "kind")
    scattered(table, 6)
    before = content(table)
    assert table.maintenance.rewrite_data_files(sort_order="hilbert(kind, x)", options={"min-input-files": 2}).rewritten_files == 12
    assert content(table) == before
    with pytest.raises(InvalidInputError, match="every column of zorder has one value in each partition"):
        table.maintenance.rewrite_data_files(sort_order="zorder(kind)")


def test_options_of_curves_are_those_of_java_and_of_curves_alone(tmp_path: Path) -> None:
    table = made(tmp_path)
    scattered(table, 5)
    before = content(table)
    options = {
        "var-length-contribution": 4,
        "max-output-size": "2",
        "shuffle-partitions-per-file": 1,
        "rewrite-all": True,
        "cache-delete-files": "true",
    }
    assert table.maintenance.rewrite_data_files(sort_order="zorder(name, x)", options=options).rewritten_files == 5
    assert content(table) == before
    with pytest.raises(InvalidInputError, match="no option max-output-size without zorder or hilbert"):
        table.maintenance.rewrite_data_files(sort_order="x", options={"max-output-size": 8})
    with pytest.raises(InvalidInputError, match="var-length-contribution is '0'"):
        table.maintenance.rewrite_data_files(sort_order="zorder(x)", options={"var-length-contribution": 0})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"sort_order": "zorder(x), y"}, r"zorder\(...\) is the whole order"),
        ({"sort_order": "hilbert(x)"}, "takes 2 to 6"),
        ({"sort_order": "zorder()"}, "a name was expected"),
        ({"sort_order": "zorder(x, z)"}, "z"),
        ({"sort_order": "zorder(x, x)"}, "twice"),
        ({"strategy": "zorder"}, "no strategy 'zorder'"),
        ({"strategy": "binpack", "sort_order": "zorder(x, y)"}, "keeps the order"),
    ],
)
def test_wrong_orders_are_refused(tmp_path: Path, arguments: dict[str, str], reason: str) -> None:
    table = made(tmp_path)
    scattered(table, 2)
    with pytest.raises(IcefloeError, match=reason):
        table.maintenance.rewrite_data_files(**arguments)
