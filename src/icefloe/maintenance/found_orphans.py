"""`FoundOrphans`: the orphan files that a search has found, in a file on the local disk, and those among them that are needed since.

However many there are, memory holds a few thousand of them, and the hashes of those that are needed again. Spec: none.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.operations.orphans.path_keys import PathKeys
from icefloe.operations.orphans.path_spill import LISTED, key_hashes

# Orphans that are checked and deleted at a time.
ORPHANS_AT_ONCE = 5_000


class FoundOrphans:
    """Found orphans in a file on the local disk, with their number and size."""

    def __init__(self, folder: str, keys: PathKeys) -> None:
        """Create the collection in an empty folder, which the caller removes; `keys` compares locations."""
        self._path = os.path.join(folder, "orphans.arrows")
        self._hashes_path = os.path.join(folder, "orphans.hashes")
        self._keys = keys
        self._sorted: NDArray[np.int64] | None = None
        self._needed: set[int] = set()
        self._writer: Any = None
        self._waiting: list[Any] = []
        self.files = 0
        self.size_in_bytes = 0

    def __enter__(self) -> "FoundOrphans":
        self._writer = pa.ipc.new_stream(self._path, LISTED, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def write(self, orphans: Any) -> None:
        """Add a table of `LISTED`."""
        self.files += len(orphans)
        self.size_in_bytes += pc.sum(orphans["size_in_bytes"]).as_py() or 0
        self._waiting.append(orphans)
        if sum(map(len, self._waiting)) >= ORPHANS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), ORPHANS_AT_ONCE)
        self._waiting = []

    def batches(self) -> Iterator[Any]:
        """Yield the orphans as tables of a few thousand rows."""
        with pa.ipc.open_stream(self._path) as stream:
            for batch in stream:
                yield pa.Table.from_batches([batch])

    def keep(self, locations: Any) -> None:
        """Keep the orphans that are among an Arrow array of locations."""
        if not self.files:
            return
        known = self._hashes()
        for keys, _ in self._keys.paths(locations):
            hashes = key_hashes(keys)
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            self._needed.update(hashes[known[places] == hashes].tolist())

    def without_kept(self, orphans: Any) -> Any:
        """Return a table of orphans without those that are kept."""
        if not self._needed:
            return orphans
        is_needed = [hash(self._keys.file(path)[0]) in self._needed for path in orphans["path"].to_pylist()]
        return orphans.filter(pc.invert(pa.array(is_needed, pa.bool_())))

    def _hashes(self) -> NDArray[np.int64]:
        """Return the sorted hashes of the orphans' keys, which are in a file: a commit during the deletion may name every file of the table."""
        if self._sorted is None:
            with open(self._hashes_path, "wb") as file:
                for orphans in self.batches():
                    for keys, _ in self._keys.paths(orphans["path"]):
                        file.write(key_hashes(keys).tobytes())
            self._sorted = np.memmap(self._hashes_path, np.int64, "r+")
            self._sorted.sort()
        return self._sorted

    def first(self, most: int) -> Any:
        """Return at most that many orphans, sorted by path."""
        tables, rows = [LISTED.empty_table()], 0
        for table in self.batches():
            tables.append(table.slice(0, most - rows))
            rows += len(tables[-1])
            if rows >= most:
                break
        return pa.concat_tables(tables).sort_by("path")
