"""`icefloe doctor`: what each check finds, what it advises, and the exit code."""

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.conftest import Command
from typer.testing import Result

from icefloe.cli import doctor_command
from icefloe.cli.installed_versions import Versions
from icefloe.errors import EngineError, StoragePermissionError
from icefloe.spec.avro import compiled_codec

HEALTHY = Versions(
    icefloe="1.0",
    python="3.13.0",
    pyspark="4.3.0",
    pyarrow="26.0.0",
    java="17",
    java_source="PATH",
    java_home="/java",
    manifest_codec="compiled",
)
Check = dict[str, Any]


@pytest.fixture(autouse=True)
def installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with Spark and Java, without looking for them."""
    monkeypatch.setattr(doctor_command, "versions", lambda: HEALTHY)
    modules = {
        "runtime.spark_versions": SimpleNamespace(is_proven=lambda version: version == "4.3.0", proven_text=lambda: "4.2.1 and 4.3.0"),
        "runtime.java_runtime": SimpleNamespace(find_java=lambda: SimpleNamespace(version=17, source="PATH", home="/java")),
    }
    monkeypatch.setattr(doctor_command, "spark_module", modules.__getitem__)


@pytest.fixture
def checks(icefloe: Command) -> Callable[..., tuple[Result, dict[str, Check]]]:
    """Run the command; return its result and the checks by name."""

    def run(*words: object) -> tuple[Result, dict[str, Check]]:
        result = icefloe("doctor", *words, "--json")
        printed = json.loads(result.stdout)
        assert result.stderr == ""
        assert printed["faults"] == sum(check["status"] == "fault" for check in printed["checks"])
        assert result.exit_code == (1 if printed["faults"] else 0)
        return result, {check["check"]: check for check in printed["checks"]}

    return run


Checks = Callable[..., tuple[Result, dict[str, Check]]]


def test_a_healthy_installation_has_no_fault(checks: Checks, warehouse: Path) -> None:
    result, found = checks("--warehouse", warehouse)
    assert result.exit_code == 0
    assert {check["status"] for check in found.values()} == {"ok"}
    assert found["java"]["found"] == "17 (PATH: /java)"
    assert "1 namespace" in found["catalog lake"]["found"]
    assert found["warehouse of lake"]["found"] == f"{warehouse} is writable"
    assert list(found) == [
        "python", "icefloe", "manifest codec", "spark", "java", "configuration", "catalog lake", "warehouse of lake",
        "disk of warehouse of lake", "disk of temporary files",
    ]  # fmt: skip


@pytest.mark.parametrize(("obstacle", "status"), [(None, "ok"), ("it finds columns by their names", "warning")])
def test_the_accelerator_of_the_started_session_is_named(
    checks: Checks, monkeypatch: pytest.MonkeyPatch, obstacle: str | None, status: str
) -> None:
    class Found(SimpleNamespace):
        def __str__(self) -> str:
            return "Comet reads"

    session = SimpleNamespace(version="4.1.4", range=lambda count: SimpleNamespace(count=lambda: count))
    found = Found(obstacle=obstacle, advice="set something")
    modules = {name: doctor_command.spark_module(name) for name in ("runtime.spark_versions", "runtime.java_runtime")} | {
        "bridge.accelerators": SimpleNamespace(accelerator_of=lambda _: found)
    }
    monkeypatch.setattr(doctor_command, "spark_module", modules.__getitem__)
    monkeypatch.setattr(doctor_command, "start_spark", lambda: session)
    check = checks("--start-spark")[1]["accelerator"]
    assert (check["status"], check["found"], check["next_step"]) == (status, "Comet reads", "set something")


def test_no_file_remains_in_the_warehouse_and_with_read_only_none_is_written(
    checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(warehouse.rglob("*"))
    checks("--warehouse", warehouse)
    assert sorted(warehouse.rglob("*")) == before
    monkeypatch.setattr(doctor_command, "_write", lambda *_: pytest.fail("a file was written"))
    assert "warehouse of lake" not in checks("--warehouse", warehouse, "--read-only")[1]


def test_a_missing_codec_and_a_missing_spark_are_warnings_with_the_remedy(checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "versions", lambda: replace(HEALTHY, pyspark=None, manifest_codec="fastavro"))
    result, found = checks()
    assert result.exit_code == 0
    assert (found["spark"]["status"], found["manifest codec"]["status"]) == ("warning", "warning")
    assert "icefloe[spark]" in found["spark"]["next_step"]
    assert "C compiler" in found["manifest codec"]["next_step"]
    assert "java" not in found


def test_an_untested_spark_is_a_warning_and_a_missing_java_a_fault(checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "versions", lambda: replace(HEALTHY, pyspark="9.9.9"))
    assert checks()[1]["spark"]["next_step"] == "install a tested version: 4.2.1 and 4.3.0"

    def no_java() -> None:
        raise EngineError("Spark needs Java, and none was found", next_step="set JAVA_HOME")

    monkeypatch.setattr(doctor_command.spark_module("runtime.java_runtime"), "find_java", no_java)
    result, found = checks()
    assert result.exit_code == 1
    assert (found["spark and java"]["status"], found["spark and java"]["next_step"]) == ("fault", "set JAVA_HOME")


def test_configuration_files_and_variables_are_listed(checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("icefloe.yaml").write_text(f"catalog:\n  lake:\n    uri: {warehouse}/catalog.db\n    warehouse: {warehouse}\n")
    monkeypatch.setenv("ICEFLOE_CATALOG__OTHER__URI", "postgresql://someone:secret@127.0.0.1:1/db")
    result, found = checks("--timeout", 60)
    assert f"{Path.cwd()}/icefloe.yaml, the variable ICEFLOE_CATALOG__OTHER__URI" in found["configuration"]["found"]
    assert found["catalog lake"]["status"] == "ok"
    assert found["catalog other"]["status"] == "fault"
    assert found["catalog other"]["next_step"]
    assert "secret" not in result.output


def test_a_damaged_configuration_and_an_unknown_default_are_faults(checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_CATALOG", "nothing")
    assert checks()[1]["default catalog"]["found"] == "nothing, which is not configured"
    Path("icefloe.yaml").write_text("catalog: [")
    found = checks()[1]["configuration"]
    assert found["status"] == "fault"
    assert "icefloe.yaml" in found["found"]
    assert found["next_step"]


def test_a_catalog_that_does_not_exist_is_a_fault_and_is_not_created(checks: Checks, tmp_path: Path) -> None:
    result, found = checks("--warehouse", tmp_path / "nowhere")
    assert result.exit_code == 1
    assert "there is no catalog database" in found[f"catalog {tmp_path}/nowhere"]["found"]
    assert not (tmp_path / "nowhere").exists()


def test_a_warehouse_that_cannot_be_written_is_a_fault(checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("icefloe.io.local_file_io.LocalFileIO.write", refuse)
    found = checks("--warehouse", warehouse)[1]["warehouse of lake"]
    assert found["status"] == "fault"
    assert "Permission denied" in found["found"]


def test_a_file_that_cannot_be_deleted_is_named(checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, location: str) -> None:
        raise StoragePermissionError("deletions are not allowed", path=location)

    monkeypatch.setattr("icefloe.io.local_file_io.LocalFileIO.delete", refuse)
    result, found = checks("--warehouse", warehouse)
    (remaining,) = warehouse.glob(".icefloe-doctor-*")
    check = found["warehouse of lake"]
    assert (result.exit_code, check["status"]) == (0, "warning")
    assert "cannot be deleted: deletions are not allowed" in check["found"]
    assert f"delete {remaining}, which remains" in check["next_step"]


def test_a_warehouse_that_does_not_reply_may_have_a_file_of_the_check(
    checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr("icefloe.io.local_file_io.LocalFileIO.write", lambda *_, **__: over.wait(60))
    found = checks("--warehouse", warehouse, "--timeout", 2)[1]["warehouse of lake"]
    over.set()
    assert (found["status"], found["found"]) == ("fault", "no reply in 2 seconds")
    assert f"delete {warehouse}/.icefloe-doctor-" in found["next_step"]


def test_little_disk_space_is_a_warning_and_none_a_fault(checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, status in ((10 << 30, "ok"), (500 << 20, "warning"), (1 << 20, "fault")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert checks()[1]["disk of temporary files"]["status"] == status


def test_a_catalog_that_does_not_reply_is_a_fault_after_the_timeout(
    checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(doctor_command, "open_catalog", lambda _: over.wait(60))
    found = checks("--warehouse", warehouse, "--timeout", 0.2)[1][f"catalog {warehouse}"]
    over.set()
    assert (found["status"], found["found"]) == ("fault", "no reply in 0.2 seconds")


def test_a_check_that_fails_in_an_unexpected_way_leaves_the_others(
    checks: Checks, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a broken driver")

    monkeypatch.setattr(doctor_command, "open_catalog", broken)
    _, found = checks("--warehouse", warehouse)
    assert found[f"catalog {warehouse}"]["found"] == "RuntimeError: a broken driver"
    assert "disk of temporary files" in found


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_every_status_and_remedy_is_shown_at_any_width(
    icefloe: Command, terminal: Callable[[int], None], tmp_path: Path, width: int
) -> None:
    terminal(width)
    text = icefloe("doctor", "--warehouse", tmp_path / "nowhere").stdout
    assert max(map(len, text.splitlines())) <= width
    assert "fault" in text
    assert "what to do" in text
    assert "1 fault, 0 warnings" in text
    assert "not shown at this width" not in text


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("INFLATES", "compiled, without libdeflate: deflated blocks are decompressed one by one"),
        ("UNPACKS_ZSTANDARD", "compiled, without libzstd: zstandard blocks are decompressed one by one"),
        ("UNPACKS_SNAPPY", "compiled, without libsnappy: snappy blocks are decompressed one by one"),
    ],
)
def test_a_missing_library_is_named_with_the_compiled_codec(name: str, found: str, checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("INFLATES", "UNPACKS_ZSTANDARD", "UNPACKS_SNAPPY"):
        monkeypatch.setattr(compiled_codec, library, library != name)
    check = checks()[1]["manifest codec"]
    assert check["status"] == "ok"
    assert check["found"] == found
