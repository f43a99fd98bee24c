"""docs/validation-rules.md has the rules as the sources have them, and their sections are headings of the specification."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from icefloe.checks.rule import Level
from icefloe.checks.rules import RULES

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_sources_contain() -> None:
    spec = spec_from_file_location("validation_rules", ROOT / "scripts" / "validation_rules.py")
    assert spec is not None
    assert spec.loader is not None
    reference = module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert set(reference.HEADINGS) == set(Level)
    assert (ROOT / "docs" / "validation-rules.md").read_text(encoding="utf-8") == reference.page(), f"run {reference.COMMAND}"


def test_every_rule_cites_a_section_of_the_specification() -> None:
    headings = set((ROOT / "tests" / "architecture" / "spec_sections.txt").read_text(encoding="utf-8").splitlines())
    assert [(rule.id, rule.section) for rule in RULES if rule.section not in headings] == []


def test_every_text_of_a_rule_is_a_sentence() -> None:
    assert [rule.id for rule in RULES if not (rule.title.endswith(".") and rule.harm.endswith("."))] == []
    assert [rule.id for rule in RULES if rule.next_step.endswith(".")] == []
