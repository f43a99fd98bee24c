"""Catalogs as users of Java's Iceberg configure them: `catalog-impl`, `type=jdbc` and the URIs of Java's drivers; types that Icefloe does not have."""

from pathlib import Path

import pytest

from icefloe import SqlCatalog, load_catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import UnsupportedFeatureError
from icefloe.stores.database_uri import uri_of_jdbc

SPARK = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "cache-enabled": "false"}


@pytest.mark.parametrize(
    ("uri", "user", "password", "expected"),
    [
        ("jdbc:postgresql://host:5432/lake", None, None, "postgresql://host:5432/lake"),
        ("jdbc:postgresql://host/lake?user=me&password=a%2Fb&ssl=true", None, None, "postgresql://me:a%2Fb@host/lake?ssl=true"),
        ("jdbc:postgresql://host/lake?user=me", "you", "p@ss/word", "postgresql://you:p%40ss%2Fword@host/lake"),
        ("jdbc:sqlite:/lake/catalog.db", None, None, "sqlite:////lake/catalog.db"),
        ("jdbc:sqlite:file:/lake/catalog.db", None, None, "sqlite:////lake/catalog.db"),
        ("jdbc:mysql://host/lake", "me", None, "mysql://me@host/lake"),
    ],
)
def test_a_uri_of_a_java_driver_becomes_one_of_sqlalchemy(uri: str, user: str | None, password: str | None, expected: str) -> None:
    assert uri_of_jdbc(uri, user, password) == expected


@pytest.mark.parametrize("kind", [{"type": "jdbc"}, {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"}])
def test_a_jdbc_catalog_is_a_sql_catalog_of_the_same_tables(tmp_path: Path, kind: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        catalog = load_catalog("prod", uri=f"jdbc:sqlite:{tmp_path}/catalog.db", warehouse=str(tmp_path), **kind, **SPARK)
        assert isinstance(catalog, SqlCatalog)
        catalog.create_namespace("db")
        assert SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db").list_namespaces() == [("db",)]


def test_a_hadoop_catalog_is_recognised_by_its_class(tmp_path: Path) -> None:
    properties = {"catalog-impl": "org.apache.iceberg.hadoop.HadoopCatalog"}
    assert isinstance(load_catalog("prod", warehouse=str(tmp_path), **properties), FileSystemCatalog)


@pytest.mark.parametrize(
    ("properties", "instead"),
    [
        ({"type": "dynamodb"}, "type: glue"),
        ({"catalog-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog"}, "type: glue"),
        ({"type": "biglake"}, "REST endpoint of BigLake"),
        ({"catalog-impl": "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog"}, "REST endpoint of BigLake"),
        ({"type": "nessie"}, "ends in /iceberg"),
        ({"type": "hive", "uri": "thrift://host:9083", "hive.kerberos-authentication": "true"}, "REST server with Kerberos"),
        ({"catalog-impl": "com.example.OwnCatalog"}, "give a type"),
    ],
)
def test_a_catalog_that_icefloe_does_not_have_is_refused_with_what_to_use(properties: dict[str, str], instead: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as raised:
        load_catalog("prod", **properties)
    assert instead in str(raised.value.next_step)
