"""The targets of the fuzzer: for each reader its seeds, how they are damaged, and how a damaged one is read.

A target's `read` returns for an input that it accepts, and raises one of `allowed` for an input that it refuses; any other outcome is a failure. An accepted
input is also used: it is written again, every entry of it is read, or it is decoded to the end.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from tests.fuzz import corpus, mutate
from tests.server import planned_streams
from tests.spec.avro.both_readers import READERS, reading_by
from tests.spec.manifest.made_up_entries import EVERY_PARTITION

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_file_reader import read_delete_columns, read_position_deletes
from icefloe.errors import EngineError, FormatError, IcefloeError, NoSuchFileError, Problem, PuffinFormatError
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.task_errors import error_in, seal
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.expression_json import expression_from_json, expression_to_json
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.geo_bounds import geospatial_bound_from_bytes
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.manifest_reader import fill_counts, open_manifest, read_columns, read_entries, read_manifest_header, read_records
from icefloe.spec.manifest_list.manifest_list_reader import has_row_ids, read_manifest_list
from icefloe.spec.metadata.metadata_reader import check_table_metadata, read_table_metadata
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.requirement import requirement_from_json, requirement_to_json
from icefloe.spec.metadata.update_json import update_from_json, update_to_json
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.puffin.deletion_vector import decode_deletion_vector, encode_deletion_vector, vector_location
from icefloe.spec.puffin.puffin_file import in_memory_puffin, read_blob, read_file_metadata
from icefloe.spec.puffin.theta_sketch import EMPTY_SKETCH, sketch_from_bytes, union
from icefloe.spec.schema.name_mapping import mapping_from_json, mapping_to_json
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json, schema_to_json
from icefloe.spec.types import LongType
from icefloe.spec.variant import Scalar, bounds_from_bytes, bounds_to_bytes, decode, variant_from_python
from icefloe.spec.view.view_metadata_json import read_view_metadata, write_view_metadata
from icefloe.spec.wkb import text_of_wkb, wkb_of_text

PATH = "fuzz://some.file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One reader. `share` is its part of all cases, in the unit of the others' shares."""

    seeds: Callable[[], Sequence[bytes]]
    damage: mutate.Mutate
    read: Callable[[bytes], object]
    share: int
    allowed: tuple[type[Exception], ...] = (IcefloeError,)


def _table_metadata(content: bytes) -> None:
    problems = check_table_metadata(content, PATH)
    metadata = read_table_metadata(content, PATH)
    lists = (metadata.snapshots, metadata.schemas, metadata.partition_specs, metadata.sort_orders, metadata.snapshot_log)
    for entries in (*lists, metadata.metadata_log, metadata.statistics, metadata.partition_statistics, metadata.encryption_keys):
        list(entries)
    assert not any(problem.where == "" for problem in problems)
    read_table_metadata(write_table_metadata(metadata), PATH)


_SIGNED = (
    NoSuchFileError("gone", path="/a/b", next_step="look"),
    FormatError("torn icefloe-error[AAAA]", table="db.t", snapshot_id=7, problems=[Problem(where="$.a", what="is null")]),
)
_SIGNED_FOR, _SIGNING_KEY = "job", b"k" * 32


def _failure_of_task(content: bytes) -> None:
    """What is read is what was signed, field by field, however its text was damaged."""
    error = error_in(content.decode("utf-8", "surrogateescape"), _SIGNED_FOR, _SIGNING_KEY)
    if error is None:
        raise EngineError("no error of this job")
    assert [one for one in _SIGNED if type(error) is type(one) and vars(error) == vars(one)]


def _view(content: bytes) -> None:
    view = read_view_metadata(content, PATH)
    for entries in (view.schemas, view.versions, view.version_log):
        list(entries)
    assert read_view_metadata(write_view_metadata(view), PATH) == view


def _schema(content: bytes) -> None:
    schema = schema_from_json(json.loads(content))
    again = schema_from_json(json.loads(json.dumps(schema_to_json(schema))))
    identity = (repr(again.fields), again.schema_id, again.identifier_field_ids)  # texts, as NaN in a default is not equal to itself
    assert identity == (repr(schema.fields), schema.schema_id, schema.identifier_field_ids)


