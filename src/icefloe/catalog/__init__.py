"""Catalogs: tables by name. A public door: `load_catalog` and `Catalog` are named here as PyIceberg's users know them."""

from icefloe.catalog.catalog import Catalog as Catalog
from icefloe.catalog.catalog_loader import load_catalog as load_catalog
