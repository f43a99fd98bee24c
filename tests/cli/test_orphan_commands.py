"""The command `remove-orphan-files`."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.procedures import call

JsonCommand = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return an orphan file of the table `db.t`, five days old."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1]}))
    orphan = Path(table.location().removeprefix("file://")) / "data" / "lost.parquet"
    orphan.write_bytes(b"lost")
    os.utime(orphan, (time.time() - 5 * 86_400,) * 2)
    return orphan


def test_orphans_are_shown_listed_purged_and_deleted(icefloe: Command, as_json: JsonCommand, path: Path, tmp_path: Path) -> None:
    words = ("remove-orphan-files", "db.t", "--warehouse", tmp_path)
    planned = as_json(*words, "--dry-run")
    assert (planned["files"], planned["orphan_files"], planned["deleted_files"]) == ([str(path)], 1, 0)
    shown = icefloe(*map(str, words), "--quarantine")
    assert shown.exit_code == 0, shown.stderr
    assert "_orphan-files-" in shown.stdout
    assert len(as_json(*words, "--purge")["waiting_lists"]) == 1
    assert path.exists()
    assert as_json(*words, "--purge", "--delay-days", "0", "--force")["deleted_files"] == 1
    assert not path.exists()
    assert as_json(*words, "--undo")["lists"] == []


def test_wrong_options_are_refused(icefloe: Command, path: Path, tmp_path: Path) -> None:
    words = ("remove-orphan-files", "db.t", "--warehouse", str(tmp_path))
    for wrong, text in (
        (("--purge", "--undo"), "exclude each other"),
        (("--older-than", "yesterday"), "--older-than is 'yesterday'"),
        (("--older-than", "2999-01-01"), "less than 24 hours"),
        (("--delay-days", "0"), "at least one day"),
    ):
        result = icefloe(*words, *wrong)
        assert result.exit_code == 1
        assert text in result.stderr
    assert path.exists()


def test_the_procedure_has_the_names_of_java(path: Path, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    found = [{"orphan_file_location": str(path)}]
    assert call(catalog, "remove_orphan_files", table="db.t", dry_run=True, prefix_listing=True, stream_results=True) == found
    (listed,) = call(catalog, "remove_orphan_files", table="db.t", mode="quarantine")
    assert listed == found[0]
    (dropped,) = call(catalog, "remove_orphan_files", table="db.t", mode="undo")
    assert "_orphan-files-" in dropped["orphan_file_location"]
    with pytest.raises(InvalidInputError, match="in SQL name a view"):
        call(catalog, "remove_orphan_files", table="db.t", file_list_view="files")
    assert call(catalog, "remove_orphan_files", table="db.t", equal_schemes={"s3a": "s3"}) == found
    assert not path.exists()
