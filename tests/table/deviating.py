"""Tables whose manifest lists deviate from their manifests, as other writers leave them, for tests of tolerant reading."""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from icefloe import FormatWarning, SqlCatalog
from icefloe.spec.tolerance import Deviation
from icefloe.table import Table

ROWS = pa.table({"n": pa.array([*range(99), None], pa.int64()), "part": pa.array([n % 3 for n in range(99)] + [None], pa.int32())})


def made(folder: Path, mode: str = "merge-on-read", version: str = "2") -> Table:
    """Return a table of 90 rows: 100 were added, 10 deleted."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": version, "write.delete.mode": mode})
    with table.update_spec() as update:
        update.add_identity("part")
    table.append(ROWS)
    table.delete("n < 10")
    return table


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def list_path(table: Table) -> Path:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return local(snapshot.manifest_list)


def rewrite(path: Path, change: Callable[[dict[str, Any]], None], nullable: str | None = None) -> None:
    """Rewrite an Avro file with changed records; the type of the field `nullable` is made optional."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records, metadata = reader.writer_schema, list(reader), dict(reader.metadata)
    if nullable is not None:
        schema = copy.deepcopy(schema)
        fields = schema["fields"]
        if nullable == "contains_null":
            partitions = next(field for field in fields if field["name"] == "partitions")
            fields = next(kind for kind in partitions["type"] if kind != "null")["items"]["fields"]
        field = next(field for field in fields if field["name"] == nullable)
        field["type"] = ["null", field["type"]]
    for record in records:
        change(record)
    kept = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema) if nullable else schema, records, metadata=kept)


def one_more_added(record: dict[str, Any]) -> None:
    record["added_files_count"] += 1


@contextmanager
def warned(deviation: Deviation) -> Iterator[None]:
    """Check that the block warns of a deviation, perhaps among others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert any(issubclass(each.category, FormatWarning) and str(each.message).endswith(f" [{deviation}]") for each in caught)
