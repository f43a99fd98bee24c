"""The front door's names are a promise: a change of them is seen here, in `public_names.txt`."""

from pathlib import Path

import icefloe

LIST = Path(__file__).with_name("public_names.txt")


def test_the_front_door_exports_exactly_the_listed_names() -> None:
    assert sorted(getattr(icefloe, "__all__", [])) == LIST.read_text().split()


def test_every_exported_name_is_there() -> None:
    assert [name for name in getattr(icefloe, "__all__", []) if not hasattr(icefloe, name)] == []
