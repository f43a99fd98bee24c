"""Which decimals of rows a decimal column takes, without a session."""

import pytest
from pyspark.sql.types import DecimalType as SparkDecimal
from pyspark.sql.types import StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import SchemaMismatchError
from icefloe.spark.write.schema_check import check_fits
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DecimalType, NestedField, StructType

AMOUNT = DecimalType(10, 2)


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (8, 2), (9, 1), (8, 0)])
def test_a_decimal_column_takes_decimals_whose_digits_it_has(precision: int, scale: int) -> None:
    check_fits(SparkStruct([StructField("d", SparkDecimal(precision, scale))]), Schema(NestedField(1, "d", AMOUNT)))


@pytest.mark.parametrize(("precision", "scale"), [(11, 2), (10, 4), (4, 3), (10, 1), (9, 0)])
def test_decimals_with_more_digits_on_either_side_are_refused(precision: int, scale: int) -> None:
    with pytest.raises(SchemaMismatchError, match=rf"decimal\({precision},\s?{scale}\)"):
        check_fits(SparkStruct([StructField("d", SparkDecimal(precision, scale))]), Schema(NestedField(1, "d", AMOUNT)))


def test_decimals_inside_of_structs_need_the_scale_of_the_column() -> None:
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "d", AMOUNT))))
    check_fits(SparkStruct([StructField("s", SparkStruct([StructField("d", SparkDecimal(8, 2))]))]), schema)
    with pytest.raises(SchemaMismatchError, match=r"s\.d"):
        check_fits(SparkStruct([StructField("s", SparkStruct([StructField("d", SparkDecimal(9, 1))]))]), schema)
