"""docs/troubleshooting.md has messages, next steps and classes as the sources have them."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from icefloe import errors

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_sources_contain() -> None:
    spec = spec_from_file_location("error_reference", ROOT / "scripts" / "error_reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = module_from_spec(spec)
    spec.loader.exec_module(reference)
    named = {message for entries in reference.ENTRIES.values() for message, _, _ in entries}
    assert named - reference.sources().keys() == set(), "no source has these messages: correct ENTRIES in scripts/error_reference.py"
    assert (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8") == reference.page(), f"run {reference.COMMAND}"


def test_the_page_has_every_class_with_its_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.IcefloeError)]
    assert [
        kind.__name__ for kind in classes if kind is not errors.IcefloeError and f"`{kind.__name__}` | `{kind.code}` |" not in page
    ] == []
