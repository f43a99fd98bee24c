"""Names: what may stand in one, and how a refusal reads."""

import pytest

from icefloe.catalog_store.identifier import to_identifier, to_table_identifier
from icefloe.errors import InvalidIdentifierError


def test_a_dotted_name_and_a_tuple_are_the_same() -> None:
    assert to_table_identifier("a.b.c") == to_table_identifier(("a", "b", "c")) == ("a", "b", "c")


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a.b/c", "a.b\\c", "a.b\x00", "a. b", "a.b\n", ("a", "b.c"), ("a", 3), ()])
def test_odd_names_are_refused_with_the_name_in_the_message(name: object) -> None:
    with pytest.raises(InvalidIdentifierError) as refused:
        to_identifier(name)  # type: ignore[arg-type]
    assert refused.value.next_step


def test_a_table_needs_a_namespace() -> None:
    with pytest.raises(InvalidIdentifierError, match="names no namespace"):
        to_table_identifier("events")


def test_letters_of_any_script_may_stand_in_a_name() -> None:
    assert to_table_identifier("größe.événements_1-x") == ("größe", "événements_1-x")


def test_a_level_longer_than_the_catalogs_column_is_refused() -> None:
    with pytest.raises(InvalidIdentifierError, match="longer than 255"):
        to_identifier("a." + "b" * 256)
