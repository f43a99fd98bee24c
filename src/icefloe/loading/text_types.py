"""Infers the narrowest type to which all texts of a column can be converted, and converts texts to a type.

Numbers are recognised in decimal notation, dates and times in ISO 8601, and booleans as `true` and `false`. The inferred type of a column that contains a
number with a leading zero, such as a post code or telephone number, is string.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import UnsupportedTypeError
from icefloe.spec.dates_and_times import parse_date, parse_timestamp
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

# Patterns of the beginning of texts that can have a type other than string, and of texts of dates and timestamps.
_BEGINNING: Final = r"(?i)^(?:[+-]?(?:\d|\.\d|inf|nan)|true$|false$)"
_BEGINNING_OF_TIME: Final = re.compile(r"[+-]?\d{4,9}-", re.ASCII)
_TIMESTAMP = r"^(?:\d{4}|[+-]\d{4,9})-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?"
# A date with a sign before its year. Such years can be above 9999 or below 0, which Arrow cannot read, because it reads only years of four digits.
_FAR_YEAR = r"^[+-]\d{4,9}-"
_ZONE = r"(Z|[+-]\d{2}:?\d{2})$"
_LEADING_ZERO = r"^[+-]?0\d"
_MOST_DIGITS = 38
# The number of texts of a block for which a type is tried first. Only if all of them can be converted, the other texts are tried.
_SAMPLE: Final = 64
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}", re.ASCII)

Texts = Any  # a pyarrow.StringArray


def type_with_article(kind: IcebergType) -> str:
    """Return the name of a type with its article, such as "an int", for messages such as "is not an int"."""
    if isinstance(kind, TimestampType | TimestampNanoType):
        return f"a {kind} (without a time zone)"
    return f"{'an' if str(kind)[0] in 'aeiou' else 'a'} {kind}"


# ---- inference ----


def _is_castable(texts: Texts, kind: pa.DataType) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _all_match(texts: Texts, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _has_leading_zero(texts: Texts) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py())


def _is_boolean(texts: Texts) -> bool:
    return bool(pc.all(pc.is_in(pc.ascii_lower(texts), pa.array(["true", "false"])), min_count=0).as_py())


def _is_long(texts: Texts) -> bool:
    return _is_castable(_without_plus(texts), pa.int64()) and not _has_leading_zero(texts)


def _is_whole_number(texts: Texts) -> bool:
    return _all_match(texts, rf"^[+-]?(0|[1-9]\d{{0,{_MOST_DIGITS - 1}}})$")


def _is_double(texts: Texts) -> bool:
    return _is_castable(texts, pa.float64()) and not _has_leading_zero(texts)


def _is_convertible(texts: Texts, kind: PrimitiveType) -> bool:
    try:
        _cast_time_of_any_year(texts, kind)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def _is_date(texts: Texts) -> bool:
    return not pc.any(pc.match_substring(texts, ":")).as_py() and _is_convertible(texts, DateType())


def _is_timestamp(texts: Texts) -> bool:
    return _all_match(texts, _TIMESTAMP + "$") and _is_convertible(texts, TimestampType())


def _is_timestamptz(texts: Texts) -> bool:
    return _all_match(texts, f"{_TIMESTAMP}({_ZONE}|$)") and _is_convertible(texts, TimestamptzType())


# The types in the order of preference, the narrowest first: a column gets the first type to which all its texts can be converted.
_CANDIDATES: Final[tuple[tuple[PrimitiveType, Callable[[Texts], bool]], ...]] = (
    (BooleanType(), _is_boolean),
    (LongType(), _is_long),
    (DecimalType(_MOST_DIGITS, 0), _is_whole_number),
    (DoubleType(), _is_double),
    (DateType(), _is_date),
    (TimestampType(), _is_timestamp),
    (TimestamptzType(), _is_timestamptz),
)
# A column of strings is reported as mixed if at least the share `NEAR_SHARE` of its values can be converted to one of these types.
_NEAR: Final = (LongType(), DoubleType(), DateType(), TimestampType(), TimestamptzType(), BooleanType())
NEAR_SHARE: Final = 0.95
TIMESTAMPS: Final = (TimestampType(), TimestamptzType())


def _possible_types(text: str) -> tuple[type[PrimitiveType], ...]:
    """Return the types, besides string, to which a text may be convertible, judging by its beginning."""
    if _BEGINNING_OF_TIME.match(text):
        return (DateType, TimestampType, TimestamptzType)
    if text[0] in "tTfF":
        return (BooleanType,)
    return (LongType, DecimalType, DoubleType) if re.match(_BEGINNING, text) else ()


class TextTypes:
    """Inference of the type of a column: it remembers the types to which all texts that were observed so far can be converted."""

    def __init__(self, kinds: Sequence[PrimitiveType] | None = None) -> None:
        """Begin without texts.

        Args:
            kinds: The types that may be inferred, besides string; None for all types of `_CANDIDATES`.
        """
        self._candidates = [case for case in _CANDIDATES if kinds is None or case[0] in kinds]
        self._is_empty = True

    @property
    def is_decided(self) -> bool:
        """Whether the type can only be string, so that no more texts need to be observed."""
        return not self._candidates

    def observe(self, texts: Texts) -> None:
        """Observe further texts of the column: rule out the types to which one of them cannot be converted. Nulls and blank texts rule out no type."""
        if not self._candidates:
            return
        present = texts.drop_null()
        if not len(present):
            return
        self._is_empty = False
        present = pc.utf8_trim_whitespace(present)
        present = present.filter(pc.not_equal(present, ""))
        if len(present) > 4 * _SAMPLE:
            self._drop(present[:_SAMPLE])
        self._drop(present)

    def _drop(self, texts: Texts) -> None:
        """Rule out the types to which one of the texts cannot be converted. To save conversions, the beginning of the first text rules out types first."""
        if len(texts):
            kinds = _possible_types(texts[0].as_py())
            self._candidates = [case for case in self._candidates if isinstance(case[0], kinds) and case[1](texts)]

    def narrowest_type(self) -> PrimitiveType:
        """Return the narrowest type to which all observed texts can be converted; string if no text was observed."""
        return self._candidates[0][0] if self._candidates and not self._is_empty else StringType()


def nearest_type(texts: Texts) -> PrimitiveType | None:
    """Return the first type to which nearly all of the texts can be converted. Return None if there is no such type, or a number has a leading zero."""
    trimmed, most_wrong = _trim(texts), int((1 - NEAR_SHARE) * len(texts))
    # Columns of words are recognised by the beginnings of their texts, because the conversions below take a hundred times as long.
    typed = pc.sum(pc.match_substring_regex(trimmed, _BEGINNING)).as_py() or 0
    if not len(texts) or len(texts) - trimmed.null_count - typed > most_wrong or _has_leading_zero(trimmed):
        return None
    return next((kind for kind in _NEAR if _nearly_all_have(trimmed, kind, most_wrong)), None)


def _nearly_all_have(trimmed: Texts, kind: PrimitiveType, most_wrong: int) -> bool:
    """Return whether at most `most_wrong` texts cannot be converted to a type. The search ends when more such texts were found."""
    convert = _CONVERSIONS[type(kind)]
    distinct = trimmed.unique().drop_null()
    wrong = list(islice(_not_convertible(distinct, lambda some: convert(some, kind)), most_wrong + 1))
    return len(wrong) <= most_wrong and (pc.sum(pc.is_in(trimmed, pa.array(wrong, pa.string()))).as_py() or 0) <= most_wrong


def wrong_texts(texts: Texts, kind: PrimitiveType) -> NDArray[np.bool_]:
    """Return a mask that is true for the texts that cannot be converted to a type. It is false for nulls."""
    is_wrong = from_text(texts, kind)[1]
    return np.zeros(len(texts), bool) if is_wrong is None else is_wrong


# ---- conversion ----


def from_text(texts: Texts, kind: IcebergType) -> tuple[Any, NDArray[np.bool_] | None]:
    """Convert texts to a type.

    Args:
        texts: A `pyarrow.StringArray`.
        kind: The type.

    Returns:
        An array of the values, with null for texts that cannot be converted; and a mask that is true for these texts, or None if all texts were converted.

    Raises:
        UnsupportedTypeError: Texts are never converted to this type, such as a struct.
    """
    if isinstance(kind, StringType):
        return texts, None
    if isinstance(kind, BinaryType):
        return texts.cast(pa.binary()), None
    convert = _CONVERSIONS.get(type(kind))
    if convert is None:
        raise UnsupportedTypeError(
            f"text cannot be loaded into a column of type {kind}", next_step="load it as string, or load JSON or Parquet files"
        )
    trimmed = _trim(texts)
    try:
        return convert(trimmed, kind), None
    except (pa.ArrowInvalid, ValueError):
        wrong = pa.array(_not_convertible(trimmed.unique().drop_null(), lambda some: convert(some, kind)), pa.string())
        is_wrong = pc.fill_null(pc.is_in(trimmed, wrong), False)
        values = convert(pc.if_else(is_wrong, pa.scalar(None, pa.string()), trimmed), kind)
        return values, np.asarray(is_wrong.to_numpy(zero_copy_only=False), bool)


def _trim(texts: Texts) -> Texts:
    """Remove the white space around texts. Texts that are empty then become null, because only columns of strings can have empty values."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _not_convertible(texts: Texts, convert: Callable[[Texts], Any]) -> Iterator[str]:
    """Yield the texts for which `convert` fails. They are found by bisection, because `convert` only shows whether a whole array can be converted."""
    waiting = [texts]
    while waiting:
        some = waiting.pop()
        try:
            convert(some)
        except (pa.ArrowInvalid, ValueError):
            if len(some) == 1:
                yield some[0].as_py()
            else:
                waiting += [some[: len(some) // 2], some[len(some) // 2 :]]


def _cast(texts: Texts, kind: IcebergType) -> Any:
    return texts.cast(type_to_arrow(kind))


def _cast_integer(texts: Texts, kind: IcebergType) -> Any:
    return _without_plus(texts).cast(type_to_arrow(kind))


def _cast_time_of_any_year(texts: Texts, kind: IcebergType) -> Any:
    """Convert texts to dates or timestamps of any year.

    Raises:
        pyarrow.ArrowInvalid, ValueError: A text is not a date or timestamp, or its year is beyond the range of the type.
    """
    is_far = pc.match_substring_regex(texts, _FAR_YEAR)
    if not pc.any(is_far).as_py():
        return _cast_near_time(texts, kind)
    near = _cast_near_time(pc.if_else(is_far, pa.scalar(None, pa.string()), texts), kind)
    distinct = texts.filter(is_far).unique()
    numbers = [_far_number(text, kind) for text in _of_microseconds_unless_nanos(distinct, kind).to_pylist()]
    try:
        times = pa.array(numbers, pa.int32() if isinstance(kind, DateType) else pa.int64()).cast(type_to_arrow(kind))
    except OverflowError as error:
        raise ValueError("the year is beyond the type") from error
    return pc.coalesce(near, times.take(pc.index_in(texts, distinct)))


def _far_number(text: str, kind: IcebergType) -> int:
    if isinstance(kind, DateType):
        return parse_date(text)
    is_utc, is_nanos = isinstance(kind, TimestamptzType | TimestamptzNanoType), isinstance(kind, TimestampNanoType | TimestamptzNanoType)
    return parse_timestamp(text, utc=is_utc, nanos=is_nanos)


def _of_microseconds_unless_nanos(texts: Texts, kind: IcebergType) -> Texts:
    return texts if isinstance(kind, DateType | TimestampNanoType | TimestamptzNanoType) else _of_microseconds(texts)


def _cast_near_time(texts: Texts, kind: IcebergType) -> Any:
    texts = _of_microseconds_unless_nanos(texts, kind)
    return (_with_zone(texts) if isinstance(kind, TimestamptzType | TimestamptzNanoType) else texts).cast(type_to_arrow(kind))


def _cast_time(texts: Texts, kind: IcebergType) -> Any:
    day = pa.scalar("1970-01-01T")
    return pc.binary_join_element_wise(day, _of_microseconds(texts), "").cast(pa.timestamp("us")).cast(type_to_arrow(kind))


def _cast_uuid(texts: Texts, kind: IcebergType) -> Any:
    values: list[bytes | None] = []
    for text in texts.to_pylist():
        if text is not None and not _UUID.fullmatch(text):
            raise ValueError("not a UUID")
        values.append(None if text is None else bytes.fromhex(text.replace("-", "")))
    return pa.array(values, type_to_arrow(kind))


_CONVERSIONS: Final[Mapping[type[IcebergType], Callable[[Texts, Any], Any]]] = {
    BooleanType: _cast,
    IntegerType: _cast_integer,
    LongType: _cast_integer,
    FloatType: _cast,
    DoubleType: _cast,
    DecimalType: _cast,
    DateType: _cast_time_of_any_year,
    TimestampType: _cast_time_of_any_year,
    TimestamptzType: _cast_time_of_any_year,
    TimestampNanoType: _cast_time_of_any_year,
    TimestamptzNanoType: _cast_time_of_any_year,
    TimeType: _cast_time,
    UUIDType: _cast_uuid,
}


def _without_plus(texts: Texts) -> Texts:
    """Remove the plus signs before numbers, because Arrow does not accept them before whole numbers."""
    return pc.replace_substring_regex(texts, r"^\+(\d)", r"\1") if pc.any(pc.starts_with(texts, "+")).as_py() else texts


def _of_microseconds(texts: Texts) -> Texts:
    """Cut fractions of seconds to six digits, as Spark does."""
    return pc.replace_substring_regex(texts, r"(\.\d{6})\d{1,3}", r"\1")


def _with_zone(texts: Texts) -> Texts:
    """Add the zone UTC to timestamps without a zone, and the time midnight in UTC to dates."""
    dates = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2}-\d{2})$", r"\1T00:00:00Z")
    return pc.if_else(pc.match_substring_regex(dates, _ZONE), dates, pc.binary_join_element_wise(dates, "Z", ""))
