"""Which metrics each column of a table gets, from the `write.metadata.metrics.*` properties.

Computing them is `metrics.py`; the properties are kernel.metadata.properties. Floor: datafile.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.datafile.leaves import Leaf
from icefloe.kernel.metadata.properties import METRICS_DEFAULT, METRICS_MAX_INFERRED_COLUMNS, column_metrics_modes

_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """`counts`: sizes and counts are kept. `bounds`: lower and upper bounds too, cut to `width` code points or bytes (None: whole)."""

    counts: bool
    bounds: bool
    width: int | None = None


NONE = MetricsMode(counts=False, bounds=False)
_NAMED = {"none": NONE, "counts": MetricsMode(counts=True, bounds=False), "full": MetricsMode(counts=True, bounds=True)}


def parse_mode(text: str) -> MetricsMode:
    """`none`, `counts`, `full` or `truncate(n)`, as `properties.py` has checked it."""
    found = _TRUNCATE.fullmatch(text)
    return MetricsMode(counts=True, bounds=True, width=int(found.group(1))) if found else _NAMED[text]


def metrics_modes(leaves: Sequence[Leaf], properties: Mapping[str, str]) -> list[MetricsMode]:
    """The mode of each leaf.

    A mode of its own wins over the default; where no default is set, only the first 100 columns (a property) get the built-in one, so that very wide tables
    do not drown in statistics. JAVA: MetricsConfig.

    Raises:
        InvalidPropertyError: a mode that is none.
    """
    default = parse_mode(METRICS_DEFAULT.read(properties))
    inferred = len(leaves) if METRICS_DEFAULT.name in properties else METRICS_MAX_INFERRED_COLUMNS.read(properties)
    own = {name: parse_mode(text) for name, text in column_metrics_modes(properties).items()}
    return [own.get(".".join(leaf.path), default if position < inferred else NONE) for position, leaf in enumerate(leaves)]
