"""`TABLESAMPLE SYSTEM (n PERCENT)`: a sample of the planned files, of which a scan opens only those that were drawn.

Each file is drawn with the same probability, by a hash of its location and the statement's seed, so that every plan of a statement has the same files, whatever
its filters prune. Spark 4.2 and later have the clause. A plain TABLESAMPLE is a sample of single rows, which Spark takes from all files.
"""

from hashlib import blake2b

import numpy as np

from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.bridge.messages import Sample

_HASH_BYTES = 8
_HASHES = 1 << 8 * _HASH_BYTES


def plan_of_sample(plan: ScanPlan, sample: Sample) -> ScanPlan:
    """Return the plan without the files that were not drawn."""
    key = sample["seed"].to_bytes(_HASH_BYTES, "little", signed=True)
    least, end = round(sample["lower"] * _HASHES), round(sample["upper"] * _HASHES)

    def is_drawn(path: str) -> bool:
        return least <= int.from_bytes(blake2b(path.encode(), digest_size=_HASH_BYTES, key=key).digest(), "little") < end

    masks = (np.array([is_drawn(path) for path in part.entries["file_path"].to_pylist()], np.bool_) for part in plan.parts)
    return plan.without_unsampled(list(masks))
