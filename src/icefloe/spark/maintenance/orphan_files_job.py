"""The search for orphan files by Spark: tasks list folders and read manifests, and a join on hashes of paths finds the unreferenced files.

The driver does not hold the listed or referenced paths; it only receives the orphan files, in small batches. The rules for names and paths, the order of the
steps, and the same search without Spark are in `icefloe.operations.orphans`. Spec: File Locations in Metadata; Manifests.
"""

import re
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampNTZType, TimestampType

from icefloe.errors import FormatError, InvalidInputError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.file_tree import FileState, FolderFiles, FolderPart, HiddenNames, files_for, local_state
from icefloe.io.locations import local_path, scheme_of
from icefloe.operations.orphans.linked_files import LinkedFiles
from icefloe.operations.orphans.orphan_search import METADATA_NAME, MOST_METADATA_FILES, OrphanRequest, check_metadata_files
from icefloe.operations.orphans.path_database import LISTED, MOST_PREFIXES, SHOWN_FILES, prefix_error, prefixes_error
from icefloe.operations.orphans.path_keys import PathKeys, Prefix, PrefixMismatch
from icefloe.operations.orphans.referenced_files import ReferencedFiles, live_paths, refusal
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, engine_error, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.maintenance.manifest_rows import manifest_rows
from icefloe.spec.ports import FileIO

# The time after which a task in the first round returns the folders that it has not listed. The time doubles in each further round, up to a maximum.
FIRST_SECONDS, LAST_SECONDS = 1.0, 64.0
# Parts of a round for each task that runs at a time, so that one large part does not delay the others.
PARTS_PER_SLOT = 8
# The number of folders that a task lists at the same time, because requests to an object store take long.
_LISTED_AT_ONCE = 4
# The rows of an Arrow batch, and the number of orphan files that are sent to the driver at once.
_ROWS, _PACKED_ROWS = 20_000, 5_000
# Packed rows in a partition.
PACKED_AT_ONCE = 8
# Rows of a Spark Connect view that are in this process at a time.
_VIEW_ROWS = 20_000
# A time that is text or a number could be of any unit and time zone.
_VIEW_COLUMNS: Mapping[str, tuple[type, ...]] = {"file_path": (StringType,), "last_modified": (TimestampType, TimestampNTZType)}

_PARTS = StructType([StructField("folder", StringType()), StructField("level", IntegerType())])
_KEYED = [StructField("key", StringType()), StructField("scheme", StringType()), StructField("authority", StringType())]
_FILES = [StructField("path", StringType()), StructField("size_in_bytes", LongType()), StructField("modified_ms", LongType())]
_LISTED_ROWS = StructType([*_PARTS.fields, *_FILES, *_KEYED])
# Rows of referenced files. A row with only a folder is a local folder that may contain symbolic links.
_REFERENCED_ROWS = StructType([StructField("folder", StringType()), *_KEYED])
_PACKED = StructType([StructField("orphans", BinaryType())])
_LISTED_ARROW = pa.schema([("folder", pa.string()), ("level", pa.int32()), *LISTED, *((column.name, pa.string()) for column in _KEYED)])
_REFERENCED_ARROW = pa.schema([("folder", pa.string()), *((column.name, pa.string()) for column in _KEYED)])


@dataclass(frozen=True)
class SeenFile:
    """A local file, and its state (size and times) as the driver sees it.

    An executor that sees a different state has its own disk, so that the files that it lists are not those of the table.
    """

    location: str
    state: FileState

    @staticmethod
    def of(folder: str, location: str) -> "SeenFile | None":
        """Return the file with its state in this process; None if the folder or the location is not local, or no regular file exists there."""
        if {scheme_of(folder), scheme_of(location)} != {"file"}:
            return None
        with suppress(OSError):  # deleted meanwhile; if the search needs the file, it fails with its own error
            if (state := local_state(local_path(location))) is not None:
                return SeenFile(location, state)
        return None

    def check(self, folder: str) -> None:
        """Raise `StorageError` if the file has a different state in this process, or does not exist."""
        state = None
        with suppress(OSError):
            state = local_state(local_path(self.location))
        if state != self.state:
            raise StorageError(
                f"{folder} is a folder of the driver's machine, and {socket.gethostname()}, which has to list it, does not see {self.location} there as"
                " the driver does; nothing was deleted",
                path=folder,
                next_step="run it with engine='in-process', or keep the table in storage that all machines share",
            )


