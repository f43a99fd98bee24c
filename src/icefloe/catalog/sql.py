"""`SqlCatalog` under the module name of PyIceberg: `from icefloe.catalog.sql import SqlCatalog`."""

from icefloe.catalog.sql_catalog import SqlCatalog

__all__ = ["SqlCatalog"]
