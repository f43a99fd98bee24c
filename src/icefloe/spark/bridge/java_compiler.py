"""Compiles the Java sources beside this file with the Janino that Spark ships, once per Spark version and source text, and loads the classes on the driver.

Class files are kept in the user's cache folder (`class_cache.py`), so only the first session of a Spark version pays for compiling. Executors see but those
that read batches.
"""

import logging
import shutil
import tempfile
import zipfile
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.errors import EngineError, Problem
from icefloe.spark.bridge.class_cache import UnsafeCacheError, check_sealed, own_cache_folder, seal, session_folder
from icefloe.spark.bridge.gateway import gateway_of, java_class, java_words, jvm_of
from icefloe.spark.runtime.spark_versions import WITHOUT_GLUE, check_version, is_proven, proven_text

LOG = logging.getLogger(__name__)

# Exceptions with the names that Java's Iceberg has for them: its own classes are taken where its JAR is in the JVM.
EXCEPTIONS = ("ValidationException", "CommitFailedException", "CommitStateUnknownException", "NotFoundException")
# The classes, in the order they are compiled. Each is a source file beside this one, in the Java package `icefloe` unless said otherwise.
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
    "PythonProxy",
    "SparkCatalog",
    "SparkSessionCatalog",
    "SparkCommand",
    "SparkRule",
    "SparkParser",
)
# Those by whose names Spark finds data sources: Spark sees them only where `offer_formats` was called. Each is a source file with the class that it makes.
FORMATS = {"DefaultSource": "icefloe/DefaultSource", "IcebergSource": "iceberg/DefaultSource"}
# Those that run in Spark's tasks; executors get them in a jar.
FOR_EXECUTORS = ("CountedParquet", "Positions")
# Bytecode of Java 8: every Java that Spark 4 runs on reads it, so the cache does not depend on the Java that wrote it.
BYTECODE_VERSION = 8
_FORMATS_FOLDER = "formats"
# What else than the sources tells one form of the cache from another; folders of an older form are never looked at.
_CACHE_FORM = "sealed"
_JAR = Path("executors.jar")
_GIVEN_ATTRIBUTE = "_icefloe_given_to_executors"
_LOADER_ATTRIBUTE = "_icefloe_class_loader"
_FOLDER_ATTRIBUTE = "_icefloe_class_folder"


def new_object(spark: SparkSession, class_name: str, *arguments: Any) -> Any:
    """A new object of one of the classes in `SOURCES`, made with its only constructor.

    Raises:
        EngineError: the sources do not compile on this Spark, or it is too old.
    """
    gateway = gateway_of(spark)
    packed = gateway.new_array(java_class(spark, "java.lang.Object"), len(arguments))
    for place, argument in enumerate(arguments):
        packed[place] = argument
    return class_loader(spark).loadClass(f"icefloe.{class_name}").getConstructors()[0].newInstance(packed)


def static_method(spark: SparkSession, class_name: str, method: str, *arguments: Any) -> Any:
    """Calls a static method of one of the classes; a Python object among the arguments arrives as a `BiFunction`. Raises `EngineError` as `new_object`."""
    gateway = gateway_of(spark)
    holder = gateway.jvm.java.util.ArrayList()
    for argument in arguments:
        holder.add(argument)  # a Python object becomes one of Java's on its way through an argument
    packed = gateway.new_array(java_class(spark, "java.lang.Object"), len(arguments))
    for place in range(len(arguments)):
        packed[place] = holder.get(place)
    found = class_loader(spark).loadClass(f"icefloe.{class_name}")
    wanted = next(one for one in found.getMethods() if one.getName() == method)
    return wanted.invoke(None, packed)


def class_loader(spark: SparkSession) -> Any:
    """The Java class loader that knows the compiled classes; made once per JVM."""
    gateway = gateway_of(spark)
    # A gateway answers any attribute with a package of Java, so only its own dictionary tells.
    loader = gateway.__dict__.get(_LOADER_ATTRIBUTE)
    if loader is None:
        check_version(spark.version)  # PySpark may be newer than the Spark that it starts
        folder = compiled_folder(spark)
        loader = _load_from(spark, folder)
        gateway.__dict__.update({_LOADER_ATTRIBUTE: loader, _FOLDER_ATTRIBUTE: folder})
    return loader


def offer_formats(spark: SparkSession) -> None:
    """Lets Spark find the classes in `FORMATS` by the names of their packages, in every session; nothing changes the second time."""
    gateway = gateway_of(spark)
    loader = class_loader(spark)
    if _takes_folders(gateway.jvm, loader):
        loader.addURL(gateway.jvm.java.io.File(f"{gateway.__dict__[_FOLDER_ATTRIBUTE]}/{_FORMATS_FOLDER}/").toURI().toURL())


