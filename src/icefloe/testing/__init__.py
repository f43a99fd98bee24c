"""What proves a catalog or a storage fit for Icefloe, for those who write one: suites of tests and faults on order. Needs pytest."""