def _mapping(content: bytes) -> None:
    mapping = mapping_from_json(content.decode("utf-8", "surrogateescape"))
    assert mapping_from_json(mapping_to_json(mapping)) == mapping


def _expression(content: bytes) -> None:
    value = json.loads(content)
    expression_to_json(expression_from_json(value))
    expression_to_json(expression_from_json(value, schema_from_json(corpus.SCHEMA_JSON)))


def _filter(content: bytes) -> None:
    expression = parse_filter(content.decode("utf-8", "replace"))
    assert parse_filter(str(expression)) is not None
    bind(expression, schema_from_json(corpus.SCHEMA_JSON))


def _update(content: bytes) -> None:
    value = json.loads(content)
    if isinstance(value, dict) and "action" not in value:
        requirement_to_json(requirement_from_json(value))
    else:
        update_to_json(update_from_json(value))


def _by_both(read: Callable[[bool], object]) -> None:
    """Reads by the compiled reader and by the one over fastavro: what both read is equal. Each may refuse damage that the other does not see."""
    results: list[object] = []
    refusals: list[IcefloeError] = []
    for by_compiled in READERS:
        with reading_by(by_compiled):
            try:
                results.append(read(by_compiled))
            except IcefloeError as error:
                refusals.append(error)
    if refusals:
        raise refusals[-1]
    assert len({repr(result) for result in results}) == 1, "the readers give different values"


_STATISTICS = tuple((name, field_id) for name in ("lower_bound", "upper_bound", "null_value_count") for field_id in (1, 2, 2147483546))


def _rows(table: Any) -> list[object]:
    """Return the columns as Python values, text as its bytes: damaged files may hold text that is not UTF-8."""
    return [column.cast(pa.binary()).to_pylist() if pa.types.is_string(column.type) else column.to_pylist() for column in table.columns]


def _has_a_key_twice(entries: Any) -> bool:
    maps = [column for column in entries.columns if pa.types.is_map(column.type)]
    return any(len(dict(pairs)) < len(pairs) for column in maps for pairs in column.to_pylist() if pairs is not None)


def _manifest(content: bytes) -> None:
    read_manifest_header(content, PATH)
    manifests = [manifest for _, manifest in corpus.manifests()][:4]

    def whole(by_compiled: bool) -> object:
        results: list[object] = []
        for listed in (manifests[0], manifests[2]):  # as a data and as a delete manifest
            manifest = replace(listed, manifest_path=PATH, manifest_length=len(content), added_files_count=None, deleted_files_count=None)
            statistics = read_columns(content, manifest, EVERY_PARTITION, statistics=_STATISTICS).entries
            entries = read_columns(content, manifest, EVERY_PARTITION, whole=True).entries
            if by_compiled:
                read_records([manifest], [open_manifest(content, manifest)], EVERY_PARTITION)
            results += (read_entries(content, manifest, EVERY_PARTITION), fill_counts(content, manifest))
            with_a_key_twice.append(_has_a_key_twice(entries))
            if not any(with_a_key_twice):
                results += (_rows(statistics), _rows(entries))
        return results

    # Of a map with a key twice, which the format forbids, either value may count. The compiled reader, which keeps both, reads such a manifest first.
    with_a_key_twice: list[bool] = []
    with reading_by(READERS[-1]), suppress(IcefloeError):
        whole(by_compiled=False)
    _by_both(whole)


def _manifest_list(content: bytes) -> None:
    _by_both(lambda _: (read_manifest_list(content, PATH), has_row_ids(content, PATH)))


def _puffin(content: bytes) -> None:
    source = in_memory_puffin(content, PATH)
    for blob in read_file_metadata(source).blobs:
        if blob.type == "deletion-vector-v1":
            vector_location(blob, path=PATH)
        read_blob(source, blob)


_HELD = re.compile(r"contains (\d+) positions where")


def _vector(content: bytes) -> None:
    try:
        vector = decode_deletion_vector(content, cardinality=-1, path=PATH)
    except PuffinFormatError as error:
        held = _HELD.search(str(error))
        if held is None:
            raise
        vector = decode_deletion_vector(content, cardinality=int(held[1]), path=PATH)
    if vector.cardinality <= 1_000_000:
        vector.positions()
    vector.deleted_rows(0, 1000)
    decode_deletion_vector(encode_deletion_vector(vector), cardinality=vector.cardinality, path=PATH)


