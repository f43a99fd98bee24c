"""Planning with 10,000 delete files and with ten times as many data files, compared with the plain table: the growth of the work.

Each plan runs in a new process. The tables use the manifests of `planning_table.py`, so that the data files are the same. Half of the delete files are
position deletes of one data file each, the others equality deletes of a partition; fastavro writes their manifests.
"""

import json
import random
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastavro

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

REPEATS = 5
DELETE_MANIFESTS, DELETES_PER_MANIFEST = 10, 1_000
TIMES = 10  # factor of the number of files
PATH_ID = 2147483546
NUMBER = planning_table.SEQUENCE_NUMBER + 1


def run() -> list[Comparison]:
    """Measure plans without a filter, and with one that keeps few files."""
    folder = measure.BUILD / "planning"
    plain = planning_table.metadata_path(folder)
    say("deletes: 10,000 delete files, and a million data files (made once, half a minute)")
    tables = {"plain": plain, "deletes": with_deletes(folder, plain), "many": with_more_manifests(plain)}
    lines = []
    for side, form, row_filter, title, goal in (
        ("deletes", "columns", "", "all files, with 10,000 delete files (without) as columns", "<= 1.5"),
        ("deletes", "tasks", "", "all files, with 10,000 delete files (without) as task objects", "<= 1.5"),
        ("deletes", "columns", planning_table.ID_FILTER, "0.1 % of the files by bounds, with 10,000 delete files (without)", "<= 1.5"),
        ("many", "columns", "", "1,000,000 files (100,000)", "<= 10"),
        ("many", "columns", planning_table.FEW_FILTER, "0.02 % of 1,000,000 files by bounds (of 100,000)", "<= 10"),
    ):
        say(f"deletes: {title}")
        arguments = [row_filter] if row_filter else []
        runs = {name: partial(child, "icefloe", "planning_child.py", str(tables[name]), form, *arguments) for name in (side, "plain")}
        taken = interleaved(REPEATS if side == "deletes" else 1, runs)
        ours, theirs = (median([one["cpu"] for one in taken[name]]) for name in (side, "plain"))
        lines.append(Comparison(f"planning, {title}: CPU time", seconds(ours), seconds(theirs), ours / theirs, goal))
        if side == "many" and not row_filter:
            ours, theirs = (median([one["peak"] for one in taken[name]]) for name in (side, "plain"))
            lines.append(Comparison(f"planning, {title}: peak memory", f"{ours:.0f} MB", f"{theirs:.0f} MB", ours / theirs, "<= 1,000 MB"))
    return lines


def with_deletes(folder: Path, plain: Path) -> Path:
    """Create the table with a delete file for every tenth data file; return the path of its metadata file."""
    path = plain.with_name("00002-deletes.metadata.json")
    if path.exists():
        return path
    files = data_files(str(folder))
    manifests = manifests_of(plain)
    for number in range(DELETE_MANIFESTS):
        manifest = plain.with_name(f"deletes-m{number}.avro")
        entries = [delete_of(next(files), number * DELETES_PER_MANIFEST + index, str(folder)) for index in range(DELETES_PER_MANIFEST)]
        planning_table.write_avro(
            manifest, planning_table.manifest_schema(), entries, {**planning_table.manifest_properties(), "content": "deletes"}
        )
        record = planning_table.manifest_list_record(manifest, entries)
        manifests.append({**record, "content": 1, "sequence_number": NUMBER, "min_sequence_number": NUMBER})
    return write_table(plain, path, manifests)


def with_more_manifests(plain: Path) -> Path:
    """Create the table with each manifest `TIMES` times in the list, under other names; return the path of its metadata file."""
    path = plain.with_name("00003-many-named.metadata.json")
    if path.exists():
        return path
    manifests = manifests_of(plain)
    return write_table(plain, path, [linked(record, turn) for turn in range(TIMES) for record in manifests])


def linked(record: dict[str, Any], turn: int) -> dict[str, Any]:
    """Return the record of a hard link to a manifest: under one name, a manifest that was decoded would be taken from memory."""
    manifest = Path(record["manifest_path"])
    link = manifest.with_name(f"{manifest.stem}-{turn}.avro")
    link.unlink(missing_ok=True)
    link.hardlink_to(manifest)
    return {**record, "manifest_path": str(link)}


def data_files(location: str) -> Iterator[dict[str, Any]]:
    """Yield every tenth data file of the table, generated from the same random seed."""
    chance = random.Random(planning_table.SEED)
    for _ in range(planning_table.MANIFESTS):
        for number, entry in enumerate(planning_table.entries_of(chance, location)):
            if number % 10 == 0:
                yield entry["data_file"]


def delete_of(data_file: dict[str, Any], number: int, location: str) -> dict[str, Any]:
    """Return the manifest entry of a delete file that applies to the data file."""
    path = data_file["file_path"].encode()
    low = number * 100_000
    is_equality = number % 2 == 1
    bounds = [{planning_table.ID: struct.pack("<q", low + extra)} if is_equality else {PATH_ID: path} for extra in (0, 1_000_000)]
    counted = planning_table.ID if is_equality else PATH_ID
    return {
        "status": 1,
        "snapshot_id": planning_table.SNAPSHOT_ID,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {
            **data_file,
            "content": 2 if is_equality else 1,
            "file_path": f"{location}/data/delete-{number:05}.parquet",
            "record_count": 100,
            "file_size_in_bytes": 2_000,
            "column_sizes": planning_table.pairs({counted: 1_000}),
            "value_counts": planning_table.pairs({counted: 100}),
            "null_value_counts": planning_table.pairs({counted: 0}),
            "nan_value_counts": [],
            "lower_bounds": planning_table.pairs(bounds[0]),
            "upper_bounds": planning_table.pairs(bounds[1]),
            "split_offsets": [4],
            "equality_ids": [planning_table.ID] if is_equality else None,
            "sort_order_id": None,
        },
    }


def manifests_of(plain: Path) -> list[dict[str, Any]]:
    """Return the records of a table's manifest list."""
    metadata = json.loads(plain.read_text())
    with Path(metadata["snapshots"][0]["manifest-list"]).open("rb") as file:
        return [dict(record) for record in fastavro.reader(file)]  # type: ignore[call-overload]  # records, not other Avro values


def write_table(plain: Path, path: Path, manifests: list[dict[str, Any]]) -> Path:
    """Write the metadata of the plain table with another manifest list."""
    manifest_list = path.with_suffix(".avro")
    planning_table.write_avro(manifest_list, planning_table.MANIFEST_LIST_SCHEMA, manifests, {"format-version": "2"})
    metadata = json.loads(plain.read_text())
    metadata["last-sequence-number"] = metadata["snapshots"][0]["sequence-number"] = NUMBER
    metadata["snapshots"][0]["manifest-list"] = str(manifest_list)
    path.write_text(json.dumps(metadata))
    return path
