"""Child process that writes a manifest, merges many, and prints the CPU seconds: `manifests_child.py icefloe|pyiceberg FOLDER COUNT`.

FOLDER has the manifests of `planning_table.py`. It runs in the Python environment of the engine.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any


def icefloe(folder: Path, count: int) -> dict[str, Any]:
    """Measure Icefloe: write a manifest from columns, and merge manifests as bytes."""
    arrow = import_module("pyarrow")
    read = import_module("icefloe.spec.manifest.manifest_reader").read_columns
    writing = import_module("icefloe.spec.manifest.manifest_column_writer")
    merge = import_module("icefloe.spec.manifest.manifest_merge").merge_manifests
    table = import_module("icefloe.table.static_table").StaticTable.from_metadata(str(folder / "00001-table.metadata.json"))
    manifests = table.current_snapshot().manifests(table.io)[:count]
    spec, kind = table.spec(), manifests[0].partition_type
    contents = [(manifest, Path(manifest.manifest_path.removeprefix("file://")).read_bytes()) for manifest in manifests]
    target = writing.ManifestTarget(
        path="merged.avro",
        schema=table.schema(),
        schema_json="{}",
        spec_fields_json="[]",
        spec_id=spec.spec_id,
        partition_type=kind,
        snapshot_id=1,
        format_version=2,
    )
    entries = arrow.concat_tables([read(content, manifest, kind, whole=True).entries for manifest, content in contents])
    existing = entries.set_column(0, "status", arrow.array([0] * len(entries), arrow.int32()))
    return {
        "entries": len(entries),
        "write": timed(lambda: writing.write_manifest_columns(existing, target)),
        "merge": timed(lambda: merge(contents, target)),
    }


def pyiceberg(folder: Path, count: int) -> dict[str, Any]:
    """Measure PyIceberg: write a manifest from entries, and merge manifests by reading and writing entries."""
    manifest_module, io_module = import_module("pyiceberg.manifest"), import_module("pyiceberg.io.pyarrow")
    table = import_module("pyiceberg.table").StaticTable.from_metadata(str(folder / "00001-table.metadata.json"))
    io = io_module.PyArrowFileIO()
    manifests = table.current_snapshot().manifests(io)[:count]

    def decoded() -> list[Any]:
        return [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(io)]

    def write(entries: list[Any]) -> None:
        output = io.new_output(str(folder / "merged-by-pyiceberg.avro"))
        with manifest_module.write_manifest(2, table.spec(), table.schema(), output, 1, "deflate") as writer:
            for entry in entries:
                writer.existing(entry)

    entries = decoded()
    return {"entries": len(entries), "write": timed(lambda: write(entries)), "merge": timed(lambda: write(decoded()))}


def timed(work: Any) -> float:
    """Return the CPU seconds of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    engine, folder, count = sys.argv[1:]
    print(json.dumps({"icefloe": icefloe, "pyiceberg": pyiceberg}[engine](Path(folder), int(count))))
