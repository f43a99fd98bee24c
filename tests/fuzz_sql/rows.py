"""Random values, as the texts of SQL that make them.

A leaf is the text of a literal, a list a list, a map a list of pairs, and a struct a mapping by the numbers of its fields, so that a value fits a schema
whose fields were renamed, dropped or added.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.fuzz_sql.schemas import Kind, Leaf, ListOf, MapOf, Struct, sql_type, text_literal

Value = str | list[Any] | dict[int, Any] | None

_TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "bee",
    "A",
    "ä",
    "x%_y",
    "it's",
    "two\nlines",
    "a string that is longer than bounds are, and has an end",
    "😀",
    "\\",
    "NULL",
    "2024-01-02",
    " ",
)
_COMMON: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "INT": ("0", "1", "2", "3", "10", "20", "-1"),
    "BIGINT": ("0L", "1L", "2L", "3L", "10L", "20L", "-1L"),
    "FLOAT": ("0.0F", "1.5F", "-2.25F", "10.0F"),
    "DOUBLE": ("0.0D", "1.5D", "-2.25D", "10.0D"),
    "DATE": ("DATE'2024-01-01'", "DATE'2024-02-29'", "DATE'1970-01-01'", "DATE'1969-12-31'"),
    "TIMESTAMP": ("TIMESTAMP'2024-01-01 00:00:00'", "TIMESTAMP'2024-01-01 12:34:56.789012'", "TIMESTAMP'1970-01-01 00:00:00'"),
    "TIMESTAMP_NTZ": (
        "TIMESTAMP_NTZ'2024-01-01 00:00:00'",
        "TIMESTAMP_NTZ'2024-01-01 12:34:56.789012'",
        "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
    ),
    "STRING": tuple(text_literal(text) for text in _TEXTS[1:5]),
    "BINARY": ("X'00'", "X'61'", "X'FF'"),
    "DECIMAL": ("0", "1", "1.25", "-1.25", "100"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'", "'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
    "FIXED": ("X'00000000'", "X'61626364'", "X'FFFFFFFF'"),
    "TIME": ("TIME'00:00:00'", "TIME'12:34:56.789012'", "TIME'12:34:56'"),
    "VARIANT": ("parse_json('1')", 'parse_json(\'{"a": 1, "b": [1, 2]}\')', "parse_json('\"text\"')", "parse_json('null')"),
}
_RARE: dict[str, tuple[str, ...]] = {
    "INT": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775808L", "9223372036854775807L", "2147483648L"),
    "FLOAT": ("'NaN'", "'-0.0'", "'Infinity'", "'-Infinity'", "'3.4028235E38'", "'1.4E-45'"),
    "DOUBLE": ("'NaN'", "'-0.0'", "'Infinity'", "'-Infinity'", "'1.7976931348623157E308'", "'4.9E-324'"),
    "DATE": ("DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1582-10-04'", "DATE'1582-10-15'"),
    "TIMESTAMP": (
        "TIMESTAMP'0001-01-01 00:00:00'",
        "TIMESTAMP'9999-12-31 23:59:59.999999'",
        "TIMESTAMP'1969-12-31 23:59:59.123456'",
        "TIMESTAMP'1582-10-10 00:00:00'",
    ),
    "TIME": ("TIME'23:59:59.999999'", "TIME'00:00:00.000001'"),
    "STRING": tuple(text_literal(text) for text in (_TEXTS[0], *_TEXTS[5:])),
    "BINARY": ("X''", "X'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF'", "X'0000'"),
}
FAR_YEARS: Mapping[str, tuple[str, ...]] = {
    "DATE": ("DATE'+20204-01-01'", "DATE'-0044-03-15'"),
    "TIMESTAMP": ("TIMESTAMP'+20204-01-01 00:00:00'", "TIMESTAMP'-0044-03-15 00:00:00'", "TIMESTAMP'-0044-03-15 23:59:59.5'"),
}
# Around the years 0, 1, 10000 and 1970, where arithmetic on dates is wrong first, and as far away as hours fit 32 bits.
MORE_FAR_YEARS: Mapping[str, tuple[str, ...]] = {
    "DATE": (
        *FAR_YEARS["DATE"],
        "DATE'0000-12-31'",
        "DATE'-0001-01-01'",
        "DATE'+10000-01-01'",
        "DATE'1969-01-01'",
        "DATE'+240000-07-01'",
    ),
    "TIMESTAMP": (
        *FAR_YEARS["TIMESTAMP"],
        "TIMESTAMP'0000-12-31 23:59:59.999999'",
        "TIMESTAMP'-0001-01-01 00:30:00'",
        "TIMESTAMP'+10000-01-01 00:00:00'",
        "TIMESTAMP'1969-12-31 23:00:00'",
        "TIMESTAMP'+240000-07-01 01:02:03.000004'",
    ),
}


class ValueMaker:
    """Random values of one table."""

    def __init__(self, chosen: Random, *, far: Mapping[str, tuple[str, ...]], far_share: float = 0.1) -> None:
        """Remember how values are chosen.

        Args:
            chosen: The source of choices.
            far: Dates and times before the year 1 and after 9999, by their types; empty for none.
            far_share: How many of the dates and times are of these.
        """
        self.chosen = chosen
        self.far = far
        self.far_share = far_share

    def of_source(self, chosen: Random) -> "ValueMaker":
        """Return a maker of such values with another source of choices."""
        return ValueMaker(chosen, far=self.far, far_share=self.far_share)

    def value(self, kind: Kind, *, nulls: float = 0.15) -> Value:
        if self.chosen.random() < nulls or kind == Leaf("VOID"):
            return None
        match kind:
            case Leaf(name):
                return self.leaf(name)
            case ListOf(element):
                return [self.value(element) for _ in range(self.chosen.choice([0, 1, 1, 2, 3]))]
            case MapOf(key, value):
                keys = {rendered(one, key): one for one in (self.value(key, nulls=0.0) for _ in range(self.chosen.choice([0, 1, 1, 2, 3])))}
                return [(one, self.value(value)) for one in keys.values()]
            case Struct(_, fields):
                return {field.number: self.value(field.kind, nulls=nulls) for field in fields}

    def leaf(self, name: str) -> str:
        base = name.partition("(")[0]
        rare = base.removesuffix("_NTZ")
        choice = self.chosen.random()
        if rare in self.far and choice < self.far_share:
            found = self.chosen.choice(self.far[rare])
        elif base == "DECIMAL" and choice < 0.2:
            digits, scale = map(int, name[8:-1].split(","))
            most = f"{'9' * (digits - scale)}.{'9' * scale}"
            found = self.chosen.choice([most, f"-{most}"]) + "BD"
        elif rare in _RARE and choice < 0.35:
            found = self.chosen.choice(_RARE[rare])
        else:
            return self.chosen.choice(_COMMON[base])
        return found.replace("TIMESTAMP'", "TIMESTAMP_NTZ'") if base == "TIMESTAMP_NTZ" else found

    def literal(self, kind: Kind) -> str:
        """Return a value that is not null as an expression."""
        return rendered(self.value(kind, nulls=0.0), kind)


def rendered(value: Value, kind: Kind) -> str:
    """Return a value as an expression of SQL that has exactly this type."""
    if value is None:
        return f"CAST(NULL AS {sql_type(kind)})"
    match kind, value:
        case Leaf(name), str():
            # Literals of these types have the type already, and CAST keeps them.
            return value if name in ("STRING", "BOOLEAN", "DATE", "VARIANT", "UUID", "FIXED", "BINARY") else f"CAST({value} AS {name})"
        case ListOf(element), list():
            items = ", ".join(rendered(one, element) for one in value)
            return f"array({items})" if value else f"CAST(array() AS {sql_type(kind)})"
        case MapOf(key, inner), list():
            items = ", ".join(f"{rendered(one, key)}, {rendered(other, inner)}" for one, other in value)
            return f"map({items})" if value else f"CAST(map() AS {sql_type(kind)})"
        case Struct(_, fields), dict():
            items = ", ".join(f"{text_literal(field.name)}, {rendered(value.get(field.number), field.kind)}" for field in fields)
            return f"named_struct({items})"
    raise ValueError(f"{value!r} is no value of {sql_type(kind)}")
