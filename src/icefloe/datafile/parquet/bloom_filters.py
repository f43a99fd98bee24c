"""`BloomFilters`: the columns of a table's Parquet files with bloom filters, and their sizes, from the properties `write.parquet.bloom-filter-*`.

Older releases of pyarrow cannot write bloom filters; then a warning is logged once, and files have none. Spec: Appendix A, Parquet.
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
    """Probability of a false positive and expected distinct values by Parquet's column name; None: as many as the first row group has rows."""

    columns: Mapping[str, tuple[float, int | None]]
    max_bytes: int

    def options(self, rows: int) -> dict[str, Any]:
        """Return the keyword arguments of `pyarrow.parquet.ParquetWriter` for a file whose first row group has `rows` rows."""
        if not self.columns:
            return {}
        return {
            "bloom_filter_options": {
                path: {"fpp": fpp, "ndv": max(1, min(distinct or rows, max_distinct(self.max_bytes, fpp)))}
                for path, (fpp, distinct) in self.columns.items()
            }
        }


def bloom_filters(leaves: Iterable[Leaf], properties: Mapping[str, str]) -> BloomFilters:
    """Return the bloom filters that table properties configure. Raises `InvalidPropertyError`."""
    configured = table_properties.bloom_filter_columns(properties)
    by_name = {".".join(leaf.path): leaf for leaf in leaves}
    columns = {}
    for name, (fpp, distinct) in configured.items():
        leaf = by_name.get(name)
        if leaf is None:
            _warn_once(f"no bloom filter is written for {name}: the table has no primitive column of that name")
        elif isinstance(leaf.kind, BooleanType):
            _warn_once(f"no bloom filter is written for {name}: Parquet has none for booleans")
        else:
            columns[leaf.stored_path] = (fpp, distinct)
    if columns and not WRITES_FILTERS:
        _warn_once(
            f"no bloom filters are written for {', '.join(configured)}: this release of pyarrow cannot write them; install a newer one"
        )
        columns = {}
    return BloomFilters(columns=columns, max_bytes=table_properties.PARQUET_BLOOM_MAX_BYTES.read(properties))


def max_distinct(max_bytes: int, fpp: float) -> int:
    """Return the number of distinct values for which a filter of at most `max_bytes` has the probability `fpp` of a false positive.

    Sizes are powers of two; each value sets a bit in each of 8 words.
    """
    bits = 8 * 2 ** int(math.log2(max_bytes))
    return int(-bits / 8 * math.log(1 - fpp ** (1 / 8)))


@cache
def _warn_once(message: str) -> None:
    LOG.warning("%s", in_one_line(message))
