"""`icefloe doctor`: checks of the installation, the configuration, the catalogs and their storage, each with advice on what to correct.

The exit code is 1 if a check found a fault; warnings leave it 0. A check that fails in any way counts as a fault, and the other checks still run.
"""

import os
import platform
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_config import configuration_files, configured_default_name, known_catalogs
from icefloe.cli.catalog_choice import CatalogChoice, open_catalog
from icefloe.cli.failure_output import REFUSED
from icefloe.cli.installed_versions import Versions, versions
from icefloe.cli.screen import show
from icefloe.cli.shared_options import AsJson
from icefloe.cli.spark_access import spark_module, start_spark
from icefloe.cli.table_command import with_catalog_options
from icefloe.display.report import Column, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import IcefloeError
from icefloe.formatting import count_text, size_text
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.locations import join, local_path, scheme_of
from icefloe.optional_packages import install_command
from icefloe.spec.avro import compiled_codec
from icefloe.stores.database_uri import without_password

# The bytes of free disk space below which a check is a warning, and those below which it is a fault.
LITTLE_SPACE = 1 << 30
NO_SPACE = 100 << 20

StartSpark = Annotated[bool, typer.Option("--start-spark", help="Also start Spark and run a job; takes about 15 seconds.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Write no file to the warehouses.")]
Seconds = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long a catalog or its storage may take to reply.")]


class Status(StrEnum):
    """The result of one check of `icefloe doctor`."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: its subject, its result, what it found, and what the user should do; `next_step` is None if nothing is wrong."""

    check: str
    status: Status
    found: str
    next_step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Reportable):
    """The results of all checks of `icefloe doctor`."""

    checks: tuple[Check, ...]

    @property
    def faults(self) -> int:
        """The number of checks with a fault."""
        return sum(check.status is Status.FAULT for check in self.checks)

    @property
    def warnings(self) -> int:
        """The number of checks with a warning."""
        return sum(check.status is Status.WARNING for check in self.checks)

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  every check is shown
        rows = [(check.status.value, check.check, check.found) for check in self.checks]
        parts: list[Part] = [grid("", (Column("", whole=True), Column("check"), Column("found")), rows, None)]
        steps = [(check.check, check.next_step) for check in self.checks if check.next_step is not None]
        if steps:
            parts.append(grid("what to do", (Column("check"), Column("next step")), steps, None))
        summary = f"{count_text(self.faults, 'fault')}, {count_text(self.warnings, 'warning')}"
        return Report("", (*parts, Prose(summary)))

    def to_dict(self) -> dict[str, Any]:
        """Return the checks, and the numbers of faults and warnings."""
        checks = [{"check": c.check, "status": c.status.value, "found": c.found, "next_step": c.next_step} for c in self.checks]
        return {"faults": self.faults, "warnings": self.warnings, "checks": checks}


@with_catalog_options
def doctor(
    *,
    start: StartSpark = False,
    read_only: ReadOnly = False,
    timeout: Seconds = 20.0,
    choice: CatalogChoice,
    as_json: AsJson = False,
) -> None:
    """Check the installation, Spark and Java, the configuration, the catalogs and their storage. The exit code is 1 if there is a fault."""
    checks = [*_installation(), *_spark(start), *_configuration()]
    for chosen in _choices(choice):
        checks += _catalog(chosen, timeout, writes=not read_only)
    checks += _disk_space("temporary files", tempfile.gettempdir())
    diagnosis = Diagnosis(checks=tuple(checks))
    show(diagnosis, as_json=as_json)
    if diagnosis.faults:
        raise typer.Exit(REFUSED)


