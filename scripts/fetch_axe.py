#!/usr/bin/env python3
"""Fetch axe-core, which the tests of pages look for faults of accessibility with: .setup/axe.min.js, checked against a pinned hash.

    .venv/bin/python scripts/fetch_axe.py

It needs npm, and the registry that npm is configured for. axe-core is under MPL-2.0, is used by tests only, and is in no wheel. Standard library only.
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / ".setup" / "axe.min.js"
PACKAGE = "axe-core@4.14.1"
MEMBER = "package/axe.min.js"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


def main():
    """Fetch the file if it is not there."""
    if TARGET.exists() and digest(TARGET.read_bytes()) == SHA256:
        print(f"{TARGET.relative_to(ROOT)} is there")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603, S607
        with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
            content = archive.extractfile(MEMBER).read()
    if digest(content) != SHA256:
        print(f"{PACKAGE} has another {MEMBER}: {digest(content)}", file=sys.stderr)
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(content)
    print(f"{TARGET.relative_to(ROOT)} is {PACKAGE}")
    return 0


def digest(content):
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
