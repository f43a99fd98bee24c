"""Icefloe: Apache Iceberg for PySpark, in Python.

The public API: catalogs, tables and views, the values that describe a table, filters and errors. `icefloe.spark` starts Spark sessions with Iceberg
catalogs, `icefloe.inspect` shows the metadata and files of a table, `icefloe.errors` lists every error.

    from icefloe import load_catalog
    table = load_catalog("lake", uri="sqlite:////tmp/lake/catalog.db", warehouse="/tmp/lake").load_table("demo.events")
    table.scan("type = 'c8y_Event'").to_arrow()
"""

import os
from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports, lazy_module
from icefloe.notebook import ShownInNotebooks
from icefloe.spec.limits import limits_from_environment
from icefloe.spec.limits import set_limits as set_limits

if TYPE_CHECKING:
    from icefloe import catalog as catalog
    from icefloe import datafile as datafile
    from icefloe import display as display
    from icefloe import inspect as inspect
    from icefloe import io as io
    from icefloe import loading as loading
    from icefloe import procedures as procedures
    from icefloe import spark as spark
    from icefloe import spec as spec
    from icefloe import stores as stores
    from icefloe import table as table
    from icefloe import view as view
    from icefloe.catalog.catalog import Catalog as Catalog
    from icefloe.catalog.catalog_loader import load_catalog as load_catalog
    from icefloe.catalog.catalog_loader import open_location as open  # noqa: F401  # `icefloe.open(...)`
    from icefloe.catalog.in_memory_catalog import InMemoryCatalog as InMemoryCatalog
    from icefloe.catalog.sql_catalog import SqlCatalog as SqlCatalog
    from icefloe.display import reports_of_values as _reports
    from icefloe.errors import AlreadyExistsError as AlreadyExistsError
    from icefloe.errors import CommitConflictError as CommitConflictError
    from icefloe.errors import CommitInvalidatedError as CommitInvalidatedError
    from icefloe.errors import CommitUnknownError as CommitUnknownError
    from icefloe.errors import EngineError as EngineError
    from icefloe.errors import FormatError as FormatError
    from icefloe.errors import FormatWarning as FormatWarning
    from icefloe.errors import IcefloeError as IcefloeError
    from icefloe.errors import InvalidFilterError as InvalidFilterError
    from icefloe.errors import InvalidIdentifierError as InvalidIdentifierError
    from icefloe.errors import InvalidInputError as InvalidInputError
    from icefloe.errors import InvalidPartitionSpecError as InvalidPartitionSpecError
    from icefloe.errors import InvalidPropertyError as InvalidPropertyError
    from icefloe.errors import InvalidSchemaError as InvalidSchemaError
    from icefloe.errors import NamespaceAlreadyExistsError as NamespaceAlreadyExistsError
    from icefloe.errors import NamespaceNotEmptyError as NamespaceNotEmptyError
    from icefloe.errors import NoSuchCatalogError as NoSuchCatalogError
    from icefloe.errors import NoSuchFileError as NoSuchFileError
    from icefloe.errors import NoSuchNamespaceError as NoSuchNamespaceError
    from icefloe.errors import NoSuchSnapshotError as NoSuchSnapshotError
    from icefloe.errors import NoSuchTableError as NoSuchTableError
    from icefloe.errors import NoSuchViewError as NoSuchViewError
    from icefloe.errors import NotFoundError as NotFoundError
    from icefloe.errors import ReadOnlyTableError as ReadOnlyTableError
    from icefloe.errors import SchemaMismatchError as SchemaMismatchError
    from icefloe.errors import StorageError as StorageError
    from icefloe.errors import TableAlreadyExistsError as TableAlreadyExistsError
    from icefloe.errors import UnsupportedError as UnsupportedError
    from icefloe.errors import ViewAlreadyExistsError as ViewAlreadyExistsError
    from icefloe.spec.expressions.predicate import AlwaysFalse as AlwaysFalse
    from icefloe.spec.expressions.predicate import AlwaysTrue as AlwaysTrue
    from icefloe.spec.expressions.predicate import And as And
    from icefloe.spec.expressions.predicate import EqualTo as EqualTo
    from icefloe.spec.expressions.predicate import GreaterThan as GreaterThan
    from icefloe.spec.expressions.predicate import GreaterThanOrEqual as GreaterThanOrEqual
    from icefloe.spec.expressions.predicate import In as In
    from icefloe.spec.expressions.predicate import IsNaN as IsNaN
    from icefloe.spec.expressions.predicate import IsNull as IsNull
    from icefloe.spec.expressions.predicate import LessThan as LessThan
    from icefloe.spec.expressions.predicate import LessThanOrEqual as LessThanOrEqual
    from icefloe.spec.expressions.predicate import Not as Not
    from icefloe.spec.expressions.predicate import NotEqualTo as NotEqualTo
    from icefloe.spec.expressions.predicate import NotIn as NotIn
    from icefloe.spec.expressions.predicate import NotNaN as NotNaN
    from icefloe.spec.expressions.predicate import NotNull as NotNull
    from icefloe.spec.expressions.predicate import NotStartsWith as NotStartsWith
    from icefloe.spec.expressions.predicate import Or as Or
    from icefloe.spec.expressions.predicate import StartsWith as StartsWith
    from icefloe.spec.limits import Limits as Limits
    from icefloe.spec.limits import set_limits as set_limits
    from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC as UNPARTITIONED_SPEC
    from icefloe.spec.partitioning.partition_spec import PartitionField as PartitionField
    from icefloe.spec.partitioning.partition_spec import PartitionSpec as PartitionSpec
    from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER as UNSORTED_SORT_ORDER
    from icefloe.spec.partitioning.sort_order import NullOrder as NullOrder
    from icefloe.spec.partitioning.sort_order import SortDirection as SortDirection
    from icefloe.spec.partitioning.sort_order import SortField as SortField
    from icefloe.spec.partitioning.sort_order import SortOrder as SortOrder
    from icefloe.spec.partitioning.transforms import BucketTransform as BucketTransform
    from icefloe.spec.partitioning.transforms import DayTransform as DayTransform
    from icefloe.spec.partitioning.transforms import HourTransform as HourTransform
    from icefloe.spec.partitioning.transforms import IdentityTransform as IdentityTransform
    from icefloe.spec.partitioning.transforms import MonthTransform as MonthTransform
    from icefloe.spec.partitioning.transforms import TruncateTransform as TruncateTransform
    from icefloe.spec.partitioning.transforms import VoidTransform as VoidTransform
    from icefloe.spec.partitioning.transforms import YearTransform as YearTransform
    from icefloe.spec.schema.schema import Schema as Schema
    from icefloe.spec.types import BinaryType as BinaryType
    from icefloe.spec.types import BooleanType as BooleanType
    from icefloe.spec.types import DateType as DateType
    from icefloe.spec.types import DecimalType as DecimalType
    from icefloe.spec.types import DoubleType as DoubleType
    from icefloe.spec.types import FixedType as FixedType
    from icefloe.spec.types import FloatType as FloatType
    from icefloe.spec.types import GeographyType as GeographyType
    from icefloe.spec.types import GeometryType as GeometryType
    from icefloe.spec.types import IntegerType as IntegerType
    from icefloe.spec.types import ListType as ListType
    from icefloe.spec.types import LongType as LongType
    from icefloe.spec.types import MapType as MapType
    from icefloe.spec.types import NestedField as NestedField
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
    from icefloe.spec.variant import variant_from_python as variant_from_python
    from icefloe.spec.variant import variant_to_json as variant_to_json
    from icefloe.spec.variant import variant_to_python as variant_to_python
    from icefloe.table.static_table import StaticTable as StaticTable
    from icefloe.table.table import Table as Table
    from icefloe.version import __version__ as __version__
    from icefloe.view.view import View as View
