"""The repair of a table in a REST catalog, whose server writes metadata files itself: its newest snapshot is repaired, and its metadata file is not."""

from pathlib import Path

import pyarrow as pa
from tests.stores.rest.own_server import own_server

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.repair import plan, undo


def test_a_lost_statistics_file_does_not_stop_the_repair_of_the_snapshot(tmp_path: Path) -> None:
    with own_server(tmp_path) as address:
        catalog = RestCatalog("lake", uri=address, warehouse=str(tmp_path / "lake"))
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
        for number in range(3):
            table.append(pa.table({"id": [number]}))
        table.compute_statistics()
        (statistics,) = table.refresh().metadata.statistics
        Path(statistics.statistics_path.removeprefix("file://")).unlink()
        lost = next(task.file.file_path for task in table.scan("id = 1").plan_files())
        Path(lost.removeprefix("file://")).unlink()

        planned = plan(catalog, "db.t")

        assert {repair.repair: repair.is_chosen for repair in planned.repairs} == {"drop-statistics": False, "drop-lost-data-files": True}
        (left,) = planned.left
        assert (left.rule, "writes metadata files itself" in left.why) == ("statistics-missing", True)
        assert planned.apply().rows_lost == 1
        assert sorted(catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist()) == [0, 2]
        undo(catalog, "db.t")
        assert len(list(catalog.load_table("db.t").scan().plan_files())) == 3
        catalog.close()
