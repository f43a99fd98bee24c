"""Compilation of the Java sources in `java/` by Janino, which Spark contains: once for each Spark version and source text.

Class files are kept in the user's cache folder (`class_cache.py`), so that only the first session of a Spark version has to compile. `gateway.py` loads the
classes and creates their objects. `docs/design/spark-bridge.md` describes the classes.
"""

import logging
import shutil
import tempfile
import zipfile
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from icefloe.spark.bridge.accelerator_plugins import ACCELERATOR_PLUGINS
from icefloe.spark.bridge.class_cache import UnsafeCacheError, check_sealed, own_cache_folder, seal, session_folder
from icefloe.spark.runtime.spark_versions import is_older

LOG = logging.getLogger(__name__)

# Exceptions that have the same names as in Java's Iceberg; if its JAR is in the JVM, its classes are used.
EXCEPTIONS = ("ValidationException", "CommitFailedException", "CommitStateUnknownException", "NotFoundException")
# The classes in the order of compilation. Each has a source file in `java/`; its Java package is `icefloe` unless the file states a different one.
SOURCES = (
    "ConnectorMetric",
    "MetricsListener",
    "ScanMetrics",
    "PlannedFiles",
    "PartitionSplit",
    "SplitReader",
    "PartitionReaders",
    "DriverProxy",
    "BitmapDecoder",
    "RowGroups",
    "Positions",
    "DeletedPositions",
    "DeletedRows",
    "SelectedRows",
    "CountedBatches",
    "CountedRows",
    "NestedFieldIds",
    "UnsignedValues",
    "SignedReadSupport",
    "SignedRows",
    "FileErrors",
    "SignedParquet",
    "NeededRowGroups",
    "CountedParquet",
    "ParquetById",
    "FirstRows",
    "CopiedColumn",
    "EpochRows",
    "PythonSplit",
    "PythonBatches",
    "PythonReaders",
    "PythonFiles",
    "InvalidStatement",
    *EXCEPTIONS,
    "FilesReplaced",
    "KeptReplies",
    "PythonObject",
    "PythonBridge",
    "ConnectorJson",
    "ViewQueries",
    "SparkViews",
    "GatheredRows",
    "StoreAccess",
    "Accelerator",
    "ChangedRows",
    "ChangedRowsExec",
    "StreamScanStrategy",
    "FileScanStrategy",
    "NativeScan",
    "NamedColumns",
    "PartitionedBatch",
    "RowsSplit",
    "RowsReaders",
    "MicroBatch",
    "TableStream",
    "PartitionedFiles",
    "TransformReducer",
    "SchemaEvolution",
    "SparkScanBuilder",
    "PythonProxy",
    "StatementTables",
    "SparkCatalog",
    "SparkSessionCatalog",
    "WriteMetrics",
    "StreamWriteExec",
    "StreamWriteStrategy",
    "WriteCommand",
    "SparkCommand",
    "JoinHints",
    "OrderedLimit",
    "SubqueryScans",
    "VariantExtractions",
    "NonNullColumns",
    "SparkRule",
    "RowStatement",
    "RowStatementRule",
    "MetricsRule",
    "ParserMethods",
    "SparkParser",
    "SparkExtensions",
)
# Data sources, which Spark finds by class name after a call of `add_formats`: source files, with the paths of their classes.
FORMATS = {"DefaultSource": "icefloe/DefaultSource", "IcebergSource": "iceberg/DefaultSource"}
# Classes that run in Spark's tasks; executors get them in a jar.
FOR_EXECUTORS = (
    "CopiedColumn",
    "CountedBatches",
    "CountedParquet",
    "CountedRows",
    "DeletedPositions",
    "DeletedRows",
    "DriverProxy",
    "FileErrors",
    "FirstRows",
    "NeededRowGroups",
    "PartitionReaders",
    "PartitionSplit",
    "Positions",
    "PythonBatches",
    "PythonReaders",
    "PythonSplit",
    "RowGroups",
    "RowsReaders",
    "RowsSplit",
    "SelectedRows",
    "SignedParquet",
    "SignedReadSupport",
    "SignedRows",
    "SplitReader",
    "UnsignedValues",
)
# The interface to which `ParserMethods` adds methods, and the line in its source that these methods replace.
_PARSER_INTERFACE = "org.apache.spark.sql.catalyst.parser.ParserInterface"
_PARSER_METHODS = "  // The methods of the interface."
# Lines of the sources that begin with `//` and one of these versions are compiled from this version of Spark on.
_LATER_VERSIONS = ("4.2", "4.3")
# The line in the source of `Accelerator` that the accelerators replace.
_ACCELERATORS = "    // The accelerators."
# The classes that extend nodes of Spark's plans, and the names of the nodes: the line in a source is replaced by a constructor with the same parameters.
_NODES = {"StreamWriteExec": "WriteToDataSourceV2Exec", "ChangedRowsExec": "MicroBatchScanExec"}
_NODES_PACKAGE = "org.apache.spark.sql.execution.datasources.v2"
_NODE_CONSTRUCTOR = "  // The constructor of the class, with all parts."
_STATIC = 8  # java.lang.reflect.Modifier
# Bytecode of Java 8: every Java version for Spark 4 can load it, so that the cache does not depend on the Java that wrote it.
BYTECODE_VERSION = 8
FORMATS_FOLDER = "formats"
# Folder with the file by which Spark finds the data source `iceberg` in any case; without that file Spark finds the class only by the exact name.
SERVICES_FOLDER = "services"
_SERVICE_FILE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
ICEBERG_SOURCE = "iceberg.DefaultSource"
# Version of the cache folder's layout, a part of the hash in its name: folders with another layout are never read.
_CACHE_LAYOUT = "sealed"
EXECUTOR_JAR = Path("executors.jar")


