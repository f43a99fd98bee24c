"""`InMemoryCatalog` under the module name of PyIceberg: `from icefloe.catalog.memory import InMemoryCatalog`."""

from icefloe.catalog.in_memory_catalog import InMemoryCatalog

__all__ = ["InMemoryCatalog"]
