"""What no tracked file may hold: addresses of package indexes (the pins must work from any mirror) and paths of one particular machine."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not hold them either.
INDEX_HOSTS = ("pypi" + ".org", "python" + "hosted.org", "maven" + ".org", "maven.apache" + ".org", "npm" + "js.org", "deb.debian" + ".org")
INDEX_OPTIONS = ("--index" + "-url", "--extra-index" + "-url", "--find" + "-links ")
MACHINE_PATHS = re.compile(r"(?<![\w.$}~-])/(?:wo" + "rk|ro" + r"ot|home/\w+)/")
TICKETS = re.compile(r"\bissue #?\d", re.IGNORECASE)


def tracked_texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    texts = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes())[:8000]:
            texts[name] = content.decode()
    return texts


def test_no_file_names_a_package_index() -> None:
    matches = {name: host for name, text in tracked_texts().items() for host in (*INDEX_HOSTS, *INDEX_OPTIONS) if host in text}
    assert matches == {}


def test_no_file_names_a_path_of_one_machine() -> None:
    matches = {name: match.group() for name, text in tracked_texts().items() if (match := MACHINE_PATHS.search(text))}
    assert matches == {}


def test_no_file_points_to_a_ticket() -> None:
    matches = {name: match.group() for name, text in tracked_texts().items() if (match := TICKETS.search(text))}
    assert matches == {}


def test_no_link_is_tracked() -> None:
    # A link with the name of a folder that git ignores takes the folder's place at the next checkout.
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_every_pin_has_a_hash_and_none_is_a_range() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        for block in re.split(r"\n(?=[A-Za-z0-9])", path.read_text().strip()):
            assert re.match(r"[A-Za-z0-9._-]+==[^\s*]+ ", block), f"{path.name}: {block.splitlines()[0]}"
            assert "--hash=sha256:" in block, f"{path.name}: {block.splitlines()[0]}"
