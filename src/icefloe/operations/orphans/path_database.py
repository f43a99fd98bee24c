"""`PathDatabase`, which compares listed and referenced files, and `FoundOrphans`, which stores the orphan files. Each is a temporary SQLite database.

SQLite keeps the database in a file on the local disk, which is deleted with the process, and only a limited part of it in memory. Instead of the key of a path
it stores the key's hash. If two different keys have the same hash, a file may be kept that could be deleted.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from icefloe.errors import InvalidInputError, Problem, StorageError, StorageFullError
from icefloe.lazy_imports import lazy_module
from icefloe.operations.orphans.path_keys import PathKeys, Prefix, PrefixMismatch

if TYPE_CHECKING:
    import sqlite3
else:  # every process that opens a table imports this module
    sqlite3 = lazy_module("sqlite3")

# The schema of listed files. Sizes and times are null if the listing does not return them.
LISTED = pa.schema([pa.field("path", pa.string()), pa.field("size_in_bytes", pa.int64()), pa.field("modified_ms", pa.int64())])
# The greatest number of distinct schemes and authorities of one table's files.
MOST_PREFIXES = 10_000
# The number of examples in the error for files whose prefixes differ.
SHOWN_FILES = 5
# The number of orphans that are checked and deleted at a time.
ORPHANS_AT_ONCE = 5_000
# The number of rows that a query returns at a time, and the kilobytes of a database that are in memory.
_ROWS, _MEMORY_KB = 20_000, 8_192
_TABLES = f"""
    PRAGMA page_size = 16384; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -{_MEMORY_KB};
    CREATE TABLE listed (hash INTEGER, prefix INTEGER, path TEXT, size_in_bytes INTEGER, modified_ms INTEGER);
    CREATE TABLE referenced (hash INTEGER, prefix INTEGER);
    CREATE TABLE prefixes (number INTEGER PRIMARY KEY, scheme TEXT, authority TEXT);
    CREATE TABLE orphans (number INTEGER PRIMARY KEY, hash INTEGER, path TEXT, size_in_bytes INTEGER, modified_ms INTEGER);
"""
# SQL conditions on a listed file: that a file with the same key is referenced; and that it is referenced with a compatible prefix, of which empty parts are
# equal to any.
_HAS_KEY = "EXISTS (SELECT 1 FROM referenced WHERE referenced.hash = listed.hash)"
_HAS_KEY_AND_PREFIX = """EXISTS (
    SELECT 1 FROM referenced JOIN prefixes AS own ON own.number = listed.prefix JOIN prefixes AS other ON other.number = referenced.prefix
    WHERE referenced.hash = listed.hash AND other.scheme IN ('', own.scheme) AND other.authority IN ('', own.authority))"""
_UNREFERENCED = "SELECT min(path), size_in_bytes, modified_ms FROM listed WHERE NOT {} GROUP BY hash"


class _Database:
    """A temporary database with the SQL tables of this module. It is used in a `with` block, at whose end it is closed and deleted."""

    def __init__(self, keys: PathKeys) -> None:
        self._keys = keys
        self._connection = sqlite3.connect("", check_same_thread=False)
        self._connection.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _insert(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with _storage_errors():
            self._connection.executemany(statement, rows)

    def _query(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run a query for paths, sizes and times, and yield the rows in tables of `LISTED`."""
        with _storage_errors():
            cursor = self._connection.execute(query, parameters)
            while rows := cursor.fetchmany(_ROWS):
                yield pa.table(list(map(list, zip(*rows, strict=True))), schema=LISTED)


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        kind = StorageFullError if error.sqlite_errorcode == sqlite3.SQLITE_FULL else StorageError
        raise kind(
            f"the temporary database of the search for orphan files failed: {error}",
            next_step="free space in the folder for temporary files, or name another one by the environment variable SQLITE_TMPDIR",
        ) from error