@dataclass(frozen=True)
class FolderLister:
    """A function for `mapInArrow`: it lists folders and their subfolders for some time, and returns rows for files, and for folders that it has not listed."""

    io: FileIO
    hidden: HiddenNames
    keys: PathKeys
    seconds: float
    seen: SeenFile | None = None
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """List the folders in the batches, and yield rows for files and for folders."""
        parts = [FolderPart(row["folder"], row["level"]) for batch in batches for row in batch.to_pylist()]
        if not parts:
            return
        rows = _Rows(_LISTED_ARROW)
        with self.errors.carry():
            if self.seen is not None:
                self.seen.check(parts[0].folder)
            for listed in files_for(self.io, parts, self.hidden, self.seconds, _LISTED_AT_ONCE):
                if isinstance(listed, FolderPart):
                    yield from rows.add({"folder": [listed.folder], "level": [listed.level]}, 1)
                else:
                    yield from rows.add(self._files(listed), len(listed.names))
        yield from rows.rest()

    def _files(self, listed: FolderFiles) -> dict[str, Sequence[Any]]:
        paths = [f"{listed.folder}/{name}" for name in listed.names]
        return {"path": paths, "size_in_bytes": listed.sizes, "modified_ms": listed.modified_ms, **_key_columns(self.keys, paths)}


@dataclass(frozen=True)
class ViewFiles:
    """A function for `mapInArrow`: it returns the files of a view that are in the searched folder. Their sizes and times are read from the storage later."""

    keys: PathKeys
    is_inside: Callable[[Sequence[str]], Sequence[bool]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows for the files in the batches that are in the searched folder."""
        for batch in batches:
            paths = batch.column("path")
            chosen = paths.filter(pa.array(self.is_inside(paths.to_pylist()), pa.bool_())).to_pylist()
            yield _batch(_LISTED_ARROW, {"path": chosen, **_key_columns(self.keys, chosen)}, len(chosen))


@dataclass(frozen=True)
class LiveFilesTask:
    """A function for `mapInArrow`: it reads manifests, and returns rows for the path keys and the local folders of the files in live entries."""

    io: FileIO
    keys: PathKeys
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of keys and of folders."""
        folders: set[str] = set()
        for batch in batches:
            for row in batch.to_pylist():
                with self.errors.carry():
                    paths = live_paths(self.io, row)
                yield from _key_rows(self.keys, paths.to_pylist(), folders)


@dataclass(frozen=True)
class NamedFiles:
    """A function for `mapInArrow`: for paths in metadata, it returns rows for their path keys and their local folders."""

    keys: PathKeys

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of keys and of folders."""
        folders: set[str] = set()
        for batch in batches:
            yield from _key_rows(self.keys, batch.column("path").to_pylist(), folders)


@dataclass(frozen=True)
class FilesBehindLinks:
    """A function for `mapInArrow`: for local folders of referenced files, it returns the path keys of the targets of symbolic links in the folders."""

    keys: PathKeys
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Find the symbolic links in the folders of the batches. Yield rows with the path keys of the files to which the links point."""
        links = LinkedFiles()
        for batch in batches:
            # Only the folder of each location is needed.
            paths = links.behind(f"{folder}/-" for folder in batch.column("folder").to_pylist())
            with self.errors.carry():
                while chunk := list(islice(paths, _ROWS)):
                    yield _batch(_REFERENCED_ARROW, _key_columns(self.keys, chunk), len(chunk))


def _key_rows(keys: PathKeys, locations: Sequence[str], folders: set[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows with the path keys of locations, and a row for each local folder of a file that is not in `folders` yet; add these folders to `folders`."""
    if locations:
        yield _batch(_REFERENCED_ARROW, _key_columns(keys, locations), len(locations))
    named = {location.rpartition("/")[0] for location in locations}
    fresh = [folder for folder in named - folders if scheme_of(folder) == "file"]
    folders.update(fresh)
    if fresh:
        yield _batch(_REFERENCED_ARROW, {"folder": fresh}, len(fresh))


def pack_orphans(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the orphan files of a task into few rows, each with thousands of files in Arrow's format, because the driver receives Spark's rows one by one."""
    waiting = pa.Table.from_batches([], LISTED)
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch]).cast(LISTED)])
        while len(waiting) >= _PACKED_ROWS:
            yield _pack(waiting.slice(0, _PACKED_ROWS))
            waiting = waiting.slice(_PACKED_ROWS)
    if len(waiting):
        yield _pack(waiting)


