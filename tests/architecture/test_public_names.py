"""The names that `icefloe` exports are those of `public_names.txt`, so that no change of the public API passes unnoticed."""

from pathlib import Path

import icefloe

LIST = Path(__file__).with_name("public_names.txt")


def test_the_package_exports_exactly_the_listed_names() -> None:
    assert sorted(getattr(icefloe, "__all__", [])) == LIST.read_text().split()


def test_every_exported_name_exists() -> None:
    assert [name for name in getattr(icefloe, "__all__", []) if not hasattr(icefloe, name)] == []
