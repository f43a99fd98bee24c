"""Test suites and fault injection for authors of catalogs and storages: they check that an implementation fits Icefloe. This package needs pytest."""