def _pack(orphans: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, LISTED, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(orphans)
    return pa.RecordBatch.from_pydict({"orphans": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def find_orphans(spark: SparkSession, request: OrphanRequest) -> Generator[Any, None, None]:
    """Find orphan files, and yield them as tables with the schema `LISTED`, as `find_in_process` does.

    All files are listed before the metadata is loaded, and the listing is kept on the executors' disks. If an executor is lost, the search fails instead of
    listing again, because a file that was committed in between would then seem to be an orphan.

    Args:
        spark: A classic session.
        request: The folder or files to search, and the rules of the search.

    Raises:
        InvalidInputError: Prefixes differ, and `mismatch` is `ERROR`; or a view lacks a column.
        NotFoundError, FormatError, StorageError, UnsupportedError: A folder cannot be listed, or a file that the table needs cannot be read.
        EngineError: The job failed for another reason.
    """
    with ExitStack() as stack:
        yield from _OrphanSearch(spark, request, stack).orphans()


@dataclass(frozen=True)
class _OrphanSearch:
    """A running search for orphan files. The caller closes `stack` at the end, which releases the data on the executors' disks."""

    spark: SparkSession
    request: OrphanRequest
    stack: ExitStack

    def orphans(self) -> Iterator[Any]:
        listed = self._list_files() if self.request.view is None else self._of_view()
        is_metadata = sf.col("path").rlike(f"{re.escape(METADATA_NAME)}[^/]*$")
        of_metadata = listed.where(is_metadata).select("path").limit(MOST_METADATA_FILES + 1)
        metadata_files = [row[0] for row in run_job(self.spark, f"find metadata files of {self.request.table_name}", of_metadata.collect)]
        check_metadata_files(len(metadata_files), self.request.folder)
        referenced = self.request.referenced(metadata_files)
        try:
            needed = self._referenced_keys(referenced)
        except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
            raise refusal(self.request.table_name, error) from error
        orphans = self._unreferenced_files(listed, needed).dropDuplicates(["hash"]).select(*LISTED.names)
        description = f"find orphan files of {self.request.table_name}"
        rows = self._compute_once(orphans.mapInArrow(pack_orphans, _PACKED), description)
        # The driver has one partition in memory at a time.
        partitions = max(1, run_job(self.spark, description, rows.count) // PACKED_AT_ONCE)
        yield from self._stream(rows.repartition(partitions))

    def _list_files(self) -> DataFrame:
        """Return the files in and below the folder. Each round of tasks lists the folders that the previous round has found but not listed."""
        description = f"list the files of {self.request.table_name}"
        parts = self.spark.createDataFrame([(self.request.folder.rstrip("/"), 0)], _PARTS)
        rounds: list[DataFrame] = []
        seen = SeenFile.of(self.request.folder, self.request.lasting_file)
        seconds, remaining = FIRST_SECONDS, 1
        while remaining:
            lister = FolderLister(self.request.io, self.request.hidden, self.request.keys, seconds, seen)
            slices = min(remaining, self.spark.sparkContext.defaultParallelism * PARTS_PER_SLOT, MOST_SPARK_TASKS)
            rows = _hash_keys(parts.repartition(slices).mapInArrow(lister, _LISTED_ROWS), *_PARTS.names, *LISTED.names)
            listed = self._compute_once(rows, description)
            totals = listed.agg(sf.count("path"), sf.count("folder"))
            files, remaining = run_job(self.spark, description, totals.collect)[0]
            self.request.listed.files += files
            rounds.append(listed.where("path IS NOT NULL").select(*LISTED.names, "hash", "scheme", "authority"))
            parts = listed.where("folder IS NOT NULL").select(*_PARTS.names)
            seconds = min(2 * seconds, LAST_SECONDS)
        files_of_rounds = rounds[0]
        for more in rounds[1:]:
            files_of_rounds = files_of_rounds.unionAll(more)
        return files_of_rounds

    def _of_view(self) -> DataFrame:
        rows = view_columns(self.request.view)
        is_old = sf.col("modified_ms") < self.request.older_than_ms
        files = rows.where(is_old & sf.col("path").isNotNull()).select("path")
        keyed = files.mapInArrow(ViewFiles(self.request.keys, self.request.is_inside), _LISTED_ROWS)
        description = f"read the files of a view for {self.request.table_name}"
        listed = self._compute_once(_hash_keys(keyed, *LISTED.names), description)
        self.request.listed.files = run_job(self.spark, description, listed.count)
        return listed

    def _referenced_keys(self, referenced: ReferencedFiles) -> DataFrame:
        """Return a row for each referenced file: the hash of its path key, its scheme and its authority. Raises the errors of `ReferencedFiles.batches`."""
        keys, description = self.request.keys, f"read the files that {self.request.table_name} needs"
        rows = manifest_rows(self.spark, referenced.manifests).mapInArrow(LiveFilesTask(self.request.io, keys), _REFERENCED_ROWS)
        paths = [*referenced.paths, *referenced.manifests["manifest_path"].to_pylist()]
        slices = max(1, min(len(paths) // _ROWS, MOST_SPARK_TASKS))
        named = self.spark.createDataFrame(self.spark.sparkContext.parallelize([(path,) for path in paths], slices), _path_schema())
        rows = rows.unionAll(named.mapInArrow(NamedFiles(keys), _REFERENCED_ROWS))
        if scheme_of(self.request.folder) == "file":
            rows = self._compute_once(rows, description)
            folders = rows.where("folder IS NOT NULL").select("folder").distinct()
            rows = rows.unionAll(folders.mapInArrow(FilesBehindLinks(keys), _REFERENCED_ROWS))
        return self._compute_once(_hash_keys(rows.where("key IS NOT NULL")), description)

    def _unreferenced_files(self, listed: DataFrame, referenced: DataFrame) -> DataFrame:
        """Return the listed files that are not referenced; `request.mismatch` decides about equal paths with different prefixes. Raises `InvalidInputError`."""
        # A broadcast join would bring all hashes to the driver.
        others = referenced.hint("merge")
        by_key = listed.join(others, "hash", "left_anti")
        if not self._can_differ(listed, referenced):
            return by_key
        named = others.select(*(sf.col(name).alias(f"referenced_{name}") for name in ("hash", "scheme", "authority")))
        is_same: Column = sf.col("hash") == sf.col("referenced_hash")
        for name in ("scheme", "authority"):
            is_same &= sf.col(f"referenced_{name}").isin("") | (sf.col(f"referenced_{name}") == sf.col(name))
        by_prefix = listed.join(named, is_same, "left_anti")
        if self.request.mismatch is PrefixMismatch.DELETE:
            return by_prefix
        if self.request.mismatch is PrefixMismatch.ERROR:
            differing = by_prefix.join(others, "hash", "left_semi").limit(SHOWN_FILES)
            description = f"compare prefixes of files of {self.request.table_name}"
            rows = run_job(self.spark, description, differing.collect)
            if rows:
                hashes = [row["hash"] for row in rows]
                prefixes = run_job(self.spark, description, _prefixes(referenced.where(sf.col("hash").isin(hashes))).collect)
                raise prefix_error([row["path"] for row in rows], sorted(str(Prefix(*row)) for row in prefixes))
        return by_key

    def _can_differ(self, listed: DataFrame, referenced: DataFrame) -> bool:
        """Return whether prefixes (scheme and authority) of referenced and listed files differ. Raises `InvalidInputError` if there are too many prefixes."""
        both_prefixes = []
        for rows in (listed, referenced):
            prefixes = _prefixes(rows).limit(MOST_PREFIXES + 1)
            both_prefixes.append(
                [Prefix(*row) for row in run_job(self.spark, f"compare prefixes of {self.request.table_name}", prefixes.collect)]
            )
        if len(both_prefixes[0]) + len(both_prefixes[1]) > MOST_PREFIXES:
            raise prefixes_error()
        return any(not prefix.is_of(other) for prefix in both_prefixes[1] for other in both_prefixes[0])

    def _stream(self, rows: DataFrame) -> Iterator[Any]:
        """Yield the tables of orphan files in packed rows. Spark sends one partition after the other, so that the driver holds only one."""
        iterator = rows.toLocalIterator()
        while True:
            try:
                row = next(iterator, None)
            except (PySparkException, Py4JError) as error:
                raise engine_error(error) from error
            if row is None:
                return
            with pa.ipc.open_stream(pa.BufferReader(row[0])) as stream:
                yield stream.read_all()

    def _compute_once(self, rows: DataFrame, description: str) -> DataFrame:
        """Compute rows now, and store them on the executors' disks. If an executor is lost, reading them fails, because they must not be computed again."""
        computed = run_job(self.spark, description, lambda: rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY))
        stored = computed._jdf.queryExecution().logical().rdd()
        self.stack.callback(stored.unpersist, False)
        return computed


def view_columns(view: DataFrame) -> DataFrame:
    """Return the columns `path` and `modified_ms` of a view of files. Raises `InvalidInputError` if the view lacks its columns, or they have other types."""
    next_step = "name a view whose columns are file_path, a string, and last_modified, a timestamp"
    try:
        used = view.select(*_VIEW_COLUMNS)
        types = [column.dataType for column in used.schema]
    except AnalysisException as error:
        raise InvalidInputError(f"file_list_view cannot be used: {error.getCondition() or error}", next_step=next_step) from error
    for (name, allowed), column_type in zip(_VIEW_COLUMNS.items(), types, strict=True):
        if not isinstance(column_type, allowed):
            raise InvalidInputError(
                f"file_list_view cannot be used: its column {name} is of type {column_type.simpleString()}", next_step=next_step
            )
    return used.selectExpr("CAST(file_path AS STRING) AS path", "unix_millis(CAST(last_modified AS TIMESTAMP)) AS modified_ms")


def files_of_view(request: OrphanRequest) -> Callable[[], Iterator[Any]]:
    """Return a function that yields the files of a Spark Connect view as tables with the schema `LISTED`. It streams the view's rows to this process."""
    rows = view_columns(request.view).where(f"modified_ms < {request.older_than_ms} AND path IS NOT NULL").select("path")

    def files() -> Iterator[Any]:
        iterator = rows.toLocalIterator()
        while chunk := [row[0] for row in islice(iterator, _VIEW_ROWS)]:
            yield pa.table([pa.array(chunk, pa.string()), *[pa.nulls(len(chunk), pa.int64())] * 2], schema=LISTED)

    return files


def _path_schema() -> StructType:
    return StructType([StructField("path", StringType())])


def _hash_keys(rows: DataFrame, *names: str) -> DataFrame:
    """Replace path keys by their hashes. If different keys have equal hashes, a file counts as referenced, so that no file is deleted wrongly."""
    return rows.select(*names, sf.xxhash64("key").alias("hash"), "scheme", "authority")


def _prefixes(rows: DataFrame) -> DataFrame:
    return rows.select("scheme", "authority").distinct()


def _key_columns(keys: PathKeys, locations: Iterable[str]) -> dict[str, Sequence[Any]]:
    """Return three columns by name, with the path key, the scheme and the authority of each location."""
    keyed = [keys.file(location) for location in locations]
    return {
        "key": [key for key, _ in keyed],
        "scheme": [prefix.scheme for _, prefix in keyed],
        "authority": [prefix.authority for _, prefix in keyed],
    }


def _batch(schema: pa.Schema, columns: Mapping[str, Sequence[Any]], rows: int) -> pa.RecordBatch:
    """Create a batch with the columns of a schema; columns that are not in `columns` are null."""
    arrays = [pa.array(columns[column.name], column.type) if column.name in columns else pa.nulls(rows, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Rows:
    """Collects the rows of many small folders, so that they leave a task in large batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns: dict[str, list[Any]] = {name: [] for name in schema.names}
        self._count = 0

    def add(self, columns: Mapping[str, Sequence[Any]], rows: int) -> Iterator[pa.RecordBatch]:
        """Add rows; if enough rows have been added, yield them as a batch."""
        for name, values in self._columns.items():
            values.extend(columns.get(name) or [None] * rows)
        self._count += rows
        if self._count >= _ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not in a batch yet as a last batch, if there are any."""
        if self._count:
            yield _batch(self._schema, self._columns, self._count)
            self._columns, self._count = {name: [] for name in self._schema.names}, 0
