"""A secret in a session's settings is in no plan, result of a statement, error, log, event log, page of the UI or command line of the JVM."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icefloe.io.object_store_options import SECRETS as STORAGE_SECRETS
from icefloe.spark import attach_catalog
from icefloe.spark.runtime.redaction import HIDDEN_SETTINGS, is_secret, setting_text, warn_of_shown_secrets
from icefloe.stores.glue_client import SECRETS as GLUE_SECRETS
from icefloe.stores.rest.settings import REST_SECRETS

SECRET = "hunter2XYZ"  # noqa: S105  planted


@pytest.mark.spark
@pytest.mark.slow
def test_spark_shows_no_secret_of_a_catalog_anywhere(tmp_path: Path) -> None:
    child = Path(__file__).with_name("secrets_child.py")
    child_process = subprocess.run(
        [sys.executable, str(child), str(tmp_path), SECRET], check=False, capture_output=True, text=True, timeout=300
    )
    assert child_process.stdout.rstrip().endswith("done"), child_process.stdout[-3000:] + child_process.stderr[-3000:]
    events = [path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file() and path.suffix != ".crc"]
    assert any("SparkListenerEnvironmentUpdate" in text for text in events)
    for text in (child_process.stdout, child_process.stderr, *events):
        lines = [line for line in text.splitlines() if SECRET in line]
        places = [match.group() for line in lines for match in re.finditer(rf".{{0,200}}{SECRET}.{{0,40}}", line)]
        assert not places


def test_secret_settings_are_recognised_by_name_or_by_value() -> None:
    for name, value in (
        ("spark.sql.catalog.lake.uri", "sqlite:///x"),
        ("spark.sql.catalog.lake.adls.account-key", "x"),
        ("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", "x"),
        ("spark.anything", "postgresql://u:p@h/db"),
        ("spark.sql.catalog.lake.s3.proxy-uri", "http://u:p@proxy:3128"),
        ("spark.sql.catalog.lake.header.Authorization", "Bearer x"),
        ("spark.sql.catalog.lake.auth.custom.phrase", "x"),
        ("spark.sql.catalog.lake.jdbc.password", "x"),
        *((f"spark.sql.catalog.lake.{name}", "x") for name in (*REST_SECRETS, *GLUE_SECRETS, *STORAGE_SECRETS) if name != "s3.proxy-uri"),
    ):
        assert is_secret(name, value), name
        assert setting_text(name, value) != value
    assert setting_text("spark.sql.catalog.lake.warehouse", "s3://lake/x") == "s3://lake/x"
    assert setting_text("spark.sql.catalog.lake.rest.auth.type", "oauth2") == "oauth2"
    assert setting_text("spark.driver.memory", None) is None


def test_a_session_that_shows_a_secret_is_warned_of_by_the_setting_s_name_alone(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"spark.sql.catalog.lake.uri": f"postgresql://u:{SECRET}@h/db", "spark.sql.catalog.lake.warehouse": "/lake"}
    warn_of_shown_secrets(settings, "spark.sql.catalog.")
    assert "spark.sql.catalog.lake.uri" in caplog.text
    assert SECRET not in caplog.text
    caplog.clear()
    warn_of_shown_secrets({**settings, "spark.redaction.regex": HIDDEN_SETTINGS}, "spark.sql.catalog.")
    assert not caplog.text


@pytest.mark.spark
def test_attaching_what_settings_name_looks_for_secrets_that_the_session_shows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: dict[str, str] = {}
    monkeypatch.setattr(attach_catalog, "warn_of_shown_secrets", lambda settings, _: looked_at.update(settings))
    spark.conf.set("spark.sql.catalog.shown.uri", f"postgresql://u:{SECRET}@h/db")
    try:
        attach_catalog.attach(spark)
    finally:
        spark.conf.unset("spark.sql.catalog.shown.uri")
    assert SECRET in looked_at["spark.sql.catalog.shown.uri"]
