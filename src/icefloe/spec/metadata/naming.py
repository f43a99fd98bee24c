"""Names of metadata files, manifest lists and manifests, equal to those of other implementations.

Data files are named in `icefloe.datafile`, and their folders in `data_location.py`. Spec: Metastore Tables (names of metadata files). The other names are
those that Java writes.
"""

import re

_METADATA_FILE = re.compile(r"(?:v(?P<hadoop>\d+)|(?P<version>\d+)-[^/]*?)(?:\.gz)?\.metadata\.json(?:\.gz)?")


def metadata_file_name(version: int, uuid: str, *, gzip: bool = False) -> str:
    """Return `00003-<uuid>.metadata.json`, or `00003-<uuid>.gz.metadata.json`: Java and PyIceberg recognize gzip by the name."""
    return f"{version:05d}-{uuid}{'.gz' if gzip else ''}.metadata.json"


def metadata_version(location: str) -> int | None:
    """Return the version number in the name of a metadata file, including names such as `v3.metadata.json` of file-system tables; None for other names."""
    match = _METADATA_FILE.fullmatch(location.rpartition("/")[2])
    return None if match is None else int(match["version"] or match["hadoop"])


def manifest_list_name(snapshot_id: int, attempt: int, commit_uuid: str) -> str:
    """Return `snap-<snapshot id>-<attempt>-<commit uuid>.avro`; `attempt` differs for each attempt of a commit, so that a retry never overwrites a list."""
    return f"snap-{snapshot_id}-{attempt}-{commit_uuid}.avro"


def manifest_name(commit_uuid: str, number: int) -> str:
    """Return `<commit uuid>-m<number>.avro`; each manifest of a commit has its own number."""
    return f"{commit_uuid}-m{number}.avro"
