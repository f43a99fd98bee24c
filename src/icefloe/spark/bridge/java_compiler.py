"""Compilation of the Java sources in `java/`: Janino, which Spark ships, compiles them once per Spark version and source text; the driver loads the classes.

Class files are kept in the user's cache folder (`class_cache.py`), so that only the first session of a Spark version has to compile. Executors receive only
the classes that read batches. `docs/design/spark-bridge.md` describes the classes.
"""

import logging
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.errors import EngineError, Problem
from icefloe.spark.bridge.class_cache import UnsafeCacheError, check_sealed, own_cache_folder, seal, session_folder
from icefloe.spark.bridge.gateway import class_behind, gateway_of, java_message, jvm_of
from icefloe.spark.runtime.spark_versions import WITHOUT_JAVA_CLASSES, check_version, is_proven, proven_text

LOG = logging.getLogger(__name__)

# Exceptions with the names that Java's Iceberg has for them; where its JAR is in the JVM, its classes are used.
EXCEPTIONS = ("ValidationException", "CommitFailedException", "CommitStateUnknownException", "NotFoundException")
# The classes in the order of compilation. Each is a source file in `java/`, in the Java package `icefloe` unless the file names another.
SOURCES = (
    "PlannedFiles",
    "BitmapDecoder",
    "Positions",
    "CountedParquet",
    "InvalidStatement",
    *EXCEPTIONS,
    "PythonBridge",
    "ConnectorJson",
    "ViewQueries",
    "SparkViews",
    "GatheredRows",
    "NamedColumns",
    "SchemaEvolution",
    "PythonProxy",
    "SparkCatalog",
    "SparkSessionCatalog",
    "SparkCommand",
    "SparkRule",
    "RowStatement",
    "RowStatementRule",
    "SparkParser",
    "SparkExtensions",
)
# Data sources, which Spark finds by the names of their classes once `add_formats` was called: source files with the paths of their classes.
FORMATS = {"DefaultSource": "icefloe/DefaultSource", "IcebergSource": "iceberg/DefaultSource"}
# Classes that run in Spark's tasks; executors receive them in a jar.
FOR_EXECUTORS = ("CountedParquet", "Positions")
# Bytecode of Java 8: every Java that Spark 4 runs on reads it, so the cache does not depend on the Java that wrote it.
BYTECODE_VERSION = 8
# The setting that names extensions of Spark, and the class that brings the parser.
EXTENSIONS, EXTENSION_CLASS = "spark.sql.extensions", "icefloe.SparkExtensions"
_FORMATS_FOLDER = "formats"
# Folder with the file by which Spark finds the data source `iceberg` in any case of letters; without it Spark finds the class by the exact name.
_SERVICES_FOLDER = "services"
_SERVICE_FILE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_ICEBERG_SOURCE = "iceberg.DefaultSource"
# Part of the hash that names a cache folder: a folder of another layout is never read.
_CACHE_LAYOUT = "sealed"
_JAR = Path("executors.jar")
_SHIPPED_ATTRIBUTE = "_icefloe_jar_shipped"
_LOADER_ATTRIBUTE = "_icefloe_class_loader"
_CONSTRUCTORS_ATTRIBUTE = "_icefloe_constructors"
_FOLDER_ATTRIBUTE = "_icefloe_class_folder"


def new_object(spark: SparkSession, class_name: str, *arguments: Any) -> Any:
    """Return a new object of one of the classes in `SOURCES`, which has one constructor.

    Raises:
        EngineError: The sources do not compile on this Spark, or it is too old.
    """
    gateway = gateway_of(spark)
    # Each look-up is a call of the JVM, and a query creates two objects.
    constructors = gateway.__dict__.setdefault(_CONSTRUCTORS_ATTRIBUTE, {})
    if class_name not in constructors:
        constructors[class_name] = class_loader(spark).loadClass(f"icefloe.{class_name}").getConstructors()[0]
    return constructors[class_name].newInstance(_object_array(gateway, arguments))


def static_method(spark: SparkSession, class_name: str, method_name: str, *arguments: Any) -> Any:
    """Call a static method of one of the classes; a Python object among the arguments arrives as a `BiFunction`.

    Raises:
        EngineError: As `new_object`.
    """
    gateway = gateway_of(spark)
    methods = class_loader(spark).loadClass(f"icefloe.{class_name}").getMethods()
    return next(method for method in methods if method.getName() == method_name).invoke(None, _object_array(gateway, arguments))


def _object_array(gateway: Any, members: Sequence[Any]) -> Any:
    """Return an `Object[]` of values, which Py4J converts as arguments of `add`; setting members of an array takes twice as many calls of the JVM."""
    holder = class_behind(gateway, "java.util.ArrayList")()
    for member in members:
        holder.add(member)
    return holder.toArray()


