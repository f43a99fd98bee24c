"""Icefloe: Apache Iceberg for PySpark, in Python.

The public API: catalogs, tables and views, the values that describe a table, filters and errors. `icefloe.spark` starts Spark sessions with Iceberg
catalogs, `icefloe.inspect` shows the metadata and files of a table, `icefloe.errors` lists every error.

    from icefloe import load_catalog
    table = load_catalog("lake", uri="sqlite:////tmp/lake/catalog.db", warehouse="/tmp/lake").load_table("demo.events")
    table.scan("type = 'c8y_Event'").to_arrow()
"""

import os
from typing import TYPE_CHECKING

from icefloe.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    EngineError,
    FormatError,
    FormatWarning,
    IcefloeError,
    InvalidFilterError,
    InvalidIdentifierError,
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidPropertyError,
    InvalidSchemaError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchCatalogError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchSnapshotError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
    ReadOnlyTableError,
    SchemaMismatchError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedError,
    ViewAlreadyExistsError,
)
from icefloe.lazy_imports import lazy_exports
from icefloe.spec.limits import Limits, limits_from_environment, set_limits

if TYPE_CHECKING:
    from icefloe.catalog.catalog import Catalog

    # `icefloe.open(...)`. It is not in `__all__`, so that `from icefloe import *` keeps Python's.
    from icefloe.catalog.catalog_loader import load_catalog
    from icefloe.catalog.catalog_loader import open_location as open  # noqa: F401
    from icefloe.catalog.in_memory_catalog import InMemoryCatalog
    from icefloe.catalog.sql_catalog import SqlCatalog
    from icefloe.spec.expressions.predicate import (
        AlwaysFalse,
        AlwaysTrue,
        And,
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNaN,
        IsNull,
        LessThan,
        LessThanOrEqual,
        Not,
        NotEqualTo,
        NotIn,
        NotNaN,
        NotNull,
        NotStartsWith,
        Or,
        StartsWith,
    )
    from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionField, PartitionSpec
    from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
    from icefloe.spec.partitioning.transforms import (
        BucketTransform,
        DayTransform,
        HourTransform,
        IdentityTransform,
        MonthTransform,
        TruncateTransform,
        VoidTransform,
        YearTransform,
    )
    from icefloe.spec.schema.schema import Schema
    from icefloe.spec.types import (
        BinaryType,
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        FixedType,
        FloatType,
        GeographyType,
        GeometryType,
        IntegerType,
        ListType,
        LongType,
        MapType,
        NestedField,
        StringType,
        StructType,
        TimestampNanoType,
        TimestampType,
        TimestamptzNanoType,
        TimestamptzType,
        TimeType,
        UnknownType,
        UUIDType,
        VariantType,
    )
    from icefloe.spec.variant import encode as variant_from_python
    from icefloe.spec.variant import to_json as variant_to_json
    from icefloe.spec.variant import to_python as variant_to_python
    from icefloe.table.static_table import StaticTable
    from icefloe.table.table import Table
    from icefloe.version import VERSION as __version__  # noqa: N811
    from icefloe.view.view import View
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.catalog.catalog": "Catalog",
            "icefloe.catalog.catalog_loader": "load_catalog, open_location as open",
            "icefloe.catalog.in_memory_catalog": "InMemoryCatalog",
            "icefloe.catalog.sql_catalog": "SqlCatalog",
            "icefloe.spec.expressions.predicate": (
                "AlwaysFalse, AlwaysTrue, And, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNaN, IsNull, LessThan, "
                "LessThanOrEqual, Not, NotEqualTo, NotIn, NotNaN, NotNull, NotStartsWith, Or, StartsWith"
            ),
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
            "icefloe.spec.variant": "encode as variant_from_python, to_json as variant_to_json, to_python as variant_to_python",
            "icefloe.table.static_table": "StaticTable",
            "icefloe.table.table": "Table",
            "icefloe.version": "VERSION as __version__",
            "icefloe.view.view": "View",
            "icefloe.catalog": "",
            "icefloe.stores": "",
            "icefloe.datafile": "",
            "icefloe.display": "",
            "icefloe.inspect": "",
            "icefloe.io": "",
            "icefloe.spec": "",
            "icefloe.loading": "",
            "icefloe.procedures": "",
            "icefloe.spark": "",
            "icefloe.table": "",
            "icefloe.view": "",
        },
        unlisted=("spark",),
    )

# Every process imports this package, also the Python workers of Spark, and `spec` does not read environment variables.
set_limits(limits_from_environment(os.environ))

__all__ = [
    "UNPARTITIONED_SPEC",
    "UNSORTED_SORT_ORDER",
    "AlreadyExistsError",
    "AlwaysFalse",
    "AlwaysTrue",
    "And",
    "BinaryType",
    "BooleanType",
    "BucketTransform",
    "Catalog",
    "CommitConflictError",
    "CommitInvalidatedError",
    "CommitUnknownError",
    "DateType",
    "DayTransform",
    "DecimalType",
    "DoubleType",
    "EngineError",
    "EqualTo",
    "FixedType",
    "FloatType",
    "FormatError",
    "FormatWarning",
    "GeographyType",
    "GeometryType",
    "GreaterThan",
    "GreaterThanOrEqual",
    "HourTransform",
    "IcefloeError",
    "IdentityTransform",
    "In",
    "InMemoryCatalog",
    "IntegerType",
    "InvalidFilterError",
    "InvalidIdentifierError",
    "InvalidInputError",
    "InvalidPartitionSpecError",
    "InvalidPropertyError",
    "InvalidSchemaError",
    "IsNaN",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "Limits",
    "ListType",
    "LongType",
    "MapType",
    "MonthTransform",
    "NamespaceAlreadyExistsError",
    "NamespaceNotEmptyError",
    "NestedField",
    "NoSuchCatalogError",
    "NoSuchFileError",
    "NoSuchNamespaceError",
    "NoSuchSnapshotError",
    "NoSuchTableError",
    "NoSuchViewError",
    "Not",
    "NotEqualTo",
    "NotFoundError",
    "NotIn",
    "NotNaN",
    "NotNull",
    "NotStartsWith",
    "NullOrder",
    "Or",
    "PartitionField",
    "PartitionSpec",
    "ReadOnlyTableError",
    "Schema",
    "SchemaMismatchError",
    "SortDirection",
    "SortField",
    "SortOrder",
    "SqlCatalog",
    "StartsWith",
    "StaticTable",
    "StorageError",
    "StringType",
    "StructType",
    "Table",
    "TableAlreadyExistsError",
    "TimeType",
    "TimestampNanoType",
    "TimestampType",
    "TimestamptzNanoType",
    "TimestamptzType",
    "TruncateTransform",
    "UUIDType",
    "UnknownType",
    "UnsupportedError",
    "VariantType",
    "View",
    "ViewAlreadyExistsError",
    "VoidTransform",
    "YearTransform",
    "__version__",
    "load_catalog",
    "set_limits",
    "variant_from_python",
    "variant_to_json",
    "variant_to_python",
]
