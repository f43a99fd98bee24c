"""Transport of errors from Spark tasks to the driver: an `IcefloeError` becomes signed JSON in the task's failure, and is restored on the driver.

Spark passes a task's failure to the driver as text, which may quote values, column names or paths that another user wrote. So the JSON has only plain fields,
the constructors are those in `errors.py`, and an HMAC proves that a task of the same job wrote it. The key is random, belongs to the driver's process, is sent
to tasks inside the pickled function, and appears in no text. A task signs errors only within a job of Icefloe; in a user's own action an error has only its
message.
"""

import base64
import hmac
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256

import msgspec
from pyspark import TaskContext

from icefloe.errors import IcefloeError, Problem

# Name of Spark's local property with the id of the running job. It is public; the key is not.
JOB_PROPERTY = "icefloe.job"
# The next step for a file that a task does not find.
UNSEEN_FILE = (
    "Spark's workers do not see the file: if it is in a local folder, run them on the machine that has the folder, or mount it there; "
    "else check the path, as the file may have been deleted or moved"
)
# The maximum characters of a text in an error, the maximum number of problems, and the maximum characters of a problem. The text states how many are cut off.
MOST_TEXT, MOST_PROBLEMS, MOST_PROBLEM_TEXT = 16_384, 100, 2_000
_MOST_ENCODED = 4 * 1024 * 1024
_SEALED = re.compile(rf"icefloe-error\[([A-Za-z0-9+/=]{{1,{_MOST_ENCODED}}})\.([0-9a-f]{{64}})\]")

_PACKED = re.compile(r"\n?icefloe-error\[[A-Za-z0-9+/=]*(?:\.[0-9a-f]*)?(?:\]|\Z|(?=\s))")


class TaskError(Exception):
    """The exception with which a Spark task fails instead of an `IcefloeError`; its message contains the signed text from `seal`."""


class _Fields(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of an error in the signed text, from which the driver creates the error again."""

    job: str
    code: str
    message: str
    table: str | None
    path: str | None
    snapshot_id: int | None
    problems: list[tuple[str, str]]
    next_step: str | None


@cache
def key_of_this_process() -> bytes:
    """Return this process's random key, which is created at the first call."""
    return secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class TaskErrors:
    """Sends errors from tasks to the driver. The functions that tasks run contain an object of this class.

    Attributes:
        key: The random key of the driver's process, which signs errors.
        job: The id of the job; None to use the job of Icefloe to which the running task belongs.
    """

    key: bytes = field(default_factory=key_of_this_process, repr=False)
    job: str | None = None

    @contextmanager
    def carry(self) -> Iterator[None]:
        """Return a context that replaces an `IcefloeError` by a `TaskError`, for `error_in` on the driver; outside of Icefloe's jobs it does nothing."""
        try:
            yield
        except IcefloeError as error:
            job = self.job or _job_of_this_task()
            if job is None:
                raise
            raise TaskError(f"{error}\n{seal(error, job, self.key)}") from error


def seal(error: IcefloeError, job: str, key: bytes) -> str:
    """Convert an error to a signed text of bounded length, which `error_in` converts back."""
    problems = [
        (_shorten(problem.where, MOST_PROBLEM_TEXT), _shorten(problem.what, MOST_PROBLEM_TEXT))
        for problem in error.problems[:MOST_PROBLEMS]
    ]
    if len(error.problems) > MOST_PROBLEMS:
        problems.append(("", f"and {len(error.problems) - MOST_PROBLEMS} more"))
    fields = {
        "job": job,
        "code": error.code,
        "message": _shorten(error.message, MOST_TEXT),
        "table": None if error.table is None else _shorten(error.table, MOST_TEXT),
        "path": None if error.path is None else _shorten(error.path, MOST_TEXT),
        "snapshot_id": error.snapshot_id,
        "problems": problems,
        "next_step": None if error.next_step is None else _shorten(error.next_step, MOST_TEXT),
    }
    payload = base64.b64encode(json.dumps(fields).encode()).decode("ascii")
    return f"icefloe-error[{payload}.{_signature(payload, key)}]"


def error_in(text: str, job: str, key: bytes) -> IcefloeError | None:
    """Return the error from the signed text of a task of this job inside `text`; None if there is no such text, or another key has signed it."""
    for match in _SEALED.finditer(text):
        payload, signature = match.groups()
        if hmac.compare_digest(_signature(payload, key), signature):
            error = _decode(payload, job)
            if error is not None:
                return error
    return None


def without_packed_errors(text: str) -> str:
    """Return a text without the signed texts of errors in it; also without the beginning of a truncated one."""
    return _PACKED.sub("", text)


def _decode(payload: str, job: str) -> IcefloeError | None:
    try:
        fields = msgspec.convert(json.loads(base64.b64decode(payload, validate=True)), _Fields)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None  # signed by a different version of Icefloe
    kind = _kinds().get(fields.code)
    if kind is None or fields.job != job:
        return None
    return kind(
        fields.message,
        table=fields.table,
        path=fields.path,
        snapshot_id=fields.snapshot_id,
        problems=[Problem(where=where, what=what) for where, what in fields.problems],
        next_step=fields.next_step,
    )


@cache
def _kinds() -> dict[str, type[IcefloeError]]:
    """Return the error classes of `errors.py` by code. Only these classes can be created from a signed text."""
    kinds, remaining = {IcefloeError.code: IcefloeError}, [IcefloeError]
    while remaining:
        subclasses = [kind for kind in remaining.pop().__subclasses__() if kind.__module__ == IcefloeError.__module__]
        kinds.update({kind.code: kind for kind in subclasses})
        remaining += subclasses
    return kinds


def _signature(payload: str, key: bytes) -> str:
    return hmac.new(key, payload.encode("ascii"), sha256).hexdigest()


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} characters more)"


def _job_of_this_task() -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(JOB_PROPERTY)
