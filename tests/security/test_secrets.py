"""Everything that Icefloe shows is searched for planted secrets: errors with their causes, logs, representations and the command line."""

import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.combinations import combinations
from typer.testing import CliRunner

import icefloe.inspect as look
from icefloe import SqlCatalog, load_catalog
from icefloe.cli.application import app
from icefloe.errors import IcefloeError
from icefloe.io import object_store_file_io
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.storage_errors import cause_without_secrets, without_secrets
from icefloe.stores.database_uri import without_password

SECRET = "hunter2XYZ"  # noqa: S105  planted
ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})

URIS = [
    f"postgresql://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql+psycopg://u:{SECRET}@[::1/db",
    f"postgresql://u:a@{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:p/{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:p:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:p?{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:p#{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:p {SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}%zz@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}@127.0.0.1:x{SECRET}/db",
    f"postgresql://u:{SECRET}",
    f"postgresql://u@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?sslpassword={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?unknown={SECRET}",
    f"postgresql//u:{SECRET}@127.0.0.1/db",
    f"postgresql:u:{SECRET}@127.0.0.1/db",
    SECRET,
    f"mysql://u:{SECRET}@127.0.0.1/db",
    f"mssql+pyodbc:///?odbc_connect=DRIVER=x;PWD={SECRET}",
    f"nosuch://u:{SECRET}@127.0.0.1/db",
    f"http://u:{SECRET}@127.0.0.1/x",
    f"thrift://u:{SECRET}@127.0.0.1",
]

KEYS = {
    "s3.access-key-id": f"id-{SECRET}",
    "s3.secret-access-key": f"key-{SECRET}",
    "s3.session-token": f"session-{SECRET}",
    "gcs.oauth2.token": f"google-{SECRET}",
    "adls.account-name": "mine",
    "adls.account-key": f"azure-{SECRET}",
    "adls.sas-token": f"sv=1&sig={SECRET}",
    "adls.connection-string": f"AccountName=mine;AccountKey={SECRET}==;EndpointSuffix=core.windows.net",
    "adls.client-secret": f"principal-{SECRET}",
}


def all_text_of(error: BaseException) -> str:
    """Return every text that a user, a log or a notebook shows of an error."""
    return "".join([*traceback.format_exception(error), str(error), repr(error), str(getattr(error, "problems", ""))])


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


