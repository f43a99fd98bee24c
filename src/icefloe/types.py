"""The types of columns, under the module name of PyIceberg: `from icefloe.types import LongType, NestedField`. The names are also those of `icefloe`."""

from icefloe.spec.types import BinaryType as BinaryType
from icefloe.spec.types import BooleanType as BooleanType
from icefloe.spec.types import DateType as DateType
from icefloe.spec.types import DecimalType as DecimalType
from icefloe.spec.types import DoubleType as DoubleType
from icefloe.spec.types import FixedType as FixedType
from icefloe.spec.types import FloatType as FloatType
from icefloe.spec.types import GeographyType as GeographyType
from icefloe.spec.types import GeometryType as GeometryType
from icefloe.spec.types import IcebergType as IcebergType
from icefloe.spec.types import IntegerType as IntegerType
from icefloe.spec.types import ListType as ListType
from icefloe.spec.types import LongType as LongType
from icefloe.spec.types import MapType as MapType
from icefloe.spec.types import NestedField as NestedField
from icefloe.spec.types import PrimitiveType as PrimitiveType
from icefloe.spec.types import StringType as StringType
from icefloe.spec.types import StructType as StructType
from icefloe.spec.types import TimestampNanoType as TimestampNanoType
from icefloe.spec.types import TimestampType as TimestampType
from icefloe.spec.types import TimestamptzNanoType as TimestamptzNanoType
from icefloe.spec.types import TimestamptzType as TimestamptzType
from icefloe.spec.types import TimeType as TimeType
from icefloe.spec.types import UnknownType as UnknownType
from icefloe.spec.types import UUIDType as UUIDType
from icefloe.spec.types import VariantType as VariantType