def class_loader(spark: SparkSession) -> Any:
    """Return the Java class loader that has the compiled classes, created once per JVM.

    Raises:
        EngineError: The sources do not compile on this Spark, or it is too old.
    """
    return loader_of(gateway_of(spark), spark.version)


def loader_of(gateway: Any, spark_version: str) -> Any:
    """Return the class loader of a JVM, which may have no session yet. Raises `EngineError` as `class_loader`."""
    # A gateway returns a package of Java for any attribute, so only its own dictionary can be trusted.
    loader = gateway.__dict__.get(_LOADER_ATTRIBUTE)
    if loader is None:
        check_version(spark_version)  # PySpark may be newer than the Spark that it starts
        folder = _compiled_folder(gateway, spark_version)
        loader = _load_from(gateway, folder)
        gateway.__dict__.update({_LOADER_ATTRIBUTE: loader, _FOLDER_ATTRIBUTE: folder})
    return loader


def extension_settings(gateway: Any, extensions: str) -> dict[str, str]:
    """Return the settings by which a session that is about to start has Icefloe's parser.

    Spark reads `spark.sql.extensions` once, when the session starts, and looks the class up by its name. Between the start of the JVM and that of the session
    the sources are compiled, or found in the cache, and their folder is added to the driver's class loader.

    Args:
        gateway: The gateway of a JVM without a session.
        extensions: The value of `spark.sql.extensions` that the user chose, which stays; empty for none.

    Returns:
        The setting; nothing where the classes cannot be found by name or do not compile, which `attach` reports later.
    """
    if not _takes_folders(gateway.jvm, _context_loader(gateway.jvm)):
        return {}
    version = getattr(class_behind(gateway, "org.apache.spark.package$"), "MODULE$").SPARK_VERSION()
    try:
        loader_of(gateway, version)
    except (EngineError, Py4JError) as error:
        LOG.debug("the session starts without the parser extension: %s", error)
        return {}
    names = [name.strip() for name in extensions.split(",") if name.strip()]
    return {EXTENSIONS: ",".join([*names, *([] if EXTENSION_CLASS in names else [EXTENSION_CLASS])])}


def add_formats(spark: SparkSession) -> None:
    """Let every session find the data sources in `FORMATS` by their names; further calls change nothing."""
    gateway = gateway_of(spark)
    loader = class_loader(spark)
    if not _takes_folders(gateway.jvm, loader):
        return
    folder = gateway.__dict__[_FOLDER_ATTRIBUTE]
    loader.addURL(gateway.jvm.java.io.File(f"{folder}/{_FORMATS_FOLDER}/").toURI().toURL())
    # Spark refuses a name that two data sources register, so `iceberg` is registered only where Java's Iceberg does not.
    conf = spark._jsparkSession.sessionState().conf()
    try:
        found = gateway.jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource("iceberg", conf).getName()
    except Py4JError as error:
        LOG.warning(
            "the format iceberg is found in lower case only, because Spark cannot load a data source of another library: %s",
            java_message(error),
        )
        return
    if found == _ICEBERG_SOURCE:
        loader.addURL(gateway.jvm.java.io.File(f"{folder}/{_SERVICES_FOLDER}/").toURI().toURL())


def executors_have_classes(spark: SparkSession) -> bool:
    """Return True if Spark's tasks find the classes in `FOR_EXECUTORS`; executors in other processes receive them in a jar, once per application."""
    gateway = gateway_of(spark)
    loader, context = class_loader(spark), spark._jsparkSession.sparkContext()
    if context.isLocal() and _takes_folders(gateway.jvm, loader):
        return True
    shipped = gateway.__dict__.setdefault(_SHIPPED_ATTRIBUTE, {})
    application = context.applicationId()
    if application not in shipped:
        try:
            check_sealed(gateway.__dict__[_FOLDER_ATTRIBUTE])
            context.addJar(f"{gateway.__dict__[_FOLDER_ATTRIBUTE]}/{_JAR}")
            shipped[application] = True
        except UnsafeCacheError as error:
            LOG.warning("could not ship the executor jar: %s; finding deleted rows is slower without it", error)
            shipped[application] = False
        except Py4JError as error:
            LOG.warning("could not ship the executor jar; falling back to Spark's row positions, which is slower: %s", java_message(error))
            shipped[application] = False
    return bool(shipped[application])


def compiled_folder(spark: SparkSession) -> Path:
    """Return the folder of class files for this Spark and these sources.

    They are compiled now unless an earlier session left them in a cache that can be trusted.

    Raises:
        EngineError: The sources do not compile on this Spark, or other users can change every folder that could hold the classes.
    """
    return _compiled_folder(gateway_of(spark), spark.version)


