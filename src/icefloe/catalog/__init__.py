"""Catalogs: tables by name. A public package: `load_catalog` and `Catalog` are exported here, as in PyIceberg."""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.catalog.catalog import Catalog as Catalog
    from icefloe.catalog.catalog_loader import load_catalog as load_catalog
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.catalog.catalog": "Catalog",
            "icefloe.catalog.catalog_loader": "load_catalog",
        },
    )
