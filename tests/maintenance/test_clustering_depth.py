"""The clustering depth of files by a column, against ranges that are compared one by one."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.maintenance.clustering_depth import clustering_depths, is_unclustered
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.table.table import Table

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("text", pa.string()), ("kind", pa.string())])


def made(folder: Path, *spec: str, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=properties)


def append(table: Table, a: list[Any], b: list[Any], text: list[Any], kind: str = "x") -> None:
    table.append(pa.table([a, b, text, [kind] * len(a)], schema=SCHEMA))


def planned(table: Table) -> PlannedFiles:
    scan = table.scan()
    plan = plan_scan(table.metadata, scan.snapshot(), AlwaysTrue(), table.io.read, include_statistics=True, schema=scan.schema())
    (part,) = plan.parts
    return part


@pytest.mark.parametrize("seed", range(4))
def test_depths_are_those_of_ranges_that_are_compared_one_by_one(tmp_path: Path, seed: int) -> None:
    table, numbers = made(tmp_path, "kind"), random.Random(seed)
    for _ in range(25):
        a = sorted(numbers.randrange(30) for _ in range(2))
        append(
            table, [*a, None], [numbers.choice([1.5, -0.0, 0.0, float("nan")]) for _ in range(3)], ["c", None, "d"], numbers.choice("xy")
        )
    part, schema = planned(table), table.schema()
    tasks = list(part.tasks())
    files = [(task.file.partition, *(task.file.lower_bounds[1], task.file.upper_bounds[1])) for task in tasks]
    ranges = [(partition, int.from_bytes(low, "little"), int.from_bytes(high, "little")) for partition, low, high in files]
    depths = clustering_depths(part, 1, schema)
    for place, (partition, low, high) in enumerate(ranges):
        others = [one for one in ranges if one[0] == partition]
        assert depths.files[place] == len(others)
        assert depths.depths[place] == sum(one[1] < high and one[2] > low for one in others)
        assert depths.shares[place] == depths.depths[place] / len(others)


def test_unknown_and_cut_bounds_have_no_depth(tmp_path: Path) -> None:
    table = made(tmp_path, **{"write.metadata.metrics.column.b": "none"})
    append(table, [1, 2], [1.0, 2.0], ["a" * 20, "b" * 20])
    append(table, [None, None], [1.0, 2.0], ["a", "c"])
    part, schema = planned(table), table.schema()
    assert sorted(clustering_depths(part, 1, schema).known.tolist()) == [False, True]
    assert clustering_depths(part, 2, schema).depths.tolist() == [-1, -1]
    assert sorted(clustering_depths(part, 3, schema).files.tolist()) == [0, 1]


def test_files_are_unclustered_if_they_overlap_with_most_others_in_every_column(tmp_path: Path) -> None:
    table = made(tmp_path)
    for place in range(5):  # clustered by a
        append(table, [place * 10, place * 10 + 10], [0.0, 9.0], ["a", "b"])
    assert not is_unclustered(planned(table), field_ids=[1, 2], schema=table.schema()).any()
    for _ in range(4):
        append(table, [0, 50], [0.0, 9.0], ["a", "b"])
    mask = is_unclustered(planned(table), field_ids=[1, 2], schema=table.schema())
    assert mask.sum() == 4
    assert not is_unclustered(
        planned(table), field_ids=[4], schema=table.schema()
    ).any()  # one value throughout: no order separates the files
