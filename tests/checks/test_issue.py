"""Remedies: the text and the command line of a typed operation."""

from icefloe.checks.issue import REPAIR, Remedy, shell_word
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction


def test_a_remedy_writes_the_command_line_that_mends_an_issue() -> None:
    sort = Remedy(operation=MaintenanceAction.REWRITE_DATA_FILES, options={"strategy": "sort"})
    assert (str(sort), sort.command("shop.orders", " --catalog lake")) == (
        "rewrite-data-files --strategy sort",
        "icefloe rewrite-data-files shop.orders --strategy sort --catalog lake",
    )
    assert REPAIR.command("shop.orders") == "icefloe repair shop.orders"


def test_expiry_has_the_name_of_its_command_and_properties_are_text_only() -> None:
    expiry = Remedy(operation=MaintenanceAction.EXPIRE_SNAPSHOTS, properties={"write.metadata.compression-codec": "gzip"})
    assert str(expiry) == "expire, and write.metadata.compression-codec=gzip"
    assert expiry.command("a.b") == "icefloe expire a.b"


def test_the_name_of_a_hostile_table_is_one_word_of_one_line() -> None:
    assert shell_word("a; rm -rf\n/") == "'a; rm -rf?/'"
    assert REPAIR.command("x' y").count("'") > 2
