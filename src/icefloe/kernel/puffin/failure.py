"""How broken Puffin is reported: one error that names the file and the byte.

Floor: kernel.puffin. Spec: Puffin file format.
"""

from icefloe.errors import Problem, PuffinFormatError

_NEXT_STEP = "restore the file from a copy, or roll the table back to a snapshot that does not use it"


def broken_puffin(path: str, offset: int, what: str) -> PuffinFormatError:
    """The error for `path` being wrong at byte `offset` of the file."""
    return PuffinFormatError(
        f"{path} is not sound Puffin: {what} (at byte {offset})",
        path=path,
        problems=(Problem(where=f"byte {offset}", what=what),),
        next_step=_NEXT_STEP,
    )


def broken_footer(path: str, offset: int, problems: tuple[Problem, ...]) -> PuffinFormatError:
    """The error for a footer payload, at byte `offset`, whose JSON breaks rules: each problem has its JSON path."""
    return PuffinFormatError(
        f"{path} is not sound Puffin: its footer breaks the rules of FileMetadata (at byte {offset})",
        path=path,
        problems=problems,
        next_step=_NEXT_STEP,
    )
