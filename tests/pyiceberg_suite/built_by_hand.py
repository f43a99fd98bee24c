"""Objects that PyIceberg's fixtures build by constructors which users do not call: metadata of its JSON, a table without a catalog.

With these the tests of what such objects do can run. Everything else of a test uses Icefloe's own classes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import LocationPolicy
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.table_handle import TableHandle
from icefloe.table.metadata import TableMetadataUtil
from icefloe.table.table import Table


def metadata_of_version(version: int) -> Callable[..., Any]:
    """Return the constructor of table metadata of a format version: `TableMetadataV2(**parsed_json)`."""

    def construct(**keys: Any) -> Any:
        return TableMetadataUtil.parse_obj({**keys, "format-version": version})

    return construct


class _AnyTable(type(Table)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Table)


class TableBuiltByHand(Table, metaclass=_AnyTable):
    """`Table(identifier=..., metadata=..., metadata_location=..., io=..., catalog=...)`."""

    def __init__(
        self, identifier: Any, metadata: Any, metadata_location: str, io: Any, catalog: Any, config: Mapping[str, str] | None = None
    ) -> None:
        handle = TableHandle(identifier=tuple(identifier), store=catalog.store, io=io, policy=LocationPolicy.of(config or {}))
        super().__init__(handle, LoadedMetadata(location=metadata_location, metadata=metadata))


class AnyTransform:
    """`Transform[S, T]` in an annotation: PyIceberg's class is generic."""

    def __class_getitem__(cls, _parameters: Any) -> "type[AnyTransform]":
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: Any) -> Any:
        return handler(Any)


NAMES: dict[str, Any] = {
    "icefloe.table.metadata.TableMetadataV1": metadata_of_version(1),
    "icefloe.table.metadata.TableMetadataV2": metadata_of_version(2),
    "icefloe.table.metadata.TableMetadataV3": metadata_of_version(3),
    "icefloe.table.Table": TableBuiltByHand,
    "icefloe.transforms.Transform": AnyTransform,
    "icefloe.transforms.S": Any,
    "icefloe.transforms.T": Any,
    "icefloe.catalog.noop.NoopCatalog": InMemoryCatalog,
    "icefloe.io.load_file_io": lambda properties=None, location=None: load_file_io(properties or {}, location),
    "icefloe.io.WAREHOUSE": "warehouse",
}
