"""The Python snippets of PyIceberg's documentation, each run on Icefloe in a folder of its own, with the objects that its page assumes.

A snippet is known by the first eight digits of the SHA-1 of its text. `expected.toml` names those that cannot run, with the reason: those that need a server,
and parts of code.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.pyiceberg_suite.expected import LIST
from tests.pyiceberg_suite.fetched import DOCS, DOCS_ARCHIVE

PAGES = ("api.md", "index.md", "expression-dsl.md", "geospatial.md")
PROCESSES = 2  # at a time
# First words of blocks that are results and not code.
RESULTS = (
    "╭",
    "DataFrame()",
    "pip install",
    "taxi_dataset(",
    "pyarrow.Table",
    "table {",
    "VendorID",
    "Dataset(",
    "shape:",
    "StructType",
    "        VendorID",
)


def snippets(page: Path) -> list[str]:
    """Return the Python code of a page, without blocks that show a result."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    texts = ["\n".join(line[len(indent) :] for line in text.split("\n")).strip("\n") for indent, text in blocks]
    return [text for text in texts if not text.startswith(RESULTS)]


def name_of(code: str) -> str:
    return hashlib.sha1(code.encode()).hexdigest()[:8]  # noqa: S324  a name, not a signature


def fetch_docs() -> bool:
    """Return True if the documentation is there, or could be fetched."""
    if (DOCS / PAGES[0]).is_file():
        return True
    try:
        with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file, urllib.request.urlopen(DOCS_ARCHIVE, timeout=30) as reply:  # noqa: S310  a constant
            file.write(reply.read())
            file.flush()
            DOCS.mkdir(parents=True, exist_ok=True)
            command = ["tar", "-xzf", file.name, "-C", str(DOCS), "--strip-components=3", "--wildcards", "*/mkdocs/docs/*.md"]
            return subprocess.run(command, check=False).returncode == 0
    except OSError as error:
        print(f"the documentation of PyIceberg was not fetched ({error}): name its folder in ICEFLOE_PYICEBERG_DOCS to run its snippets")
        return False


def run_snippets(environment: dict[str, str]) -> int:
    """Run every snippet in a process of its own; return 1 if one fails that is not listed, or a listed one runs."""
    if not fetch_docs():
        return 0
    listed = {name: group["reason"] for group in tomllib.loads(LIST.read_text())["snippet"] for name in group["names"]}
    passed, expected, wrong = 0, 0, []
    codes = [(page, code) for page in PAGES for code in snippets(DOCS / page)]
    print(f"running {len(codes)} snippets", flush=True)
    with ThreadPoolExecutor(PROCESSES) as pool:
        errors = list(pool.map(lambda code: _error_of(code[1], environment), codes))
    for (page, code), error in zip(codes, errors, strict=True):
        name = name_of(code)
        if (error is None) == (name in listed):
            wrong.append(f"{page} {name}: " + (error or "runs, and is listed as a snippet that cannot run"))
        passed, expected = passed + (error is None), expected + (error is not None and name in listed)
    for line in wrong:
        print(f"SNIPPET {line}")
    print(f"{passed} snippets of the documentation run, {expected} cannot, {len(wrong)} differ from the list")
    return 1 if wrong else 0


def _error_of(code: str, environment: dict[str, str]) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "snippet.py").write_text(code)
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("run_snippet.py")), folder]
        ended = subprocess.run(
            command, env={**environment, "HOME": folder}, cwd=folder, capture_output=True, text=True, check=False, timeout=120
        )
    return None if ended.returncode == 0 else (ended.stderr.strip().splitlines() or ["no message"])[-1][:300]
