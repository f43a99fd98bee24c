"""Which columns of a table's Parquet files get a bloom filter, and how large: `write.parquet.bloom-filter-*` as the writer takes it.

Older releases of pyarrow write none; then that is said once, and files come without them. Spec: Appendix A, Parquet.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any

import pyarrow.parquet as pq

from icefloe.datafile.leaves import Leaf
from icefloe.errors import in_one_line
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.types import BooleanType

LOG = logging.getLogger(__name__)
WRITES_FILTERS = "bloom_filter_options" in signature(pq.ParquetWriter.__init__).parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilters:
    """Chances of a false answer and expected distinct values by Parquet's column name; None: as many as the first row group has rows."""

    columns: Mapping[str, tuple[float, int | None]]
    most_bytes: int

    def options(self, rows: int) -> dict[str, Any]:
        """The keyword arguments of `pyarrow.parquet.ParquetWriter` for a file whose first row group has so many rows."""
        if not self.columns:
            return {}
        return {
            "bloom_filter_options": {
                path: {"fpp": fpp, "ndv": max(1, min(distinct or rows, most_distinct(self.most_bytes, fpp)))}
                for path, (fpp, distinct) in self.columns.items()
            }
        }


def bloom_filters(leaves: Iterable[Leaf], properties: Mapping[str, str]) -> BloomFilters:
    """The filters that table properties ask for. Raises `InvalidPropertyError`."""
    asked = table_properties.bloom_filter_columns(properties)
    by_name = {".".join(leaf.path): leaf for leaf in leaves}
    columns = {}
    for name, (fpp, distinct) in asked.items():
        leaf = by_name.get(name)
        if leaf is None:
            _say_once(f"no bloom filter is written for {name}: the table has no such column of a primitive type")
        elif isinstance(leaf.kind, BooleanType):
            _say_once(f"no bloom filter is written for {name}: Parquet has none for booleans")
        else:
            columns[leaf.stored_path] = (fpp, distinct)
    if columns and not WRITES_FILTERS:
        _say_once(f"no bloom filters are written, for {', '.join(asked)}: this release of pyarrow cannot; a newer one can")
        columns = {}
    return BloomFilters(columns=columns, most_bytes=table_properties.PARQUET_BLOOM_MAX_BYTES.read(properties))


def most_distinct(most_bytes: int, fpp: float) -> int:
    """How many distinct values a filter of at most so many bytes tells apart. Sizes are powers of two; each value sets a bit in each of 8 words."""
    bits = 8 * 2 ** int(math.log2(most_bytes))
    return int(-bits / 8 * math.log(1 - fpp ** (1 / 8)))


@cache
def _say_once(words: str) -> None:
    LOG.warning("%s", in_one_line(words))
