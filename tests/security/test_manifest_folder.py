"""The folder of decoded manifests against files and folders that others made, damage, and names in a table."""

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pytest
from tests.io.test_manifest_cache import decoded, empty_caches, files_of, manifests_of, replace_io
from tests.io.test_manifest_folder import files_in, kept_table

from icefloe.errors import InvalidPropertyError
from icefloe.io import manifest_folder
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.manifest_cache import LOCAL_TOTAL_BYTES, cached_manifests, clear_manifest_caches
from icefloe.io.manifest_folder import FOLDER
from icefloe.spec.manifest.manifest_reader import read_live_entries
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type

__all__ = ["decoded", "empty_caches"]

HEADER = len(manifest_folder._MAGIC) + 32


def sealed(payload: bytes) -> bytes:
    """Return the content of a file with a correct checksum."""
    return manifest_folder._MAGIC + blake2b(payload, digest_size=32).digest() + payload


def other_table(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"file_path": ["/etc/passwd"]})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sealed(sink.getvalue().to_pybytes())


def without_rows(content: bytes) -> bytes:
    with pa.ipc.open_stream(content[HEADER:]) as stream:
        table = stream.read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.slice(0, 0))
    return sealed(sink.getvalue().to_pybytes())


def flipped(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "header only": lambda content: content[:HEADER],
    "cut": lambda content: content[:-8],
    "longer": lambda content: content + b"\0",
    "magic": flipped(0),
    "checksum": flipped(HEADER - 1),
    "schema": flipped(HEADER + 20),
    "values": flipped(-1 - 200),
    "another table": other_table,
    "fewer rows": without_rows,
    "sealed garbage": lambda _: sealed(b"garbage" * 9),
    "sealed cut": lambda content: sealed(content[HEADER:-200]),
    "sealed sizes": lambda content: sealed(content[HEADER : HEADER + 4] + b"\xff\xff\xff\x7f" + content[HEADER + 8 :]),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_removed_with_a_warning_and_the_manifest_decoded_again(
    how: str, tmp_path: Path, decoded: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = kept_table(tmp_path, 1)
    expected = files_of(table)
    (file,) = files_in(tmp_path)
    content = file.read_bytes()
    file.write_bytes(DAMAGE[how](content))
    clear_manifest_caches()
    decoded.clear()
    assert files_of(table) == expected
    assert len(decoded) == 1
    assert f"{file.name} is not used, and removed" in caplog.text
    assert file.read_bytes() == content


def test_a_file_of_more_bytes_than_all_may_have_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = kept_table(tmp_path, 1, **{LOCAL_TOTAL_BYTES: "1000000"})
    files_of(table)
    (file,) = files_in(tmp_path)
    os.truncate(file, 2**40)  # sparse
    clear_manifest_caches()
    assert len(files_of(table)) == 1
    assert "it has 1099511627776 bytes" in caplog.text


def make_link(file: Path, target: Path) -> None:
    file.symlink_to(target)


def make_pipe(file: Path, _: Path) -> None:
    os.mkfifo(file, 0o600)


def make_readable(file: Path, target: Path) -> None:
    shutil.copy(target, file)
    file.chmod(0o644)


@pytest.mark.parametrize("make", [make_link, make_pipe, make_readable])
def test_links_pipes_and_files_of_others_are_removed_and_not_read(
    make: Callable[[Path, Path], None], tmp_path: Path, decoded: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    (file,) = files_in(tmp_path)
    target = tmp_path / "target"
    file.rename(target)
    before = target.read_bytes()
    make(file, target)
    clear_manifest_caches()
    decoded.clear()
    assert len(files_of(table)) == 1
    assert len(decoded) == 1
    assert "is not used, and removed" in caplog.text
    assert target.read_bytes() == before
    assert file.is_file()
    assert not file.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_in_place_of_a_file_and_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    (file,) = files_in(tmp_path)
    file.unlink()
    file.mkdir()
    others = [file.parent / "notes.txt", file.parent / ".hidden", file.parent / ("A" * 64 + ".arrow"), tmp_path / "kept" / "a.arrow"]
    for other in others:
        other.write_bytes(b"mine")
        os.utime(other, (0, 0))
    clear_manifest_caches()
    assert len(files_of(table)) == 1
    assert all(other.read_bytes() == b"mine" for other in others)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_open_is_refused(mode: int, tmp_path: Path) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    (tmp_path / "kept" / FOLDER).chmod(mode)
    clear_manifest_caches()
    with pytest.raises(InvalidPropertyError, match="other users have access"):
        files_of(table)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    clear_manifest_caches()
    other = os.geteuid() + 1
    monkeypatch.setattr("icefloe.io.manifest_folder.os.geteuid", lambda: other)
    with pytest.raises(InvalidPropertyError, match="another user"):
        files_of(table)


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    table = kept_table(tmp_path, 1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / FOLDER).symlink_to(elsewhere)
    with pytest.raises(InvalidPropertyError, match="cannot be opened"):
        files_of(table)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("path", ["../../escape", "/etc/passwd", "a/../../b", "x" * 5000, "\udcff", "name.arrow"])
def test_no_text_of_a_manifest_list_becomes_a_part_of_a_path(path: str, tmp_path: Path) -> None:
    table = kept_table(tmp_path, 1)
    (manifest,) = manifests_of(table)
    hostile = replace(manifest, manifest_path=f"s3://bucket/{path}")
    content = table.io.read(manifest.manifest_path)
    before = {found for found in tmp_path.rglob("*") if "kept" not in found.parts}
    read_live_entries([hostile], lambda _: content, spec_partition_type(table.metadata, 0), cache=cached_manifests(table.io))
    (file,) = files_in(tmp_path)
    assert manifest_folder._NAME.fullmatch(file.name)
    assert {found for found in tmp_path.rglob("*") if "kept" not in found.parts} == before


@pytest.mark.parametrize(
    "other", [{"s3.access-key-id": "another"}, {"s3.endpoint": "http://other"}, {"user": "someone"}, {"io.location-policy": "strict"}]
)
def test_other_storage_does_not_find_the_files(tmp_path: Path, decoded: list[str], other: dict[str, str]) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    clear_manifest_caches()
    decoded.clear()
    io = SchemeFileIO({**table.io.properties, **other}, table.io.allowed)  # type: ignore[attr-defined]
    assert len(files_of(replace_io(table, io))) == 1
    assert len(decoded) == 1
    assert len(files_in(tmp_path)) == 2


def test_a_local_manifest_that_was_replaced_is_decoded_again(tmp_path: Path, decoded: list[str]) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    path = Path(manifests_of(table)[0].manifest_path.removeprefix("file://"))
    shutil.copy(path, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)
    clear_manifest_caches()
    decoded.clear()
    assert len(files_of(table)) == 1
    assert len(decoded) == 1
