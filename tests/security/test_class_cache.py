"""Classes and the jar of executors come from the cache only where nobody but the user can have changed them; else a session compiles for itself."""

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icefloe.errors import EngineError
from icefloe.spark.bridge import class_cache
from icefloe.spark.bridge import java_compiler as java_compile

WANTED = (
    *(Path("icefloe", f"{name}.class") for name in java_compile.SOURCES),
    *(Path("formats", f"{name}.class") for name in java_compile.FORMATS.values()),
    Path("executors.jar"),
)


@pytest.fixture
def any_spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What has a version, and whose compiler makes files of the right names."""

    def compiled(_gateway: Any, _version: str, sources: dict[str, str], folder: Path) -> None:
        for file in WANTED:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(b"compiled here")

    monkeypatch.setattr(java_compile, "_compile", compiled)
    monkeypatch.setattr(java_compile, "gateway_of", lambda _: None)
    return SimpleNamespace(version="4.3.0")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "icefloe"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which every user of the machine may write."""
    folder = Path(tempfile.mkdtemp(prefix="icefloe-shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def assert_compiled_elsewhere(found: Path, cache: Path, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """The classes are of this session, in a folder of its own, and a warning says why."""
    assert cache not in found.parents
    assert {(found / file).read_bytes() for file in WANTED} == {b"compiled here"}
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 1
    assert reason in said[0]


def test_the_cache_is_the_user_s_alone(any_spark: Any, cache: Path) -> None:
    before = os.umask(0o002)
    try:
        kept = java_compile.compiled_folder(any_spark)
    finally:
        os.umask(before)
    assert kept.parent == cache
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (cache, *cache.rglob("*"))}
    assert modes == {0o700, 0o600}
    assert java_compile.compiled_folder(any_spark) == kept


def test_a_cache_of_an_older_version_that_others_could_only_read_is_closed_to_them(any_spark: Any, cache: Path) -> None:
    cache.mkdir(mode=0o755)
    assert java_compile.compiled_folder(any_spark).parent == cache
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_planted_classes_without_digests_are_not_used(any_spark: Any, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = java_compile.compiled_folder(any_spark)
    for file in WANTED:
        (kept / file).write_bytes(b"planted")
    (kept / class_cache.DIGESTS).unlink(missing_ok=True)
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, "cannot be checked")


@pytest.mark.parametrize(
    "file", ["icefloe/SparkRule.class", "executors.jar", "icefloe/DefaultSource.class", "formats/iceberg/DefaultSource.class"]
)
def test_a_changed_file_is_not_used(any_spark: Any, cache: Path, caplog: pytest.LogCaptureFixture, file: str) -> None:
    kept = java_compile.compiled_folder(any_spark)
    (kept / file).write_bytes(b"planted")
    reason = "is not the file that was put there" if Path(file) in WANTED else "does not hold the files"
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, reason)


@pytest.mark.parametrize("digests", ["", "[]", "null", "{}", '{"a": 1}', "\x00", "[" * 100_000])
def test_broken_digests_are_not_believed(any_spark: Any, cache: Path, caplog: pytest.LogCaptureFixture, digests: str) -> None:
    kept = java_compile.compiled_folder(any_spark)
    (kept / class_cache.DIGESTS).write_text(digests)
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, str(kept))


def test_a_link_in_the_cache_is_not_followed(any_spark: Any, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = java_compile.compiled_folder(any_spark)
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, "is a link")


def test_a_link_to_a_file_in_the_cache_is_not_followed(
    any_spark: Any, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = java_compile.compiled_folder(any_spark)
    shutil.copy(kept / "executors.jar", tmp_path / "same.jar")
    (kept / "executors.jar").unlink()
    (kept / "executors.jar").symlink_to(tmp_path / "same.jar")
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, "is a link")


def test_a_cache_that_is_a_link_is_not_followed(any_spark: Any, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, "is a link")


@pytest.mark.parametrize("place", ["", "version", "version/icefloe"])
def test_a_folder_that_the_group_can_write_to_is_not_used(
    any_spark: Any, cache: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    kept = java_compile.compiled_folder(any_spark)
    (cache / place.replace("version", kept.name)).chmod(0o770)
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, "can be written to by other users")


def test_a_folder_of_another_user_is_not_used(
    any_spark: Any, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_compile.compiled_folder(any_spark)
    owner = os.geteuid()
    monkeypatch.setattr(class_cache, "_user", lambda: owner + 1)
    if owner == 0:  # all folders above belong to root, who is trusted
        assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), cache, caplog, "belongs to another user")
    else:
        with pytest.raises(class_cache.UnsafeCacheError, match="belongs to another user"):
            class_cache.own_cache_folder()


def test_a_cache_below_a_folder_of_everybody_is_not_used(
    any_spark: Any, shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    found = java_compile.compiled_folder(any_spark)
    assert_compiled_elsewhere(found, shared, caplog, f"{shared} can be written to by other users")


def test_a_link_on_the_way_through_a_folder_of_everybody_is_not_used(
    any_spark: Any, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / "target").mkdir()
    (tmp_path / "link").symlink_to(shared / "target")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert_compiled_elsewhere(java_compile.compiled_folder(any_spark), shared, caplog, f"{shared} can be written to by other users")


def test_without_any_folder_of_one_s_own_nothing_is_compiled(any_spark: Any, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with pytest.raises(EngineError, match="no folder for compiled classes"):
        java_compile.compiled_folder(any_spark)


@pytest.mark.spark
def test_what_spark_compiles_is_kept_sealed(spark: SparkSession, cache: Path) -> None:
    kept = java_compile.compiled_folder(spark)
    class_cache.check_sealed(kept)
    assert java_compile.compiled_folder(spark) == kept
    with (kept / "executors.jar").open("ab") as jar:
        jar.write(b"more")
    assert cache not in java_compile.compiled_folder(spark).parents
