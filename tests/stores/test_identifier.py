"""Names of tables: which characters they may contain, and the errors for others."""

import pytest

from icefloe.errors import InvalidIdentifierError
from icefloe.spec.identifier import to_identifier, to_table_identifier


def test_a_dotted_name_and_a_tuple_are_equivalent() -> None:
    assert to_table_identifier("a.b.c") == to_table_identifier(("a", "b", "c")) == ("a", "b", "c")


@pytest.mark.parametrize(
    "name", ["", "a..b", ".a", "a.", "a.b/c", "a.b\\c", "a.b\x00", "a. b", "a.b\n", ("a", "b.c"), ("a", 3), (), 5, None]
)
def test_invalid_names_are_refused_with_the_name_in_the_message(name: object) -> None:
    with pytest.raises(InvalidIdentifierError) as refused:
        to_identifier(name)  # type: ignore[arg-type]
    assert refused.value.next_step


def test_a_table_name_requires_a_namespace() -> None:
    with pytest.raises(InvalidIdentifierError, match="names no namespace"):
        to_table_identifier("events")


def test_a_name_may_contain_letters_of_any_script() -> None:
    assert to_table_identifier("größe.événements_1-x") == ("größe", "événements_1-x")


def test_a_level_longer_than_the_column_of_the_catalog_is_refused() -> None:
    with pytest.raises(InvalidIdentifierError, match="longer than 255"):
        to_identifier("a." + "b" * 256)