def compiled_folder(gateway: Any, spark_version: str) -> Path:
    """Return the folder with the class files of the Java sources for this version of Spark.

    The sources are compiled now, unless an earlier session has compiled them into a cache folder that no other user can have changed.

    Raises:
        EngineError: Other users can change every folder that could hold the classes.
        Py4JError: The sources do not compile on this Spark.
    """
    sources = {name: (files("icefloe.spark.bridge").joinpath("java", f"{name}.java")).read_text("utf-8") for name in (*SOURCES, *FORMATS)}
    for version in _LATER_VERSIONS:
        if not is_older(spark_version, version):
            sources = {name: text.replace(f"//{version} ", "") for name, text in sources.items()}
    accelerators = ",\n".join(f"    {plugin.java}" for plugin in ACCELERATOR_PLUGINS)
    sources["Accelerator"] = sources["Accelerator"].replace(_ACCELERATORS, accelerators)
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
        return _compiled_once(gateway, sources)
    except OSError:
        # If the home folder cannot be written, the only cost is one compilation per session.
        return _compiled_once(gateway, sources)
    try:
        _compile(gateway, sources, making / "classes")
        seal(making / "classes")
        return _put_in_place(making / "classes", kept)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _compiled_once(gateway: Any, sources: dict[str, str]) -> Path:
    """Compile the sources into a folder that only this process uses, because no cache folder can be used."""
    folder = session_folder() / "classes"
    _compile(gateway, sources, folder)
    seal(folder)
    return folder


def _put_in_place(finished: Path, kept: Path) -> Path:
    """Move the folder of compiled classes to its place in the cache in one step, so that other processes see either all classes or none. Return its path."""
    try:
        finished.rename(kept)
    except OSError:
        try:
            check_sealed(kept)  # another process has been faster
        except (OSError, UnsafeCacheError):
            return Path(shutil.move(finished, session_folder()))
    return kept


def _compile(gateway: Any, sources: dict[str, str], folder: Path) -> None:
    jvm = gateway.jvm
    folder.mkdir()
    sources = {
        **sources,
        "ParserMethods": sources["ParserMethods"].replace(_PARSER_METHODS, _parser_methods(jvm)),
        **{name: sources[name].replace(_NODE_CONSTRUCTOR, _node_constructor(jvm, name, node)) for name, node in _NODES.items()},
    }
    java_files = gateway.new_array(jvm.java.io.File, len(sources))
    for index, (name, text) in enumerate(sources.items()):
        source = folder / f"{name}.java"
        source.write_text(text, "utf-8")
        java_files[index] = jvm.java.io.File(str(source))
    compiler = jvm.org.codehaus.janino.Compiler()
    # Janino looks classes up in the running JVM, wherever Spark's jars are, but not where compiled classes of the same sources have been added.
    loader = context_loader(jvm)
    if takes_folders(jvm, loader):
        loader = loader.getParent()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setSourceVersion(BYTECODE_VERSION)
    compiler.setTargetVersion(BYTECODE_VERSION)
    compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
    compiler.compile(java_files)
    for class_path in FORMATS.values():
        target = folder / FORMATS_FOLDER / f"{class_path}.class"
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{class_path}.class").rename(target)
    service = folder / SERVICES_FOLDER / _SERVICE_FILE
    service.parent.mkdir(parents=True)
    service.write_text(f"{ICEBERG_SOURCE}\n", "utf-8")
    with zipfile.ZipFile(folder / EXECUTOR_JAR, "w") as jar:
        for name in FOR_EXECUTORS:
            for file in sorted((folder / "icefloe").glob(f"{name}*.class")):  # and its nested classes
                jar.write(file, f"icefloe/{file.name}")


def _parser_methods(jvm: Any) -> str:
    """Generate Java source for all methods of this Spark's parser interface. Each method passes its call on to the field `parser`."""
    methods = {}
    for method in jvm.java.lang.Class.forName(_PARSER_INTERFACE).getMethods():
        if method.getModifiers() & _STATIC or method.isBridge():
            continue
        types = [parameter.getCanonicalName() for parameter in method.getParameterTypes()]
        parameters = ", ".join(f"{kind} a{index}" for index, kind in enumerate(types))
        classes, arguments = ", ".join(f"{kind}.class" for kind in types), ", ".join(f"a{index}" for index in range(len(types)))
        result = method.getReturnType().getCanonicalName()
        call = f'({result}) parser.call("{method.getName()}", new Class[] {{{classes}}}, new Object[] {{{arguments}}})'
        methods[method.getName(), *types] = f"  public {result} {method.getName()}({parameters}) {{\n    return {call};\n  }}"
    return "\n\n".join(methods.values())


def _node_constructor(jvm: Any, name: str, node: str) -> str:
    """Generate Java source for the constructor of a class that passes all its arguments to a node of this Spark's plans, by which Spark copies the node."""
    constructor = jvm.java.lang.Class.forName(f"{_NODES_PACKAGE}.{node}").getConstructors()[0]
    types = [parameter.getCanonicalName() for parameter in constructor.getParameterTypes()]
    parameters = ", ".join(f"{kind} a{index}" for index, kind in enumerate(types))
    return f"  public {name}({parameters}) {{\n    super({', '.join(f'a{index}' for index in range(len(types)))});\n  }}"


def context_loader(jvm: Any) -> Any:
    """Return the context class loader of the JVM thread that runs the call."""
    # By its full name: if looked up member by member, Spark would search its jars for a class with the name of each package.
    return getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()


def takes_folders(jvm: Any, loader: Any) -> bool:
    """Return whether a class loader is Spark's `MutableURLClassLoader`, to which folders can be added."""
    return bool(jvm.java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader").isInstance(loader))
