"""A pytest plugin under which PyIceberg's own tests of catalogs use PyIceberg's own client with `icefloe serve` behind it.

It runs in the environment of PyIceberg. Tests that name the REST catalog of PyIceberg's containers get the address in `ICEFLOE_SUITE_SERVER`; those of any
catalog, which PyIceberg runs with catalogs in memory and in SQL, get a catalog of the server, which is empty before each test. Tests of other catalogs are
deselected.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

# Services that PyIceberg's `conftest.py` imports for other tests.
SERVICES = ("boto3", "botocore", "moto", "hive_metastore", "thrift")
# The address of the REST catalog in PyIceberg's tests, and their properties of its store, a MinIO.
CONTAINERS = "http://localhost:8181"
ADDRESS = os.environ["ICEFLOE_SUITE_SERVER"]
# The catalogs of `tests/conftest.py` and `tests/integration/test_catalog.py` in whose place the server is, and those that are left out.
PLACE, OTHERS = "memory", ("sql", "sql_without_rowcount")
OTHER_CATALOGS = (
    "memory_catalog",
    "sqlite_catalog_memory",
    "sqlite_catalog_file",
    "hive_catalog",
    "rest_test_catalog",
    "session_catalog_hive",
)


# The jar of Java's Iceberg for Spark.
JAR = os.environ["ICEFLOE_SUITE_JAR"]


class Services(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of services, which have any name."""

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in SERVICES:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = lambda _name: mock.MagicMock()  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: every name is made when it is used."""


sys.meta_path.insert(0, Services())

from pyiceberg.catalog.rest import RestCatalog  # noqa: E402  (after the services)
from pyiceberg.exceptions import NoSuchNamespaceError  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

_connect = RestCatalog.__init__


def _at_the_server(self: RestCatalog, name: str, **properties: Any) -> None:
    if properties.get("uri") == CONTAINERS:
        properties = {key: value for key, value in properties.items() if not key.startswith("s3.")} | {"uri": ADDRESS}
    _connect(self, name, **properties)


RestCatalog.__init__ = _at_the_server  # type: ignore[method-assign]


def empty_catalog(name: str, _warehouse: Path) -> RestCatalog:
    """Return a catalog of the server, without namespaces."""
    catalog = RestCatalog(name, uri=ADDRESS)
    _drop_all(catalog, ())
    return catalog


def _drop_all(catalog: RestCatalog, parent: tuple[str, ...]) -> None:
    for namespace in catalog.list_namespaces(parent):
        with suppress(NoSuchNamespaceError):  # PyIceberg encodes the name of a parent twice, so that one with a blank has no children
            _drop_all(catalog, namespace)
        with suppress(NoSuchNamespaceError):  # the parent of a namespace need not have been created
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)
            for view in catalog.list_views(namespace):
                catalog.drop_view(view)
            catalog.drop_namespace(namespace)


@pytest.fixture(scope="session", autouse=True)
def _prepared() -> None:
    """Create what PyIceberg's containers have from the beginning, as far as the tests use it that run."""
    catalog = RestCatalog("local", uri=ADDRESS)
    catalog.create_namespace_if_not_exists("default")
    numbers = pa.table({"number": pa.array([1], pa.int32())})
    table = catalog.create_table("default.test_table_snapshot_operations", numbers.schema, properties={"format-version": "2"})
    for _ in range(5):
        table.append(numbers)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    sys.modules["conftest"]._CATALOG_FACTORIES[PLACE] = empty_catalog
    others = [item for item in items if _is_of_another_catalog(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


def _is_of_another_catalog(item: Any) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    named = [parameters[key] for key in ("catalog", "catalog_with_warehouse", "test_catalog", "session_catalog") if key in parameters]
    return any(str(getattr(value, "name", value)) in (*OTHERS, *OTHER_CATALOGS) for value in named)


def _spark_at_the_server(builder: Any, _url: str) -> Any:
    """Return the builder of a session of Java's Iceberg with the server as its catalogs, in place of one of PyIceberg's containers."""
    catalogs = ("integration", "rest", "local")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": JAR,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": "integration",
        # Structs in a data frame of pandas are dictionaries in Spark Connect, which PyIceberg's containers have.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.pandas.structHandlingMode": "dict",
    }
    for name in catalogs:
        settings |= {
            f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{name}.type": "rest",
            f"spark.sql.catalog.{name}.uri": ADDRESS,
            f"spark.sql.catalog.{name}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            f"spark.sql.catalog.{name}.cache-enabled": "false",
        }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.master("local[2]")


SparkSession.Builder.remote = _spark_at_the_server  # type: ignore[method-assign]
