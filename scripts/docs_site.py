"""Hook of `mkdocs build`: adds the pages and the script of the site that are not in the folder `docs`.

- The API reference: a page for each public package, with every name that its `__init__.py` exports.
- README.md, ARCHITECTURE.md, CONTRIBUTING.md and CHANGELOG.md, which are read in the repository too.
- Mermaid, which draws the diagrams in the browser, from the pinned package that carries it. The theme would fetch it from another host.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
MERMAID = "assets/mermaid.min.js"
# The package that carries the file `dist/mermaid.min.js` of Mermaid 11.16.0, byte for byte. No other file of it is used.
MERMAID_PACKAGE = "mermaidx"
MERMAID_SHA256 = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
# Pages whose files are in the root folder of the repository, by page of the site.
PAGES = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "design/architecture.md": "ARCHITECTURE.md",
    "design/contributing.md": "CONTRIBUTING.md",
    "reporting.md": "SECURITY.md",
}
# Addresses that a browser loads with a page; links that a reader follows are not among them.
LOADED = re.compile(r"""(?:\bsrc=|<link\b(?![^>]*rel="?(?:canonical|next|prev))[^>]*\bhref=)["']?(?P<address>(?:https?:)?//[^"'\s>]+)""")
PACKAGES = ("catalog", "table", "spark", "inspect", "repair", "explorer", "loading", "procedures")
# Pages of the names of the package `icefloe`, by the module that defines a name.
TOPICS = {
    "types": ("Types and schemas", ("types", "schema", "partitioning", "partition_spec", "sort_order", "transforms", "variant")),
    "expressions": ("Filters", ("expressions", "predicate")),
    "errors": ("Errors", ("errors",)),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and the script to the files of the site."""
    for page, source in PAGES.items():
        to_docs = "../" * page.count("/")
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", f"]({to_docs}")
        for other, its_source in PAGES.items():
            text = text.replace(f"]({its_source}", f"]({to_docs}{other}")
        files.append(File.generated(config, page, content=text))
    for page, text in api_pages():
        files.append(File.generated(config, f"api/{page}.md", content=text))
    files.append(File.generated(config, MERMAID, content=mermaid()))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001 the parameters of the hook
    """Refuse a page that loads a script, a style, a font or a picture from another host.

    Raises:
        PluginError: The page does.
    """
    if found := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads {found['address']}; the site has to work without a network")
    return output


def mermaid() -> bytes:
    """Return Mermaid's script.

    Raises:
        PluginError: The package carries another file than the one that was checked against Mermaid's own release.
    """
    script = Path(distribution(MERMAID_PACKAGE).locate_file(f"{MERMAID_PACKAGE}/assets/mermaid.js")).read_bytes()
    found = hashlib.sha256(script).hexdigest()
    if found != MERMAID_SHA256:
        raise PluginError(
            f"{MERMAID_PACKAGE} carries another mermaid.js ({found}); compare it with Mermaid's release, then set MERMAID_SHA256"
        )
    return script


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page of the API reference."""
    of_packages = {package: exported(f"icefloe.{package}") for package in PACKAGES}
    elsewhere = {found: package for package, names in of_packages.items() for found in names}
    pages: dict[str, list[str]] = {"icefloe": [], **{topic: [] for topic in TOPICS}}
    also = []
    for module, name in exported("icefloe"):
        if (module, name) in elsewhere:  # each object is on one page only
            also.append(f"[`{name}`]({elsewhere[module, name]}.md)")
            continue
        parts = module.split(".")
        topic = next((topic for topic, (_, parents) in TOPICS.items() if set(parts) & set(parents)), "icefloe")
        pages[topic].append(f"{module}.{name}")
    for topic, names in pages.items():
        title = TOPICS[topic][0] if topic in TOPICS else "`icefloe`"
        yield topic, page_of(title, "icefloe", names, also if topic == "icefloe" else [])
    for package, found in of_packages.items():
        yield package, page_of(f"`icefloe.{package}`", f"icefloe.{package}", [f"{module}.{name}" for module, name in found])


def exported(package: str) -> list[tuple[str, str]]:
    """Return (module that defines it, name) of everything that a package imports for its users, in the order of their names."""
    path = ROOT.joinpath("src", *package.split("."), "__init__.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = [
        (node.module or "", alias)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("icefloe.")
        for alias in node.names
    ]
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    ]
    public = set(listed[0]) if listed else {alias.asname for _, alias in imported if alias.asname == alias.name}
    return sorted(
        ((module, alias.name) for module, alias in imported if (alias.asname or alias.name) in public), key=lambda found: found[1]
    )


def page_of(title: str, package: str, names: list[str], also: list[str] | None = None) -> str:
    """Return a page that lists these objects; `also` are links to objects of the package that have their entries on other pages."""
    entries = "\n\n".join(f"::: {name}" for name in names)
    others = f" So are {', '.join(also)}." if also else ""
    return f"# {title}\n\nEverything on this page is imported from `{package}`.{others}\n\n{entries}\n"
