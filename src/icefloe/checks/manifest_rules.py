"""Rules of manifests: each can be read, and agrees with its description in the manifest list.

The rules of single entries are in `entry_rules.py`. Spec: Manifests; Manifest Lists (counts, `manifest_length`, `min_sequence_number`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.manifest_entries import NO_NUMBER, ManifestEntries
from icefloe.checks.manifest_row import ManifestRow
from icefloe.checks.rule import FindingPlace, Level, RuleGroup, value_text
from icefloe.spec.arrow_values import array_of, mask_array, numpy_of
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.partitioning.partition_spec import UntypedPartition
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType, StructType, UnknownType
from icefloe.spec.values import bounds_to_array

_ROLL_BACK = "restore the manifest from a copy, or plan with icefloe repair what can be rebuilt"
_REWRITE = "let icefloe repair write the manifest again"


_rule = RuleGroup(level=Level.MANIFEST, section="Manifest Lists", next_step=_REWRITE).rule


MANIFEST_MISSING = _rule(
    "manifest-missing",
    Severity.ERROR,
    "Every manifest that a manifest list names exists.",
    "No engine can read the snapshots that need it.",
    section="Manifests",
    next_step=_ROLL_BACK,
)
MANIFEST_DAMAGED = _rule(
    "manifest-damaged",
    Severity.ERROR,
    "A manifest is a whole Avro file with the fields of a manifest.",
    "Engines fail to read the snapshot, or return no rows of the files after the damage.",
    section="Manifests",
    next_step=_ROLL_BACK,
)
MANIFEST_LENGTH = _rule(
    "manifest-length",
    Severity.WARNING,
    "A manifest has as many bytes as its manifest list states.",
    "Engines that read by the stated length fail on the file or miss its end; a cut file is not noticed.",
)
MANIFEST_FILE_COUNT = _rule(
    "manifest-file-count",
    Severity.ERROR,
    "The manifest list counts as many added, existing and deleted files as the manifest has entries of each status.",
    "Engines skip a manifest whose count is 0, and count(*) from metadata is wrong.",
)
MANIFEST_ROW_COUNT = _rule(
    "manifest-row-count",
    Severity.WARNING,
    "The manifest list counts as many added, existing and deleted rows as the entries of each status have.",
    "count(*) from metadata is wrong, and in version 3 row ids are assigned twice or left out.",
)
MIN_SEQUENCE_NUMBER = _rule(
    "manifest-min-sequence-number",
    Severity.ERROR,
    "The minimum sequence number of a manifest is not above the data sequence number of any of its live entries.",
    "Engines skip delete manifests that look newer than they are, and return deleted rows.",
    section="Sequence Numbers",
)
PARTITION_SUMMARY = _rule(
    "manifest-partition-summary",
    Severity.ERROR,
    "The partition summaries of a manifest cover the partition values of its live entries: bounds, nulls and NaNs.",
    "Engines skip the manifest for filters that match its rows.",
)
RULES = (
    MANIFEST_MISSING,
    MANIFEST_DAMAGED,
    MANIFEST_LENGTH,
    MANIFEST_FILE_COUNT,
    MANIFEST_ROW_COUNT,
    MIN_SEQUENCE_NUMBER,
    PARTITION_SUMMARY,
)

# Each status with its name, and the fields of the manifest list that count its files and its rows.
_STATUSES = (
    (1, "ADDED", "added_files_count", "added_rows_count"),
    (0, "EXISTING", "existing_files_count", "existing_rows_count"),
    (2, "DELETED", "deleted_files_count", "deleted_rows_count"),
)


def length_findings(row: ManifestRow, size: int, place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding if the manifest list states a wrong length of a manifest.

    Args:
        row: The entry of the manifest list.
        size: The actual length of the manifest in bytes.
        place: The common arguments of the findings; `file` is the manifest.
    """
    if row.manifest_length is not None and row.manifest_length != size:
        yield MANIFEST_LENGTH.finding(
            f"the manifest {value_text(place.get('file'))} has {size} bytes, and its manifest list states {row.manifest_length}",
            where="manifest_length",
            expected=row.manifest_length,
            actual=size,
            **place,
        )


