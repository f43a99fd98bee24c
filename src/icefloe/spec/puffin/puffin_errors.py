"""Errors of damaged Puffin files, which name the file and the byte.

Spec: Puffin file format.
"""

from icefloe.errors import Problem, PuffinFormatError
from icefloe.spec.limits import limits, raise_limit

_NEXT_STEP = "restore the file from a copy, or roll the table back to a snapshot that does not use it"


def puffin_format_error(path: str, offset: int, what: str, *, next_step: str = _NEXT_STEP) -> PuffinFormatError:
    """Return the error for damage at byte `offset` of the file `path`."""
    return PuffinFormatError(
        f"{path} is not a valid Puffin file: {what} (at byte {offset})",
        path=path,
        problems=(Problem(where=f"byte {offset}", what=what),),
        next_step=next_step,
    )


def puffin_footer_error(path: str, offset: int, problems: tuple[Problem, ...]) -> PuffinFormatError:
    """Return the error for a footer payload at byte `offset` whose JSON violates the format; each problem has its JSON path."""
    return PuffinFormatError(
        f"{path} is not a valid Puffin file: its footer violates the rules of FileMetadata (at byte {offset})",
        path=path,
        problems=problems,
        next_step=_NEXT_STEP,
    )


def puffin_limit_error(path: str, offset: int, what: str, limit: str) -> PuffinFormatError:
    """Return the error for a size at byte `offset` of the file that exceeds a limit. `what` describes the size, `limit` is the name of the limit."""
    return puffin_format_error(path, offset, f"{what}; the limit {limit} is {getattr(limits(), limit)}", next_step=raise_limit(limit))
