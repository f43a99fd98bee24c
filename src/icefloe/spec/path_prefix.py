"""`PathPrefix`: the replacement of the prefix of all paths of a table, when the table is copied to another location.

A prefix consists of complete names of a path: `/lake/t` is not a prefix of `/lake/t2/x`. A path that could lead out of the prefix is refused.
Spec: Paths in Metadata.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import InvalidInputError
from icefloe.spec.arrow_values import numpy_of, scalar_of

# Names that lead out of a folder or are empty, and characters that some storage clients drop.
_UNCERTAIN = r"(^|/)\.{1,2}(/|$)|[\x00-\x1f\x7f]"
_UNCERTAIN_TEXT = re.compile(_UNCERTAIN)


@dataclass(frozen=True, slots=True)
class PathPrefix:
    """The prefix of a table's paths, and the prefix that replaces it, both without a slash at the end. Create it with `path_prefix`, which checks both."""

    source: str
    target: str

    def move(self, path: str) -> str:
        """Return a path with the prefix replaced. Raises `InvalidInputError` for a path that is not below the prefix, or may lead out of it."""
        return self.target + self._rest(path)

    def relative(self, path: str) -> str:
        """Return a path without the prefix and the slash after it. Raises the errors of `move`."""
        return self._rest(path).lstrip("/")

    def moved_column(self, paths: Any) -> Any:
        """Return an Arrow array of paths with the prefix replaced; nulls stay null. Raises the errors of `move`, for the first wrong path."""
        below = pc.starts_with(paths, pattern=f"{self.source}/")
        certain = pc.invert(pc.match_substring_regex(pc.utf8_slice_codeunits(paths, start=len(self.source)), _UNCERTAIN))
        wrong = pc.fill_null(pc.invert(pc.and_(below, certain)), False)
        if pc.any(wrong).as_py():
            self._rest(paths[int(np.flatnonzero(numpy_of(wrong))[0])].as_py())
        rests = pc.utf8_slice_codeunits(paths, start=len(self.source))
        return pc.binary_join_element_wise(scalar_of(self.target, pa.string()), rests, "")

    def _rest(self, path: str) -> str:
        rest = path[len(self.source) :]
        if not path.startswith(self.source) or rest[:1] not in ("", "/"):
            raise InvalidInputError(
                f"{path} is not below the source prefix {self.source}",
                path=path,
                next_step="choose a prefix that all files of the table have; files elsewhere get into the table's folder by rewrite_data_files, "
                "and out of its history by expire_snapshots",
            )
        if _UNCERTAIN_TEXT.search(rest):
            raise InvalidInputError(
                f"{path!r} may lead out of the source prefix {self.source}: it has the name . or .., or a control character",
                path=path,
                next_step="no known writer makes such a path; do not copy this table before you know who wrote it",
            )
        return rest


def path_prefix(source: str, target: str) -> PathPrefix:
    """Return the replacement of one prefix by another.

    Args:
        source: The prefix of all paths of the table, with or without a slash at its end.
        target: The prefix that replaces it.

    Raises:
        InvalidInputError: A prefix is empty or the root of a store; both are the same; or one is inside the other, so that copied files would be among the
            files to copy.
    """
    prefixes = [prefix.rstrip("/") for prefix in (source, target)]
    for name, text, prefix in zip(("source", "target"), (source, target), prefixes, strict=True):
        if not prefix or prefix.endswith(":") or _UNCERTAIN_TEXT.search(prefix):
            raise InvalidInputError(f"the {name} prefix {text!r} is not a folder", next_step="give a location such as s3://bucket/db/t")
    source, target = prefixes
    if f"{source}/".startswith(f"{target}/") or f"{target}/".startswith(f"{source}/"):
        raise InvalidInputError(
            f"the source prefix {source} and the target prefix {target} are the same, or one is within the other",
            next_step="choose a target prefix outside of the table, such as a bucket or folder of its own",
        )
    return PathPrefix(source, target)