def _sketch(content: bytes) -> None:
    sketch = sketch_from_bytes(content)
    assert sketch.ndv >= 0
    assert sketch_from_bytes(union([sketch, EMPTY_SKETCH]).to_bytes()).ndv >= 0


def _variant(content: bytes) -> None:
    names = content[0] if content else 0
    decode(content[1 : 1 + names], content[1 + names :])


def _variant_seeds() -> list[bytes]:
    values = [None, True, {"a": [1, {"b": None}], "c": {"d": [True] * 5}}, [], {}, {str(number): None for number in range(20)}]
    found = []
    for value in values:
        parts = variant_from_python(value)
        found.append(bytes([len(parts.metadata)]) + parts.metadata + parts.value)
    return found


def _shape_text(content: bytes) -> None:
    text_of_wkb(wkb_of_text(content.decode("utf-8", "replace")))


_SHAPES = [
    "POINT (1 2)",
    "LINESTRING Z (1 2 3, 4 5 6)",
    "MULTIPOLYGON M (((0 0 1, 1 0 1, 0 1 1, 0 0 1)))",
    "GEOMETRYCOLLECTION (POINT EMPTY, POINT (1 2))",
]
_IO = MemoryFileIO()
_AT = "memory://fuzz/file"


def _rows_of(place: int) -> Callable[[bytes], None]:
    """Return a reader that reads damaged bytes as the data file or delete file at that place of the corpus."""

    def read(content: bytes) -> None:
        _IO.write(_AT, content, overwrite=True)
        file: DataFile = replace(corpus.rows_files()[place][1], file_path=_AT, file_size_in_bytes=len(content))
        if file.content is FileContent.DATA:
            task = FileScanTask(file=file, residual=AlwaysTrue(), length=len(content))
            schema = corpus.ROWS_SCHEMA
            for batch in read_task(_IO, task, schema=schema, projection=schema, specs={0: UNPARTITIONED_SPEC}):
                batch.validate()  # in full, it would look for text that is none, which files without checksums may have
        elif file.content is FileContent.EQUALITY_DELETES:
            for batch in read_delete_columns(_IO, file, Schema(*corpus.ROWS_SCHEMA.fields[:2]).fields):
                batch.validate()
        else:
            read_position_deletes(_IO, file)

    return read


def _rows_target(place: int, damage: mutate.Mutate = mutate.any_bytes) -> Target:
    return Target(seeds=lambda: [corpus.rows_files()[place][0]], damage=damage, read=_rows_of(place), share=1)


def _planned_stream(content: bytes) -> None:
    plan = planned_streams.read(content)
    assert len(list(plan.tasks())) == plan.kept.files