def count_findings(row: ManifestRow, entries: ManifestEntries, place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding for each wrong count in a manifest list's entry, and one if its `min_sequence_number` is greater than that of a live file."""
    if not (entries.is_live | entries.is_deleted).all():
        return  # another rule reports an entry with an unknown status
    records = entries.numbers("record_count")
    records = np.where(records == NO_NUMBER, 0, records)
    for status, name, files_key, rows_key in _STATUSES:
        mask = entries.status == status
        counts = (
            (MANIFEST_FILE_COUNT, files_key, int(mask.sum()), "entries"),
            (MANIFEST_ROW_COUNT, rows_key, exact_sum(records[mask]), "rows"),
        )
        for rule, key, actual, unit in counts:
            expected = getattr(row, key)
            if expected is not None and expected != actual:
                yield rule.finding(
                    f"the manifest {value_text(place.get('file'))} has {actual} {name} {unit}, and its manifest list counts {expected}",
                    where=key,
                    expected=expected,
                    actual=actual,
                    **place,
                )
    numbers = entries.data_sequence_numbers[entries.is_live]
    numbers = numbers[numbers != NO_NUMBER]
    if row.min_sequence_number is not None and len(numbers) and row.min_sequence_number > numbers.min():
        yield MIN_SEQUENCE_NUMBER.finding(
            f"the manifest {value_text(place.get('file'))} has a live entry of sequence number {numbers.min()}, and its manifest list states "
            f"the minimum {row.min_sequence_number}",
            where="min_sequence_number",
            expected=row.min_sequence_number,
            actual=int(numbers.min()),
            **place,
        )


def summary_findings(row: ManifestRow, entries: ManifestEntries, partition_type: StructType, place: FindingPlace) -> Iterator[Finding]:
    """Yield the partition fields whose summary in the manifest list does not cover the values of the live entries."""
    if row.partitions is None or len(row.partitions) != len(partition_type.fields) or not entries.is_live.any():
        return
    live = mask_array(entries.is_live)
    unreadable = {problem.where for problem in entries.problems}
    for (has_null, has_nan, lower, upper), field in zip(row.partitions, partition_type.fields, strict=True):
        name = partition_column(field.field_id)
        if isinstance(field, UntypedPartition) or not isinstance(field.field_type, PrimitiveType) or name in unreadable:
            continue
        values = entries.columns[name].filter(live)
        problem = _contradiction(values, field.field_type, (has_null, has_nan, lower, upper))
        if problem:
            yield PARTITION_SUMMARY.finding(
                f"the partition summary of {value_text(place.get('file'))} for field {field.field_id} ({value_text(field.name)}) {problem}",
                where="partitions",
                field_id=field.field_id,
                **place,
            )


def _contradiction(values: Any, kind: PrimitiveType, summary: tuple[bool, bool | None, bytes | None, bytes | None]) -> str | None:
    has_null, has_nan, lower, upper = summary
    if values.null_count and not has_null:
        return "states that no value is null, and one is"
    known = values.drop_null()
    if isinstance(kind, FloatType | DoubleType):
        is_nan = pc.is_nan(known)
        if has_nan is False and pc.any(is_nan).as_py():
            return "states that no value is NaN, and one is"
        known = known.filter(pc.invert(is_nan))
    if not len(known) or isinstance(kind, UnknownType):
        return None
    bounds = bounds_to_array(kind, array_of([lower, upper], pa.binary()))
    if bounds.null_count:
        # A bound that cannot be read is reported by the rules of manifest lists.
        return "has no bounds, and a value is neither null nor NaN" if lower is None or upper is None else None
    least, greatest = pc.min_max(known).as_py().values()
    low, high = bounds.to_pylist()
    if isinstance(kind, FloatType | DoubleType):  # the format orders -0.0 before 0.0, which compare as equal
        values = numpy_of(known)
        is_negative = np.signbit(values[values == 0])
        if (low == 0 and not np.signbit(low) and is_negative.any()) or (high == 0 and np.signbit(high) and not is_negative.all()):
            return f"has the bounds {low} and {high}, and a value is a zero of the other sign"
    if low > least or high < greatest:
        return f"has the bounds {value_text(low)} and {value_text(high)}, and the values reach from {value_text(least)} to {value_text(greatest)}"
    return None


def exact_sum(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
    """Return the exact sum of numbers, even if a hostile file has numbers whose sum overflows 64 bits."""
    if not len(numbers) or np.abs(numbers.astype(np.float64)).sum() < 2**62:
        return int(numbers.sum())
    return sum(numbers.tolist())