else:
    _reports = lazy_module("icefloe.display.reports_of_values")
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.catalog": "",
            "icefloe.catalog.catalog": "Catalog",
            "icefloe.catalog.catalog_loader": "load_catalog, open_location as open",
            "icefloe.catalog.in_memory_catalog": "InMemoryCatalog",
            "icefloe.catalog.sql_catalog": "SqlCatalog",
            "icefloe.datafile": "",
            "icefloe.display": "",
            "icefloe.errors": (
                "AlreadyExistsError, CommitConflictError, CommitInvalidatedError, CommitUnknownError, EngineError, "
                "FormatError, FormatWarning, IcefloeError, InvalidFilterError, InvalidIdentifierError, InvalidInputError, "
                "InvalidPartitionSpecError, InvalidPropertyError, InvalidSchemaError, NamespaceAlreadyExistsError, "
                "NamespaceNotEmptyError, NoSuchCatalogError, NoSuchFileError, NoSuchNamespaceError, NoSuchSnapshotError, "
                "NoSuchTableError, NoSuchViewError, NotFoundError, ReadOnlyTableError, SchemaMismatchError, StorageError, "
                "TableAlreadyExistsError, UnsupportedError, ViewAlreadyExistsError"
            ),
            "icefloe.inspect": "",
            "icefloe.io": "",
            "icefloe.loading": "",
            "icefloe.procedures": "",
            "icefloe.spark": "",
            "icefloe.spec": "",
            "icefloe.spec.expressions.predicate": (
                "AlwaysFalse, AlwaysTrue, And, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNaN, IsNull, LessThan, "
                "LessThanOrEqual, Not, NotEqualTo, NotIn, NotNaN, NotNull, NotStartsWith, Or, StartsWith"
            ),
            "icefloe.spec.limits": "Limits, set_limits",
            "icefloe.spec.partitioning.partition_spec": "UNPARTITIONED_SPEC, PartitionField, PartitionSpec",
            "icefloe.spec.partitioning.sort_order": "UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder",
            "icefloe.spec.partitioning.transforms": (
                "BucketTransform, DayTransform, HourTransform, IdentityTransform, MonthTransform, TruncateTransform, "
                "VoidTransform, YearTransform"
            ),
            "icefloe.spec.schema.schema": "Schema",
            "icefloe.spec.types": (
                "BinaryType, BooleanType, DateType, DecimalType, DoubleType, FixedType, FloatType, GeographyType, "
                "GeometryType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType, "
                "TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType, TimeType, UnknownType, UUIDType, "
                "VariantType"
            ),
            "icefloe.spec.variant": "variant_from_python, variant_to_json, variant_to_python",
            "icefloe.stores": "",
            "icefloe.table": "",
            "icefloe.table.static_table": "StaticTable",
            "icefloe.table.table": "Table",
            "icefloe.version": "__version__",
            "icefloe.view": "",
            "icefloe.view.view": "View",
        },
        unlisted=("spark",),
    )

# Every process imports this package, also the Python workers of Spark, and `spec` does not read environment variables.
set_limits(limits_from_environment(os.environ))
# `spec` does not import the code that displays its values either.
ShownInNotebooks.reports = _reports
