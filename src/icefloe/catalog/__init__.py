"""Catalogs: tables by name. A public package: `load_catalog` and `Catalog` are exported here, as in PyIceberg."""

from icefloe.catalog.catalog import Catalog as Catalog
from icefloe.catalog.catalog_loader import load_catalog as load_catalog
