"""`RowHasher`: hashes of rows, by which rows of two versions, or of several tasks, are brought together."""

import hashlib
import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.operations.change_feed.row_words import text_of_nested
from icefloe.spec.arrow_values import array_of_chunks, numpy_of
from icefloe.spec.temporal_arrays import as_numbers

Hashes = NDArray[np.uint64]  # two hashes for each row, of shape (rows, 2)

_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
# The integer type of each bit width, as which values of this width are hashed.
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class RowHasher:
    """Hashes the rows of tables that have the same columns. The key is random, so that a writer cannot choose rows with equal hashes."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def hashes(self, rows: Any) -> Hashes:
        """Return the hash of each row of a `pyarrow.Table`: two numbers a row, as an array of shape (rows, 2)."""
        hashes = np.zeros((len(rows), 2), np.uint64)
        for place, column in enumerate(rows.columns):
            values = array_of_chunks(column)
            lanes = _mix_bits(self._lanes(values, place))
            lanes[numpy_of(values.is_null())] = self._seeds(place, b"null")
            hashes = _mix_bits(hashes ^ lanes) + self._seeds(place, b"column")
        return hashes

    def _lanes(self, values: Any, place: int) -> Hashes:
        kind = values.type
        if _is_fixed(kind):
            values = values.view(_INTEGERS[kind.bit_width])
        elif not pa.types.is_boolean(kind):
            return self._digests(values, place)
        values = values.cast(pa.int64())
        numbers = numpy_of(values.fill_null(0)).astype(np.int64).view(np.uint64)
        return np.asarray(numbers[:, np.newaxis] ^ self._seeds(place, b"value"))

    def _digests(self, values: Any, place: int) -> Hashes:
        """Return the digest of each value of a column. Each distinct value is hashed once."""
        if pa.types.is_null(values.type):
            return np.zeros((len(values), 2), np.uint64)
        if pa.types.is_nested(values.type) or isinstance(values, pa.ExtensionArray):
            texts = [text_of_nested(value).encode("utf-8", "surrogatepass") for value in as_numbers(values).to_pylist()]
            values = pa.array(texts, pa.large_binary())
        encoded = values.dictionary_encode()
        distinct = [
            value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass") for value in encoded.dictionary.to_pylist()
        ]
        digests = np.frombuffer(b"".join(self._digest(value, place) for value in distinct) or b"\0" * 16, np.uint64).reshape(-1, 2)
        return np.asarray(digests[numpy_of(encoded.indices.fill_null(0)).astype(np.int64)])

    def _digest(self, value: bytes, place: int) -> bytes:
        return hashlib.blake2b(value, digest_size=16, key=self._key, salt=place.to_bytes(8, "little")).digest()

    def _seeds(self, place: int, purpose: bytes) -> Any:
        return np.frombuffer(self._digest(purpose, place), np.uint64)


def _is_fixed(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_date32(kind) or types.is_time(kind) or types.is_timestamp(kind)
    )


def _mix_bits(numbers: Hashes) -> Hashes:
    """Spread the bits of each number. Different numbers stay different. Origin: the finalizer of SplitMix64."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * multiplier
    return numbers ^ (numbers >> np.uint64(31))