TARGETS: dict[str, Target] = {
    "table-metadata": Target(seeds=corpus.metadata_files, damage=mutate.json_or_bytes, read=_table_metadata, share=16),
    "manifest": Target(seeds=lambda: [content for content, _ in corpus.manifests()], damage=mutate.avro, read=_manifest, share=20),
    "manifest-list": Target(seeds=corpus.manifest_lists, damage=mutate.avro, read=_manifest_list, share=14),
    "puffin": Target(seeds=corpus.puffin_files, damage=mutate.puffin, read=_puffin, share=12),
    "packed-puffin": Target(seeds=corpus.packed_puffin_files, damage=mutate.any_bytes, read=_puffin, share=4),
    "deletion-vector": Target(seeds=corpus.vectors, damage=mutate.vector, read=_vector, share=12),
    "theta-sketch": Target(seeds=corpus.sketches, damage=mutate.any_bytes, read=_sketch, share=4),
    "failure-of-task": Target(
        seeds=lambda: [f"{error}\n{seal(error, _SIGNED_FOR, _SIGNING_KEY)}\n  at x".encode() for error in _SIGNED],
        damage=mutate.any_bytes,
        read=_failure_of_task,
        share=4,
    ),
    "view": Target(seeds=lambda: corpus.encoded(corpus.VIEW_JSON), damage=mutate.json_or_bytes, read=_view, share=8),
    "schema": Target(seeds=lambda: corpus.encoded(corpus.SCHEMA_JSON), damage=mutate.any_json, read=_schema, share=10),
    "name-mapping": Target(seeds=lambda: corpus.encoded(corpus.MAPPING_JSON), damage=mutate.json_or_bytes, read=_mapping, share=5),
    "expression": Target(seeds=lambda: corpus.encoded(*corpus.EXPRESSIONS_JSON), damage=mutate.any_json, read=_expression, share=8),
    "filter": Target(seeds=lambda: corpus.FILTERS, damage=mutate.any_bytes, read=_filter, share=2),
    "update": Target(seeds=corpus.updates, damage=mutate.any_json, read=_update, share=6),
    "variant": Target(seeds=_variant_seeds, damage=mutate.any_bytes, read=_variant, share=4),
    "variant-bounds": Target(
        seeds=lambda: [bounds_to_bytes({"$": True, "$['a']['b']": Scalar(LongType(), 5)})],
        damage=mutate.any_bytes,
        read=bounds_from_bytes,
        share=2,
    ),
    "shape": Target(
        seeds=lambda: [wkb_of_text(text) for text in _SHAPES], damage=mutate.any_bytes, read=text_of_wkb, share=3, allowed=(ValueError,)
    ),
    "shape-text": Target(
        seeds=lambda: [text.encode() for text in _SHAPES], damage=mutate.any_bytes, read=_shape_text, share=2, allowed=(ValueError,)
    ),
    "corner": Target(
        seeds=lambda: [b"\x00" * 16, b"\x00" * 32],
        damage=mutate.any_bytes,
        read=geospatial_bound_from_bytes,
        share=1,
        allowed=(IcefloeError, ValueError),
    ),
    **{
        name: _rows_target(place, damage)
        for place, (name, damage) in enumerate(
            [
                ("parquet-plain", mutate.any_bytes),
                ("parquet-zstd", mutate.any_bytes),
                ("orc-plain", mutate.any_bytes),
                ("avro-rows-plain", mutate.avro),
                ("avro-rows-zstd", mutate.avro),
                ("equality-deletes", mutate.any_bytes),
                ("position-deletes", mutate.any_bytes),
            ]
        )
    },
    "planned-stream": Target(seeds=planned_streams.streams, damage=mutate.any_bytes, read=_planned_stream, share=6),
    # Sizes and counts alone: what a file claims of itself, where the rest of it is sound.
    "manifest-sizes": Target(
        seeds=lambda: [content for content, _ in corpus.manifests()], damage=mutate.avro_sizes, read=_manifest, share=6
    ),
    "manifest-list-sizes": Target(seeds=corpus.manifest_lists, damage=mutate.avro_sizes, read=_manifest_list, share=4),
    "avro-rows-sizes": _rows_target(3, mutate.avro_sizes),
    "parquet-footer": _rows_target(0, mutate.end_sizes),
    "parquet-zstd-footer": _rows_target(1, mutate.end_sizes),
    "orc-tail": _rows_target(2, mutate.end_sizes),
    "puffin-sizes": Target(seeds=corpus.packed_puffin_files, damage=mutate.end_sizes, read=_puffin, share=2),
    "variant-sizes": Target(seeds=_variant_seeds, damage=mutate.sizes, read=_variant, share=2),
    "planned-stream-sizes": Target(seeds=planned_streams.streams, damage=mutate.sizes, read=_planned_stream, share=3),
    "packed-metadata": Target(seeds=corpus.metadata_files, damage=mutate.packed_json, read=_table_metadata, share=3),
}


def input_of(name: str, number: int, seed: int) -> bytes:
    """Return the damaged input of one case."""
    target: Any = TARGETS[name]
    chance = mutate.Random(f"{seed}:{name}:{number}")
    damaged: bytes = target.damage(chance, _seeds(name))
    return damaged


_KEPT: dict[str, Sequence[bytes]] = {}


def _seeds(name: str) -> Sequence[bytes]:
    if name not in _KEPT:
        _KEPT[name] = TARGETS[name].seeds()
    return _KEPT[name]


def seeds_of(name: str) -> Sequence[bytes]:
    """The sound inputs that a target starts from."""
    return _seeds(name)
