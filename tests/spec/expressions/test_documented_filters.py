"""Every example of docs/filters.md holds."""

import re
from pathlib import Path

import pytest

from icefloe.errors import InvalidFilterError
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

PAGE = (Path(__file__).parents[3] / "docs" / "filters.md").read_text()
KINDS = {
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal": DecimalType(9, 2),
    "boolean": BooleanType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "timestamp_ns": TimestampNanoType(),
    "string": StringType(),
    "uuid": UUIDType(),
    "binary": BinaryType(),
    "fixed": FixedType(2),
    "struct": StructType(NestedField(101, "int", IntegerType())),
    "list": ListType(element_id=102, element=IntegerType()),
    "variant": VariantType(),
    "geometry": GeometryType(),
    "unknown": UnknownType(),
}
SCHEMA = Schema(*(NestedField(number, name, kind) for number, (name, kind) in enumerate(KINDS.items(), 1)))


def examples(title: str) -> list[tuple[str, str]]:
    """Return the lines of the blocks with this title: the input, and the outcome."""
    blocks = re.findall(rf"^```{title}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    pairs = [line.split("->", 1) for block in blocks for line in block.splitlines()]
    assert pairs
    return [(written.strip(), outcome.strip()) for written, outcome in pairs]


@pytest.mark.parametrize(("text", "outcome"), examples("filters"))
def test_a_text_is_parsed_into_the_documented_filter(text, outcome):
    assert str(parse_filter(text)) == outcome
    assert str(parse_filter(outcome)) == outcome


@pytest.mark.parametrize(("text", "reason"), examples("refused"))
def test_a_text_is_refused_for_the_documented_reason(text, reason):
    with pytest.raises(InvalidFilterError) as refused:
        parse_filter(text)
    assert reason in refused.value.message


@pytest.mark.parametrize(("text", "outcome"), examples("bound"))
def test_a_literal_is_converted_as_documented(text, outcome):
    bound = bind(parse_filter(text), SCHEMA)
    assert str(bound) == outcome
    assert bind(parse_filter(outcome), SCHEMA) == bound


@pytest.mark.parametrize(("text", "reason"), examples("refused when bound"))
def test_a_literal_that_does_not_fit_is_refused_for_the_documented_reason(text, reason):
    with pytest.raises(InvalidFilterError) as refused:
        bind(parse_filter(text), SCHEMA)
    assert reason in refused.value.message


def test_every_type_except_geography_is_documented():
    documented = " ".join(text for text, _ in examples("bound"))
    assert [name for name in KINDS if not re.search(rf"\b{name}\b", documented)] == []
