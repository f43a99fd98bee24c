"""Random damage of random files: whatever default repairs do, no row is there that no snapshot had, and none is gone whose file is there."""

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from tests.checks.stored_table import Record, edit_avro, records_of
from tests.repair.broken_table import BrokenTable
from tests.repetitions import examples

from icefloe.checks.repair_kinds import REPAIRS
from icefloe.errors import FormatWarning, IcefloeError

LEVELS = ("data", "deletes", "manifest", "manifest list", "metadata")
Damage = tuple[str, str, int, float]
DAMAGES = st.lists(
    st.tuples(
        st.sampled_from(LEVELS),
        st.sampled_from(("delete", "truncate", "flip", "wrong count", "wrong bound", "twice", "wrong total")),
        st.integers(0, 10),
        st.floats(0, 1, exclude_max=True),
    ),
    min_size=1,
    max_size=3,
)
MakeTable = Callable[[str, int], BrokenTable]


def files_of_level(broken: BrokenTable, level: str) -> list[Path]:
    folder = broken.folder / "db" / "t"
    patterns = {
        "data": ("data/*/*.parquet", lambda name: "-deletes-" not in name),
        "deletes": ("data/**/*", lambda name: "-deletes-" in name or name.endswith(".puffin")),
        "manifest": ("metadata/*-m*.avro", lambda _: True),
        "manifest list": ("metadata/snap-*.avro", lambda _: True),
        "metadata": ("metadata/*.metadata.json", lambda _: True),
    }
    pattern, is_of_level = patterns[level]
    return sorted(path for path in folder.glob(pattern) if is_of_level(path.name))


def inflict(broken: BrokenTable, damage: Damage) -> None:
    """Damage one file; a change of an entry is one of a manifest, which the lists still describe as before."""
    level, how, which, where = damage
    paths = files_of_level(broken, level)
    if not paths:
        return
    path = paths[which % len(paths)]
    if how == "delete":
        path.unlink()
        return
    content = path.read_bytes()
    place = int(len(content) * where)
    if how == "truncate":
        path.write_bytes(content[:place])
    elif how == "flip" and content:
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
    elif level == "manifest":
        edit_avro(path, lambda entries: change_entry(entries, how, which))
    elif level == "metadata" and how == "wrong total":
        path.write_bytes(content.replace(b'"total-records":"', b'"total-records":"1'))


def change_entry(entries: list[Record], how: str, which: int) -> None:
    if not entries:
        return
    entry = entries[which % len(entries)]
    if how == "wrong count":
        entry["data_file"]["record_count"] += 1
    elif how == "wrong bound":
        entry["data_file"]["lower_bounds"] = None
    elif how == "twice":
        entries.append(entry)


def rows_by_file(broken: BrokenTable) -> dict[str, list[str]]:
    """Return the rows of the current snapshot by the path of their file. A manifest that was damaged twice may be whole and have another length."""
    rows: dict[str, list[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        found: list[dict[str, Any]] = broken.table.scan(selected_fields=("day", "n", "_file")).to_arrow().to_pylist()
    for row in found:
        rows.setdefault(str(row.pop("_file")), []).append(str(row))
    return {path: sorted(values) for path, values in rows.items()}


def check_rows_of_history(broken: BrokenTable, ever: Counter[str]) -> dict[str, list[str]] | None:
    """Return the rows of the table by file, each of which some snapshot had; None if it cannot be read."""
    try:
        after = rows_by_file(broken)
    except IcefloeError as error:
        event(f"not readable: {error.code}")
        return None
    assert Counter(row for rows in after.values() for row in rows) <= ever
    return after


def history(broken: BrokenTable) -> Counter[str]:
    """Return the rows that some snapshot had, each as often as the snapshot that had it most often."""
    rows: Counter[str] = Counter()
    table = broken.table
    for snapshot in table.snapshots():
        rows |= Counter(map(str, table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()))
    return rows


@dataclass(frozen=True, repr=False)
class Model:
    """A sound table: its format version, rows by file, rows of its history, and files. Without them in its text, which hypothesis prints."""

    version: int
    rows: dict[str, list[str]]
    history: Counter[str]
    files: dict[str, bytes]


@pytest.fixture(scope="module", params=[1, 2, 3])
def model(request: pytest.FixtureRequest, sound: MakeTable) -> Model:
    broken = sound("of", request.param)
    return Model(request.param, rows_by_file(broken), history(broken), broken.files())


def test_repairs_never_add_a_row_and_default_ones_never_drop_one_whose_file_is_there(model: Model, sound: MakeTable) -> None:
    repaired: Counter[str] = Counter()

    @settings(max_examples=examples(25, least=8), suppress_health_check=[HealthCheck.too_slow])
    @example(damages=[("data", "delete", 0, 0.5)], named=None)
    @example(damages=[("manifest", "wrong count", which, 0.5) for which in range(8)], named=None)
    @given(damages=DAMAGES, named=st.sampled_from((None, *(kind.id for kind in REPAIRS if not kind.is_default))))
    def check(damages: list[Damage], named: str | None) -> None:
        repaired.update(check_repairs(model, sound("of", model.version), damages, named))

    check()
    assert len(repaired) >= 2, "plans repair next to nothing any more"


def check_repairs(model: Model, broken: BrokenTable, damages: list[Damage], named: str | None) -> list[str]:
    """Inflict damages, repair them, compare the rows, and return the ids of the repairs that were done."""
    # Entries are changed first: a file whose bytes are damaged may have none that can be decoded.
    for damage in sorted(damages, key=lambda one: one[1] in ("delete", "truncate", "flip")):
        inflict(broken, damage)
    damaged_files = broken.files()
    repaired: list[str] = []
    for _ in range(4):  # the metadata file first, then the snapshot, then nothing
        try:
            planned = broken.plan()
        except IcefloeError as error:
            event(f"no plan: {error.code}")
            break
        assert damaged_files.items() <= broken.files().items(), "a plan changes nothing, and no repair deletes a file"
        if not planned.chosen:
            break
        repaired += planned.apply().repairs
    event(f"repaired: {len(repaired)}")
    after = check_rows_of_history(broken, model.history)
    if named is not None and broken.plan(named).chosen:
        event(f"named: {named}")
        broken.plan(named).apply()
        check_rows_of_history(broken, model.history)
        assert damaged_files.items() <= broken.files().items()
        return repaired
    for path, rows in model.rows.items():
        is_intact = damaged_files.get(path) == model.files[path]
        if is_intact and repaired and after is not None:
            assert after.get(path) == rows, (repaired, path)
    return repaired


def test_the_damages_reach_every_level(sound: MakeTable) -> None:
    broken = sound("of", 3)
    assert all(files_of_level(broken, level) for level in LEVELS)
    path = files_of_level(broken, "manifest")[0]
    count = len(records_of(path))
    inflict(broken, ("manifest", "twice", 0, 0))
    assert len(records_of(path)) == count + 1
    shutil.rmtree(broken.folder / "db")
