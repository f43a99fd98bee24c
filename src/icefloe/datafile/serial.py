"""Data files as bytes, for the way from a task of Spark back to its driver.

Manifests are the lasting form (kernel.manifest); this one is between two processes of one job only. Floor: datafile.
"""

import pickle
from collections.abc import Sequence

from icefloe.kernel.manifest.data_file import DataFile


def data_files_to_bytes(files: Sequence[DataFile]) -> bytes:
    """Data files as bytes that `data_files_from_bytes` reads, partition values of every type included."""
    return pickle.dumps(tuple(files), protocol=pickle.HIGHEST_PROTOCOL)


def data_files_from_bytes(content: bytes) -> list[DataFile]:
    """The data files again. Only for bytes that this job's own tasks made."""
    return list(pickle.loads(content))  # noqa: S301 - the bytes come from our own tasks, over Spark's own channel