def executors_know(spark: SparkSession) -> bool:
    """Whether Spark's tasks find the classes in `FOR_EXECUTORS`. Executors elsewhere get them in a jar, once per application."""
    gateway = gateway_of(spark)
    loader, context = class_loader(spark), spark._jsparkSession.sparkContext()
    if context.isLocal() and _takes_folders(gateway.jvm, loader):
        return True
    given = gateway.__dict__.setdefault(_GIVEN_ATTRIBUTE, {})
    application = context.applicationId()
    if application not in given:
        try:
            check_sealed(gateway.__dict__[_FOLDER_ATTRIBUTE])
            context.addJar(f"{gateway.__dict__[_FOLDER_ATTRIBUTE]}/{_JAR}")
            given[application] = True
        except UnsafeCacheError as error:
            LOG.warning("could not ship the executor jar: %s; deleted rows are found more slowly", error)
            given[application] = False
        except Py4JError as error:
            LOG.warning("Spark's executors get no classes of Icefloe's, and find deleted rows more slowly: %s", java_words(error))
            given[application] = False
    return bool(given[application])


def compiled_folder(spark: SparkSession) -> Path:
    """Return the folder of class files for this Spark and these sources, compiled now unless an earlier session left them in a cache that can be trusted.

    Raises:
        EngineError: the sources do not compile on this Spark, or other users can change every folder that would take the classes.
    """
    sources = {name: (files("icefloe.spark.bridge").joinpath("java", f"{name}.java")).read_text("utf-8") for name in (*SOURCES, *FORMATS)}
    text_hash = sha256("\0".join((_CACHE_FORM, *sources.values())).encode()).hexdigest()[:16]
    try:
        cache = own_cache_folder()
        kept = cache / f"{spark.version}-{text_hash}"
        if kept.is_symlink() or kept.exists():
            check_sealed(kept)
            return kept
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=cache))
    except UnsafeCacheError as error:
        LOG.warning(
            "compiled classes are not kept for the next session: %s. Delete it, or set XDG_CACHE_HOME to a folder of your own", error
        )
        return _compiled_once(spark, sources)
    except OSError:
        # A home that cannot be written to costs one compilation per session, no more.
        return _compiled_once(spark, sources)
    try:
        _compile(spark, sources, making / "classes")
        seal(making / "classes")
        return _put_in_place(making / "classes", kept)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _compiled_once(spark: SparkSession, sources: dict[str, str]) -> Path:
    """Compile for this process alone."""
    folder = session_folder() / "classes"
    _compile(spark, sources, folder)
    seal(folder)
    return folder


def _put_in_place(made: Path, kept: Path) -> Path:
    """Rename the finished classes to their name, all at once: another process sees the whole folder or none."""
    try:
        made.rename(kept)
    except OSError:
        try:
            check_sealed(kept)  # another process was first
        except (OSError, UnsafeCacheError):
            return Path(shutil.move(made, session_folder()))
    return kept


def _compile(spark: SparkSession, sources: dict[str, str], folder: Path) -> None:
    gateway = gateway_of(spark)
    jvm = gateway.jvm
    folder.mkdir()
    java_files = gateway.new_array(jvm.java.io.File, len(sources))
    for place, (name, text) in enumerate(sources.items()):
        source = folder / f"{name}.java"
        source.write_text(text, "utf-8")
        java_files[place] = jvm.java.io.File(str(source))
    compiler = jvm.org.codehaus.janino.Compiler()
    # Classes are looked up in the running JVM: no list of jars is needed, wherever this Spark keeps its own. But not where the same classes were put before.
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
        proven = is_proven(spark.version)
        said = "" if proven else f", which is not a version that Icefloe is proven on; those are {proven_text()}"
        raise EngineError(
            f"the Java glue does not compile on Spark {spark.version}{said}",
            problems=[Problem(where="", what=java_words(error))],
            next_step=f"{'report this' if proven else 'use a proven version'}; {WITHOUT_GLUE}",
        ) from error
    for found in FORMATS.values():
        kept = folder / _FORMATS_FOLDER / f"{found}.class"
        kept.parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{found}.class").rename(kept)
    with zipfile.ZipFile(folder / _JAR, "w") as jar:
        for name in FOR_EXECUTORS:
            for file in sorted((folder / "icefloe").glob(f"{name}*.class")):  # and the classes inside it
                jar.write(file, f"icefloe/{file.name}")


def _load_from(spark: SparkSession, folder: Path) -> Any:
    jvm = jvm_of(spark)
    url = jvm.java.io.File(f"{folder}/").toURI().toURL()
    loader = _context_loader(jvm)
    if _takes_folders(jvm, loader):
        # The driver's own loader takes more folders, and Spark can then find the classes by name too.
        loader.addURL(url)
        return loader
    urls = gateway_of(spark).new_array(jvm.java.net.URL, 1)
    urls[0] = url
    return jvm.java.net.URLClassLoader(urls, loader)


def _context_loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def knows_class(spark: SparkSession, class_name: str) -> bool:
    """Whether a classic session's JVM finds a class of that name."""
    jvm = jvm_of(spark)
    try:
        jvm.java.lang.Class.forName(class_name, False, _context_loader(jvm))
    except Py4JError:
        return False
    return True


def _takes_folders(jvm: Any, loader: Any) -> bool:
    return bool(jvm.java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader").isInstance(loader))
