"""A misspelt property of a table, property of a catalog or key of a configuration file is refused with the known name."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.java_names import CATALOG_PROPERTIES
from typer.testing import CliRunner

from icefloe import InMemoryCatalog, InvalidPropertyError, SqlCatalog, load_catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.catalog.options import CATALOG_OPTIONS, check_names
from icefloe.cli.application import app
from icefloe.io.storage_options import LOCATION_OPTIONS, MANIFEST_CACHE_OPTIONS, STORAGE_OPTIONS

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


def test_a_new_table_has_no_misspelt_property(catalog: SqlCatalog) -> None:
    with pytest.raises(InvalidPropertyError, match=r"(?s)write\.parquet\.compresion-codec.*Next: write write\.parquet\.compression-codec"):
        catalog.create_table("db.t", SCHEMA, properties={"write.parquet.compresion-codec": "zstd"})
    assert not catalog.table_exists("db.t")


def test_no_misspelt_property_is_set(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    with pytest.raises(InvalidPropertyError, match=r"(?s)format_version.*Next: write format-version"):
        table.set_properties({"format_version": "3"})
    assert table.refresh().properties == {}


def test_a_property_of_the_user_is_kept(catalog: SqlCatalog) -> None:
    own = {"owner": "me", "quality.tests": "12", "write.our-tool.rows": "7"}
    assert catalog.create_table("db.t", SCHEMA, properties=own).properties == own


def test_a_misspelt_property_that_a_table_has_already_stops_nothing(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("icefloe.spec.metadata.table_properties.KNOWN_NAMES", ())
        table = catalog.create_table("db.t", SCHEMA, properties={"write.format.defualt": "orc"})
    table.append(pa.table({"id": [1]}))
    table.set_properties({"owner": "me"})
    assert table.properties == {"write.format.defualt": "orc", "owner": "me"}


@pytest.mark.parametrize("kind", [SqlCatalog, FileSystemCatalog, InMemoryCatalog, load_catalog])
def test_a_misspelt_property_of_a_catalog_is_refused(kind: type[SqlCatalog], tmp_path: Path) -> None:
    with pytest.raises(InvalidPropertyError, match=r"(?s)there is no property warehosue.*Next: write warehouse"):
        kind("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehosue=str(tmp_path))
    with pytest.raises(InvalidPropertyError, match=r"Next: write s3.endpoint"):
        kind("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path), **{"s3.endpont": "http://localhost"})


def test_every_known_property_of_a_catalog_is_allowed() -> None:
    known = [option.name for option in (*CATALOG_OPTIONS, *STORAGE_OPTIONS, *LOCATION_OPTIONS, *MANIFEST_CACHE_OPTIONS)]
    check_names(
        dict.fromkeys(
            [*known, *CATALOG_PROPERTIES, "init-catalog-tables", "token", "py-io-impl", "gcs.endpoint", "table-default.owner"], ""
        ),
        "lake",
    )


@pytest.mark.parametrize(("key", "meant"), [("catalogs", "catalog"), ("default_catalog", "default-catalog")])
def test_a_misspelt_key_of_the_configuration_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, meant: str) -> None:
    monkeypatch.setenv("ICEFLOE_HOME", str(tmp_path))
    (tmp_path / "icefloe.yaml").write_text(f"{key}: lake\n", "utf-8")
    with pytest.raises(InvalidPropertyError, match=f"(?s)unknown key '{key}'.*Next: write '{meant}'"):
        load_catalog("lake")


def test_a_misspelt_property_in_the_configuration_file_or_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ICEFLOE_HOME", str(tmp_path))
    (tmp_path / "icefloe.yaml").write_text(f"catalog:\n  lake:\n    uri: sqlite:///{tmp_path}/c.db\n    warehose: x\n", "utf-8")
    with pytest.raises(InvalidPropertyError, match=r"Next: write warehouse"):
        load_catalog("lake")
    monkeypatch.setenv("ICEFLOE_CATALOG__OTHER__WAREHUSE", "x")
    with pytest.raises(InvalidPropertyError, match=r"Next: write warehouse"):
        load_catalog("other")


def test_the_command_line_refuses_a_misspelt_property(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_table("db.t", SCHEMA)
    arguments = ["properties", "db.t", "set", "write.delete.mod=merge-on-read"]
    result = CliRunner().invoke(app, [*arguments, "--uri", f"sqlite:///{tmp_path}/catalog.db", "--catalog", "lake"])
    assert result.exit_code == 1
    assert "write.delete.mode" in result.output + result.stderr