def _installation() -> Iterator[Check]:
    yield Check(check="python", status=Status.OK, found=f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    installed = versions()
    yield Check(check="icefloe", status=Status.OK, found=f"{installed.icefloe}, with pyarrow {installed.pyarrow}")
    if installed.manifest_codec == "compiled":
        libraries = {
            "libdeflate: deflated": compiled_codec.INFLATES,
            "libzstd: zstandard": compiled_codec.UNPACKS_ZSTANDARD,
            "libsnappy: snappy": compiled_codec.UNPACKS_SNAPPY,
        }
        without = "".join(f", without {name} blocks are decompressed one by one" for name, has_it in libraries.items() if not has_it)
        yield Check(check="manifest codec", status=Status.OK, found=f"compiled{without}")
    else:
        yield Check(
            check="manifest codec",
            status=Status.WARNING,
            found="not compiled: manifests are read many times more slowly",
            next_step="install a wheel for this platform, or install again where there is a C compiler",
        )
    yield from _java(installed)


def _java(installed: Versions) -> Iterator[Check]:
    if installed.pyspark is None:
        yield Check(
            check="spark",
            status=Status.WARNING,
            found="not installed: tables are read and written by Arrow alone",
            next_step=f"for Spark SQL and DataFrames run {install_command('spark')}",
        )
        return
    try:
        version_module = spark_module("runtime.spark_versions")
        is_proven = version_module.is_proven(installed.pyspark)
        yield Check(
            check="spark",
            status=Status.OK if is_proven else Status.WARNING,
            found=installed.pyspark + ("" if is_proven else ", which Icefloe is not tested on"),
            next_step=None if is_proven else f"install a tested version: {version_module.proven_text()}",
        )
        java = spark_module("runtime.java_runtime").find_java()
        yield Check(check="java", status=Status.OK, found=f"{java.version} ({java.source}: {java.home})")
    except IcefloeError as error:
        yield _fault("spark and java", error)


def _spark(start: bool) -> Iterator[Check]:
    if start:

        def run() -> Check:
            spark = start_spark()
            count = spark.range(10).count()
            return Check(check="spark job", status=Status.OK, found=f"a job of {count} rows ran on Spark {spark.version}")

        yield from _result_of("spark job", run, None)
        yield from _accelerator()


def _accelerator() -> Iterator[Check]:
    """Check whether the accelerator of the started session, if it has one, reads Icefloe's files."""
    try:
        accelerator = spark_module("bridge.accelerators").accelerator_of(start_spark())
    except IcefloeError as error:
        yield _fault("accelerator", error)
        return
    if accelerator is not None:
        status = Status.OK if accelerator.obstacle is None else Status.WARNING
        yield Check(check="accelerator", status=status, found=str(accelerator), next_step=accelerator.advice)


def _configuration() -> Iterator[Check]:
    try:
        files = configuration_files()
    except IcefloeError as error:
        yield _fault("configuration", error)
        return
    variables = sorted(name for name in os.environ if name.startswith(("ICEFLOE_", "PYICEBERG_")))
    sources = [str(path) for path in files] + [f"the variable {name}" for name in variables]
    yield Check(check="configuration", status=Status.OK, found=", ".join(sources) or "no file, no variable")
    default, known = configured_default_name(), known_catalogs()
    if default is not None and default.lower() not in {name.lower() for name in known}:
        yield Check(
            check="default catalog",
            status=Status.FAULT,
            found=f"{default}, which is not configured",
            next_step=f"configure it under `catalog:`, or choose one of {', '.join(known) or 'none'}",
        )


def _choices(choice: CatalogChoice) -> list[CatalogChoice]:
    """Return the catalog that the options select; without options all configured catalogs."""
    if any((choice.name, choice.uri, choice.warehouse)):
        return [choice]
    try:
        return [CatalogChoice(name=name) for name in known_catalogs()]
    except IcefloeError:
        return []  # the check of the configuration reports the reason


def _catalog(choice: CatalogChoice, timeout: float, *, writes: bool) -> Iterator[Check]:
    opened: list[Catalog] = []

    def reach() -> Check:
        catalog = open_catalog(choice)
        namespaces = catalog.list_namespaces()
        opened.append(catalog)
        place = catalog.properties.get("uri") or catalog.properties.get("warehouse") or type(catalog).__name__
        shown = without_password(place) if "://" in place else place
        return Check(check=f"catalog {catalog.name}", status=Status.OK, found=f"{shown}: {count_text(len(namespaces), 'namespace')}")

    yield from _result_of(f"catalog {choice.name or choice.uri or choice.warehouse}", reach, timeout)
    if not opened:
        return
    catalog, warehouse = opened[0], opened[0].properties.get("warehouse")
    name = f"warehouse of {catalog.name}"
    if not warehouse:
        yield Check(check=name, status=Status.WARNING, found="none", next_step="set `warehouse`, or give each new table a location")
        return
    is_local = scheme_of(warehouse) == "file"
    if is_local and not os.path.isdir(local_path(warehouse)):
        yield Check(
            check=name, status=Status.WARNING, found=f"{warehouse} does not exist", next_step="the first table creates it; check its path"
        )
        return
    if writes:
        path = join(warehouse, f".icefloe-doctor-{uuid.uuid4().hex}")
        yield from _result_of(name, lambda: _write(name, catalog, warehouse, path), timeout, f"; delete {path} if it is there")
    if is_local:
        yield from _disk_space(name, local_path(warehouse))


def _write(name: str, catalog: Catalog, warehouse: str, path: str) -> Check:
    """Check that a file can be written and deleted."""
    io = load_file_io(catalog.properties, warehouse)
    io.write(path, b"icefloe doctor")
    try:
        io.delete(path)
    except IcefloeError as error:
        return Check(
            check=name,
            status=Status.WARNING,
            found=f"{warehouse} is writable, but its files cannot be deleted: {error.message}",
            next_step=f"delete {path}, which remains, and allow deletions: `expire`, `drop --purge` and writes that fail delete files",
        )
    return Check(check=name, status=Status.OK, found=f"{warehouse} is writable")


def _disk_space(name: str, folder: str) -> Iterator[Check]:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Check(
            check=f"disk of {name}",
            status=Status.FAULT,
            found=f"{folder}: {error.strerror}",
            next_step="create the folder, or name another one",
        )
        return
    status = Status.FAULT if free < NO_SPACE else Status.WARNING if free < LITTLE_SPACE else Status.OK
    step = None if status is Status.OK else "delete files, expire snapshots, or use another disk"
    yield Check(check=f"disk of {name}", status=status, found=f"{size_text(free)} free at {folder}", next_step=step)


def _result_of(name: str, make: Callable[[], Check], timeout: float | None, if_late: str = "") -> Iterable[Check]:
    """Run a check and return its result. An error of any kind is a fault.

    Args:
        name: The name of the check.
        make: Runs the check.
        timeout: Seconds after which the check counts as failed. The check runs in a thread of its own, which is then abandoned. None runs it in this thread,
            without a limit.
        if_late: Advice for a check that took too long, as the end of a sentence.
    """
    results: list[Check] = []

    def run() -> None:
        try:
            results.append(make())
        except IcefloeError as error:
            results.append(_fault(name, error))
        except Exception as error:  # noqa: BLE001  a check of a broken installation may fail in any way, and the other checks must still run
            results.append(Check(check=name, status=Status.FAULT, found=f"{type(error).__name__}: {error}"))

    if timeout is None:
        run()
        return results
    thread = threading.Thread(target=run, name="icefloe-doctor", daemon=True)
    thread.start()
    thread.join(timeout)
    late = Check(
        check=name, status=Status.FAULT, found=f"no reply in {timeout:g} seconds", next_step=f"check the address and the network{if_late}"
    )
    return results or [late]


def _fault(name: str, error: IcefloeError) -> Check:
    problems = "".join(f"; {problem}" for problem in error.problems)
    where = f" ({error.path})" if error.path and error.path not in error.message else ""
    return Check(check=name, status=Status.FAULT, found=f"{error.message}{where}{problems}", next_step=error.next_step)