class PathDatabase(_Database):
    """Compares listed files with referenced files. First all files of both kinds are added, then `unreferenced_files` is called once."""

    def __init__(self, keys: PathKeys) -> None:
        """Create an empty database. `keys` returns the keys by which locations are compared."""
        super().__init__(keys)
        self._numbers: dict[Prefix, int] = {}
        self._listed_prefixes: set[Prefix] = set()
        self._referenced_prefixes: set[Prefix] = set()
        self.listed_files = 0

    def add_listed(self, paths: Sequence[str], sizes: Sequence[int | None], modified_ms: Sequence[int | None]) -> None:
        """Add listed files. Raises `StorageError`, and `InvalidInputError` for too many prefixes."""
        hashes, numbers = self._hashes_and_prefixes(paths, self._listed_prefixes)
        self._insert("INSERT INTO listed VALUES (?, ?, ?, ?, ?)", zip(hashes, numbers, paths, sizes, modified_ms, strict=True))
        self.listed_files += len(paths)

    def add_referenced(self, locations: Iterable[str]) -> None:
        """Add referenced files. Raises the errors of `add_listed`."""
        self._insert(
            "INSERT INTO referenced VALUES (?, ?)", zip(*self._hashes_and_prefixes(locations, self._referenced_prefixes), strict=True)
        )

    def _hashes_and_prefixes(self, locations: Iterable[str], prefixes: set[Prefix]) -> tuple[list[int], list[int]]:
        """Return two lists, with the hash of each location's key and the number of each location's prefix. Add the prefixes to `prefixes`."""
        hashes, numbers, file = [], [], self._keys.file
        last: Prefix | None = None
        number = 0
        for location in locations:
            key, prefix = file(location)
            if prefix is not last:  # files of one folder share the prefix object
                last = prefix
                prefixes.add(prefix)
                number = self._numbers.setdefault(prefix, len(self._numbers))
                if number >= MOST_PREFIXES:
                    raise prefixes_error()
            # Python's own hash, which has a random and secret seed, so that equal hashes cannot be provoked.
            hashes.append(hash(key))
            numbers.append(number)
        return hashes, numbers

    def unreferenced_files(self, mismatch: PrefixMismatch) -> Iterator[Any]:
        """Yield tables of `LISTED` with the listed files that are not referenced, each once. After this call no more files can be added.

        Args:
            mismatch: The rule for a file whose path is referenced under another scheme or authority.

        Raises:
            InvalidInputError: A file is referenced only under another scheme or authority, and the rule is `ERROR`.
            StorageError: The local disk is full or cannot be read.
        """
        can_differ = any(not referenced.is_of(listed) for referenced in self._referenced_prefixes for listed in self._listed_prefixes)
        with _storage_errors():
            self._connection.execute("CREATE INDEX by_key ON referenced (hash)")
            self._connection.executemany(
                "INSERT INTO prefixes VALUES (?, ?, ?)",
                ((number, prefix.scheme, prefix.authority) for prefix, number in self._numbers.items()),
            )
        if can_differ and mismatch is PrefixMismatch.ERROR:
            self._refuse_differing()
        is_by_prefix = can_differ and mismatch is PrefixMismatch.DELETE
        yield from self._query(_UNREFERENCED.format(_HAS_KEY_AND_PREFIX if is_by_prefix else _HAS_KEY))

    def _refuse_differing(self) -> None:
        """Raise `InvalidInputError` if a listed file is referenced only under other prefixes."""
        with _storage_errors():
            differing = self._connection.execute(
                f"SELECT path, hash FROM listed WHERE {_HAS_KEY} AND NOT {_HAS_KEY_AND_PREFIX} LIMIT {SHOWN_FILES}"  # noqa: S608  constants
            ).fetchall()
            prefixes: set[Prefix] = set()
            for _, key in differing:
                query = "SELECT DISTINCT scheme, authority FROM referenced JOIN prefixes ON number = prefix WHERE hash = ?"
                prefixes.update(Prefix(*row) for row in self._connection.execute(query, (key,)))
        if differing:
            raise prefix_error([path for path, _ in differing], sorted(map(str, prefixes)))


class FoundOrphans(_Database):
    """Stores the orphan files that a search has found, until they are deleted. Only a few thousand of them are in memory at once."""

    def __init__(self, keys: PathKeys) -> None:
        """Create an empty collection. `keys` returns the keys by which locations are compared."""
        super().__init__(keys)
        self.files = 0
        self.size_in_bytes = 0

    def write(self, orphans: Any) -> None:
        """Add a table of `LISTED`. Raises `StorageError`."""
        paths, sizes, times = (column.to_pylist() for column in orphans.columns)
        hashes = (hash(self._keys.file(path)[0]) for path in paths)
        self._insert(
            "INSERT INTO orphans (hash, path, size_in_bytes, modified_ms) VALUES (?, ?, ?, ?)",
            zip(hashes, paths, sizes, times, strict=True),
        )
        self.files += len(paths)
        self.size_in_bytes += sum(size or 0 for size in sizes)

    def batches(self) -> Iterator[range]:
        """Divide the orphan files into batches of a few thousand. Yield each batch as a range of file numbers, which `rows` takes."""
        for first in range(1, self.files + 1, ORPHANS_AT_ONCE):
            yield range(first, min(first + ORPHANS_AT_ONCE, self.files + 1))

    def rows(self, numbers: range) -> Any:
        """Return the orphan files with these numbers as a table of `LISTED`, without files that `keep` has removed. Raises `StorageError`."""
        query = "SELECT path, size_in_bytes, modified_ms FROM orphans WHERE number >= ? AND number < ? ORDER BY number"
        return pa.concat_tables([LISTED.empty_table(), *self._query(query, (numbers.start, numbers.stop))])

    def first(self, most: int) -> Any:
        """Return the first `most` orphan files in the order in which they were added, without those that `keep` has removed.

        They are a table with the schema `LISTED`, sorted by path. Raises `StorageError`.
        """
        return self.rows(range(1, most + 1)).sort_by("path")

    def keep(self, locations: Iterable[str]) -> None:
        """Remove the files at these locations from the orphans, so that they are kept. Raises `StorageError`."""
        with _storage_errors():
            self._connection.execute("CREATE INDEX IF NOT EXISTS by_hash ON orphans (hash)")
        self._insert("DELETE FROM orphans WHERE hash = ?", ((hash(self._keys.file(location)[0]),) for location in locations))


def prefixes_error() -> InvalidInputError:
    """Return the error for a table whose files have too many prefixes."""
    return InvalidInputError(
        f"the files name more than {MOST_PREFIXES:,} schemes and authorities, which is no table's",
        next_step="check the table's metadata with icefloe validate",
    )


def prefix_error(paths: Sequence[str], prefixes: Sequence[str]) -> InvalidInputError:
    """Return the error for listed files whose paths the table references under other prefixes."""
    return InvalidInputError(
        "nothing was deleted: files were found whose paths the table names with another scheme or authority, so they may be its files",
        problems=[Problem(where=path, what=f"the table names its path with {', '.join(prefixes[:SHOWN_FILES])}") for path in paths],
        next_step="if both name the same storage, pass equal_schemes or equal_authorities; prefix_mismatch_mode IGNORE keeps such files, and DELETE"
        " treats them as orphans",
    )
