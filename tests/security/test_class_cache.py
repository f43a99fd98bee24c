"""Classes and the executor jar are taken from the cache only if no other user can have changed them; else a session compiles its own."""

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icefloe.errors import EngineError
from icefloe.spark.bridge import class_cache, java_compiler
from icefloe.spark.bridge.gateway import class_folder, gateway_of

WANTED = (
    *(Path("icefloe", f"{name}.class") for name in java_compiler.SOURCES),
    *(Path("formats", f"{name}.class") for name in java_compiler.FORMATS.values()),
    Path("executors.jar"),
)


@pytest.fixture
def compile_classes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Return a function that returns the folder of classes, as for a session; its compiler makes files of the right names."""

    def compiled(_gateway: Any, sources: dict[str, str], folder: Path) -> None:
        for file in WANTED:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(b"compiled here")

    monkeypatch.setattr(java_compiler, "_compile", compiled)
    return partial(java_compiler.compiled_folder, None, "4.3.0")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "icefloe"


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder in which every user of the machine may write."""
    folder = Path(tempfile.mkdtemp(prefix="icefloe-shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def assert_compiled_elsewhere(compiled: Path, cache: Path, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Assert that the classes are compiled for this session, in a folder of its own, and that a warning has the reason."""
    assert cache not in compiled.parents
    assert {(compiled / file).read_bytes() for file in WANTED} == {b"compiled here"}
    assert stat.S_IMODE(compiled.parent.stat().st_mode) == 0o700
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert reason in warnings[0]


def test_the_cache_is_the_user_s_alone(compile_classes: Callable[[], Path], cache: Path) -> None:
    before = os.umask(0o002)
    try:
        compiled = compile_classes()
    finally:
        os.umask(before)
    assert compiled.parent == cache
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (cache, *cache.rglob("*"))}
    assert modes == {0o700, 0o600}
    assert compile_classes() == compiled


def test_a_cache_of_an_older_version_that_others_could_only_read_is_closed_to_them(
    compile_classes: Callable[[], Path], cache: Path
) -> None:
    cache.mkdir(mode=0o755)
    assert compile_classes().parent == cache
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_planted_classes_without_digests_are_not_used(
    compile_classes: Callable[[], Path], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = compile_classes()
    for file in WANTED:
        (compiled / file).write_bytes(b"planted")
    (compiled / class_cache.DIGESTS).unlink(missing_ok=True)
    assert_compiled_elsewhere(compile_classes(), cache, caplog, "cannot be checked")


@pytest.mark.parametrize(
    "file", ["icefloe/SparkRule.class", "executors.jar", "icefloe/DefaultSource.class", "formats/iceberg/DefaultSource.class"]
)
def test_a_changed_file_is_not_used(compile_classes: Callable[[], Path], cache: Path, caplog: pytest.LogCaptureFixture, file: str) -> None:
    compiled = compile_classes()
    (compiled / file).write_bytes(b"planted")
    reason = "has changed since it was compiled" if Path(file) in WANTED else "does not contain exactly the files"
    assert_compiled_elsewhere(compile_classes(), cache, caplog, reason)


@pytest.mark.parametrize("digests", ["", "[]", "null", "{}", '{"a": 1}', "\x00", "[" * 100_000])
def test_malformed_digests_are_not_trusted(
    compile_classes: Callable[[], Path], cache: Path, caplog: pytest.LogCaptureFixture, digests: str
) -> None:
    compiled = compile_classes()
    (compiled / class_cache.DIGESTS).write_text(digests)
    assert_compiled_elsewhere(compile_classes(), cache, caplog, str(compiled))


def test_a_link_in_the_cache_is_not_followed(
    compile_classes: Callable[[], Path], cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = compile_classes()
    compiled.rename(tmp_path / "elsewhere")
    compiled.symlink_to(tmp_path / "elsewhere")
    assert_compiled_elsewhere(compile_classes(), cache, caplog, "is a link")


def test_a_link_to_a_file_in_the_cache_is_not_followed(
    compile_classes: Callable[[], Path], cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = compile_classes()
    shutil.copy(compiled / "executors.jar", tmp_path / "same.jar")
    (compiled / "executors.jar").unlink()
    (compiled / "executors.jar").symlink_to(tmp_path / "same.jar")
    assert_compiled_elsewhere(compile_classes(), cache, caplog, "is a link")


def test_a_cache_that_is_a_link_is_not_followed(
    compile_classes: Callable[[], Path], cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    assert_compiled_elsewhere(compile_classes(), cache, caplog, "is a link")


@pytest.mark.parametrize("place", ["", "version", "version/icefloe"])
def test_a_folder_that_the_group_can_write_to_is_not_used(
    compile_classes: Callable[[], Path], cache: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    compiled = compile_classes()
    (cache / place.replace("version", compiled.name)).chmod(0o770)
    assert_compiled_elsewhere(compile_classes(), cache, caplog, "can be written to by other users")


def test_a_folder_of_another_user_is_not_used(
    compile_classes: Callable[[], Path], cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_classes()
    owner = os.geteuid()
    monkeypatch.setattr(class_cache, "_user", lambda: owner + 1)
    if owner == 0:  # all folders above belong to root, who is trusted
        assert_compiled_elsewhere(compile_classes(), cache, caplog, "belongs to another user")
    else:
        with pytest.raises(class_cache.UnsafeCacheError, match="belongs to another user"):
            class_cache.own_cache_folder()


def test_a_cache_below_a_world_writable_folder_is_not_used(
    compile_classes: Callable[[], Path], shared: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    compiled = compile_classes()
    assert_compiled_elsewhere(compiled, shared, caplog, f"{shared} can be written to by other users")


def test_a_link_in_a_path_through_a_world_writable_folder_is_not_used(
    compile_classes: Callable[[], Path], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / "target").mkdir()
    (tmp_path / "link").symlink_to(shared / "target")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert_compiled_elsewhere(compile_classes(), shared, caplog, f"{shared} can be written to by other users")


def test_nothing_is_compiled_without_a_folder_that_only_this_user_can_write_to(
    compile_classes: Callable[[], Path], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with pytest.raises(EngineError, match="no folder for compiled classes"):
        compile_classes()


@pytest.mark.spark
def test_classes_that_spark_compiles_are_cached_with_digests(spark: SparkSession, cache: Path) -> None:
    compiled = class_folder(gateway_of(spark), spark.version)
    class_cache.check_sealed(compiled)
    assert class_folder(gateway_of(spark), spark.version) == compiled
    with (compiled / "executors.jar").open("ab") as jar:
        jar.write(b"more")
    assert cache not in class_folder(gateway_of(spark), spark.version).parents