@pytest.mark.parametrize(("uri", "make"), combinations([*URIS], [SqlCatalog, load_catalog]))
@pytest.mark.filterwarnings("ignore")
def test_no_error_of_a_catalog_that_cannot_be_opened_shows_its_password(
    uri: str, make: Callable[..., Any], log: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(IcefloeError) as caught:
        make("lake", uri=uri, warehouse="/lake").list_namespaces()  # a service is reached at the first call
    assert SECRET not in all_text_of(caught.value)
    assert SECRET not in without_password(uri)
    assert SECRET not in log.text


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.filterwarnings("ignore")
def test_the_command_shows_no_password(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICEFLOE_CATALOG__LAKE__URI", uri)
    Path("x.csv").write_text("id\n1\n")
    for words in (["tree", "db.t"], ["show", "catalog"], ["load", "x.csv", "--into", "db.t"], ["list"], ["list", "--json"]):
        shown = CliRunner().invoke(app, [*words, "--catalog", "lake"])
        assert (shown.exit_code, type(shown.exception)) == (1, SystemExit), words
        assert SECRET not in shown.output
        if "--json" in words:
            assert json.loads(shown.output.splitlines()[-1])["error"]["code"] in (
                "storage-unavailable",
                "invalid-property",
                "not-installed",
            )
        else:
            assert re.search("^icefloe: .*catalog 'lake'|no metastore responds", shown.output, re.M), words


@pytest.mark.filterwarnings("ignore:Query string")
def test_a_report_of_the_catalog_hides_values_of_a_query(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db?password={SECRET}", warehouse=str(tmp_path))
    assert SECRET not in f"{look.catalog(catalog)!r} {look.catalog(catalog)}"


@pytest.mark.parametrize(
    "line", [f"uri: postgresql://u:{SECRET}: x@h", f"uri: *{SECRET}", f'uri: "{SECRET}', f"uri: [{SECRET}", f"- {SECRET}"]
)
def test_a_configuration_file_that_cannot_be_read_is_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    (tmp_path / "icefloe.yaml").write_text(f"catalog:\n  lake:\n    {line}\n")
    monkeypatch.setenv("ICEFLOE_HOME", str(tmp_path))
    with pytest.raises(IcefloeError) as caught:
        load_catalog("lake")
    assert str(tmp_path) in str(caught.value)
    assert SECRET not in all_text_of(caught.value)


def test_values_that_are_not_secret_are_shown() -> None:
    for uri in ("sqlite:////home/me@work/catalog.db", "postgresql://me@host:5432/db", "postgresql://[::1]:5432/db"):
        assert without_password(uri) == uri
    assert without_password("postgresql://me:x@host/db?sslmode=require") == "postgresql://me:***@host/db?sslmode=***"


class Failing:
    """A store whose library quotes all of its options in its errors."""

    def __init__(self, error: Callable[[str], Exception], options: dict[str, Any]) -> None:
        self._error, self._options = error, options

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            try:
                raise ValueError(f"inner: {self._options}")
            except ValueError as error:
                raise self._error(f"outer: {json.dumps(self._options)} https://x/?a=1&sig={SECRET}&X-Amz-Signature={SECRET}") from error

        return fail


@pytest.mark.parametrize("error", [OSError, PermissionError, FileNotFoundError, ValueError, RuntimeError])
@pytest.mark.parametrize("location", ["s3://b/x", "gs://b/x", "abfss://c@mine.dfs.core.windows.net/x"])
def test_no_error_of_a_store_shows_a_key(
    error: Callable[[str], Exception], location: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fsspec.filesystem", lambda _, **options: Failing(error, options))
    object_store_file_io._connect.cache_clear()
    io = load_file_io(KEYS)
    # A missing object is no error of these.
    of_existing = [] if error is FileNotFoundError else [io.exists, io.delete]
    for ask in (io.read, io.size, io.open_input, *of_existing):
        with pytest.raises(IcefloeError) as caught:
            ask(location)
        assert SECRET not in all_text_of(caught.value)
    monkeypatch.setattr("fsspec.filesystem", lambda _, **options: (_ for _ in ()).throw(ValueError(f"{options}")))
    object_store_file_io._connect.cache_clear()
    with pytest.raises(IcefloeError) as caught:
        io.read(location)
    assert SECRET not in all_text_of(caught.value)
    assert SECRET not in log.text
    object_store_file_io._connect.cache_clear()


@pytest.mark.filterwarnings("ignore:Query string")
def test_a_pickled_table_or_catalog_has_no_secret_that_a_pickled_scan_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(variable, f"{variable}-{SECRET}")
    named = {name: f"{number}-{SECRET}" for number, name in enumerate(KEYS)}
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db?password=uri-{SECRET}", warehouse=str(tmp_path), **named)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    secrets = re.compile(rb"[\w-]*" + SECRET.encode())
    of_scan = set(secrets.findall(pickle.dumps(table.scan())))
    for pickled in (table, catalog, table.inspect):
        assert set(secrets.findall(pickle.dumps(pickled))) <= of_scan
    again = pickle.loads(pickle.dumps(table))
    assert SECRET not in f"{again!r} {again.handle!r} {again.handle.store!r}"


def test_nothing_that_can_be_printed_shows_a_key(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = SqlCatalog("lake", uri=uri, warehouse=str(tmp_path / "warehouse"), **KEYS)
    lake.create_namespace("db")
    table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    scan = table.scan("a > 1")
    task = next(iter(scan.plan_files()))
    things = [lake, lake.store, lake.store.engine, table, table.handle, table.io, table.io.at("s3://b/x"), scan, scan.plan_files(), task]  # type: ignore[attr-defined]
    things += [table.metadata, table.snapshots(), table.current_snapshot(), table.properties, table.history(), lake.transaction()]
    for thing in things:
        assert SECRET not in f"{thing} {thing!r}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert SECRET not in log.text


def test_texts_in_the_forms_of_stores_are_hidden_and_others_are_not() -> None:
    for text in (
        f"https://b.s3/x?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"Authorization: SharedKey mine:{SECRET}",
        f"AccountName=a;AccountKey={SECRET};x",
        f"?sv=1&sig={SECRET}",
    ):
        assert SECRET not in without_secrets(text)
    assert without_secrets("the file design=1 is gone", ["is"]) == "the file design=1 is gone"


def test_a_cause_that_quotes_a_secret_is_left_out_and_another_is_kept() -> None:
    plain, telling = OSError("away"), OSError(f"with {SECRET}")
    assert cause_without_secrets(plain, [SECRET]) is plain
    assert cause_without_secrets(telling, [SECRET]) is None
    plain.__context__ = telling
    assert cause_without_secrets(plain, [SECRET]) is None
