"""How broken Puffin is reported: one error that names the file and the byte.

Spec: Puffin file format.
"""

from icefloe.errors import Problem, PuffinFormatError
from icefloe.kernel.limits import limits, raise_limit

_NEXT_STEP = "restore the file from a copy, or roll the table back to a snapshot that does not use it"


def puffin_format_error(path: str, offset: int, what: str, *, next_step: str = _NEXT_STEP) -> PuffinFormatError:
    """The error for `path` being wrong at byte `offset` of the file."""
    return PuffinFormatError(
        f"{path} is not sound Puffin: {what} (at byte {offset})",
        path=path,
        problems=(Problem(where=f"byte {offset}", what=what),),
        next_step=next_step,
    )


def puffin_footer_error(path: str, offset: int, problems: tuple[Problem, ...]) -> PuffinFormatError:
    """The error for a footer payload, at byte `offset`, whose JSON breaks rules: each problem has its JSON path."""
    return PuffinFormatError(
        f"{path} is not sound Puffin: its footer breaks the rules of FileMetadata (at byte {offset})",
        path=path,
        problems=problems,
        next_step=_NEXT_STEP,
    )


def puffin_limit_error(path: str, offset: int, what: str, limit: str) -> PuffinFormatError:
    """Return the error for something at byte `offset` of the file that is more than the limit of that name; `what` says how much it is."""
    return puffin_format_error(path, offset, f"{what}; the limit {limit} is {getattr(limits(), limit)}", next_step=raise_limit(limit))