def _compiled_folder(gateway: Any, spark_version: str) -> Path:
    sources = {name: (files("icefloe.spark.bridge").joinpath("java", f"{name}.java")).read_text("utf-8") for name in (*SOURCES, *FORMATS)}
    text_hash = sha256("\0".join((_CACHE_LAYOUT, *sources.values())).encode()).hexdigest()[:16]
    try:
        cache = own_cache_folder()
        kept = cache / f"{spark_version}-{text_hash}"
        if kept.is_symlink() or kept.exists():
            check_sealed(kept)
            return kept
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=cache))
    except UnsafeCacheError as error:
        LOG.warning(
            "compiled classes are not kept for the next session: %s. Delete it, or set XDG_CACHE_HOME to a folder of your own", error
        )
        return _compiled_once(gateway, spark_version, sources)
    except OSError:
        # A home folder without write access costs one compilation per session, nothing else.
        return _compiled_once(gateway, spark_version, sources)
    try:
        _compile(gateway, spark_version, sources, making / "classes")
        seal(making / "classes")
        return _put_in_place(making / "classes", kept)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _compiled_once(gateway: Any, spark_version: str, sources: dict[str, str]) -> Path:
    """Compile for this process alone."""
    folder = session_folder() / "classes"
    _compile(gateway, spark_version, sources, folder)
    seal(folder)
    return folder


def _put_in_place(finished: Path, kept: Path) -> Path:
    """Rename the folder of finished classes in one step: another process sees all of them or none."""
    try:
        finished.rename(kept)
    except OSError:
        try:
            check_sealed(kept)  # another process was first
        except (OSError, UnsafeCacheError):
            return Path(shutil.move(finished, session_folder()))
    return kept


def _compile(gateway: Any, spark_version: str, sources: dict[str, str], folder: Path) -> None:
    jvm = gateway.jvm
    folder.mkdir()
    java_files = gateway.new_array(jvm.java.io.File, len(sources))
    for index, (name, text) in enumerate(sources.items()):
        source = folder / f"{name}.java"
        source.write_text(text, "utf-8")
        java_files[index] = jvm.java.io.File(str(source))
    compiler = jvm.org.codehaus.janino.Compiler()
    # Janino looks classes up in the running JVM, wherever this Spark keeps its jars, but not where compiled classes of these sources were added before.
    loader = _context_loader(jvm)
    if _takes_folders(jvm, loader):
        loader = loader.getParent()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setSourceVersion(BYTECODE_VERSION)
    compiler.setTargetVersion(BYTECODE_VERSION)
    compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
    try:
        compiler.compile(java_files)
    except Py4JError as error:
        proven = is_proven(spark_version)
        hint = "" if proven else f", which is not a version that Icefloe is proven on; those are {proven_text()}"
        raise EngineError(
            f"the Java classes of Icefloe do not compile on Spark {spark_version}{hint}",
            problems=[Problem(where="", what=java_message(error))],
            next_step=f"{'report this' if proven else 'use a proven version'}; {WITHOUT_JAVA_CLASSES}",
        ) from error
    for class_path in FORMATS.values():
        target = folder / _FORMATS_FOLDER / f"{class_path}.class"
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{class_path}.class").rename(target)
    service = folder / _SERVICES_FOLDER / _SERVICE_FILE
    service.parent.mkdir(parents=True)
    service.write_text(f"{_ICEBERG_SOURCE}\n", "utf-8")
    with zipfile.ZipFile(folder / _JAR, "w") as jar:
        for name in FOR_EXECUTORS:
            for file in sorted((folder / "icefloe").glob(f"{name}*.class")):  # and the classes inside it
                jar.write(file, f"icefloe/{file.name}")


def _load_from(gateway: Any, folder: Path) -> Any:
    jvm = gateway.jvm
    url = jvm.java.io.File(f"{folder}/").toURI().toURL()
    loader = _context_loader(jvm)
    if _takes_folders(jvm, loader):
        # Spark finds classes by name that the driver's own loader has.
        loader.addURL(url)
        return loader
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = url
    return jvm.java.net.URLClassLoader(urls, loader)


def _context_loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def has_class(spark: SparkSession, class_name: str) -> bool:
    """Return True if the JVM of a classic session has a class of that name."""
    jvm = jvm_of(spark)
    try:
        jvm.java.lang.Class.forName(class_name, False, _context_loader(jvm))
    except Py4JError:
        return False
    return True


def _takes_folders(jvm: Any, loader: Any) -> bool:
    return bool(jvm.java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader").isInstance(loader))
