"""Child process that writes the manifests of a table again with PyIceberg: `planning_rewritten_child.py pyiceberg METADATA FOLDER`.

PyIceberg closes a block after every entry, so that the new manifests have the same entries in many small blocks. It runs in PyIceberg's Python environment.
"""

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path


def main(metadata: str, target: str) -> None:
    """Write manifests, manifest list and metadata file into `target`, which exists only when it is complete."""
    manifest_module = import_module("pyiceberg.manifest")
    io = import_module("pyiceberg.io.pyarrow").PyArrowFileIO()
    table = import_module("pyiceberg.table").StaticTable.from_metadata(metadata)
    snapshot = table.current_snapshot()
    building = Path(target + ".building")
    shutil.rmtree(building, ignore_errors=True)
    (building / "metadata").mkdir(parents=True)
    manifests = []
    for manifest in snapshot.manifests(io):
        name = f"metadata/{Path(manifest.manifest_path).name}"
        output = io.new_output(str(building / name))
        with manifest_module.write_manifest(2, table.spec(), table.schema(), output, snapshot.snapshot_id, "deflate") as writer:
            for entry in manifest.fetch_manifest_entry(io):
                writer.add(entry)
        written = writer.to_manifest_file()
        written[0] = f"{target}/{name}"  # where it will be
        manifests.append(written)
    list_name = f"metadata/{Path(snapshot.manifest_list).name}"
    output = io.new_output(str(building / list_name))
    with manifest_module.write_manifest_list(2, output, snapshot.snapshot_id, None, snapshot.sequence_number, "deflate") as lists:
        lists.add_manifests(manifests)
    content = json.loads(Path(metadata).read_text())
    content["snapshots"][0]["manifest-list"] = f"{target}/{list_name}"
    (building / "metadata" / Path(metadata).name).write_text(json.dumps(content))
    building.rename(target)
    print(json.dumps({"metadata": f"{target}/metadata/{Path(metadata).name}"}))


if __name__ == "__main__":
    main(*sys.argv[2:])
