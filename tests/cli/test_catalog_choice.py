"""What the table argument of a command is: a location, or a name, of which a level between backquotes may have slashes."""

import pytest

from icefloe.cli.catalog_choice import is_path


@pytest.mark.parametrize(
    ("text", "is_location"),
    [
        ("db.t", False),
        ("db.`raw/orders`", False),
        ("`a/b`.`x/v1.metadata.json`@main", False),
        ("/data/t", True),
        ("data/`x`", True),
        ("`x/y`/t", True),
        ("./a.`b`", True),
        ("v1.metadata.json", True),
    ],
)
def test_a_text_with_a_slash_is_a_location_unless_it_is_in_a_level_between_backquotes(text: str, is_location: bool) -> None:
    assert is_path(text) is is_location
