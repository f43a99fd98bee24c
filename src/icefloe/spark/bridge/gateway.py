"""Access to the JVM of a Spark session through PySpark's Py4J gateway: its classes, and Icefloe's classes, objects and static methods.

`java_compiler.py` compiles Icefloe's classes, which are loaded once per JVM. Executors receive only the classes that tasks need.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from icefloe.errors import EngineError, Problem
from icefloe.spark.bridge.class_cache import UnsafeCacheError, check_sealed
from icefloe.spark.bridge.java_compiler import (
    EXECUTOR_JAR,
    FORMATS_FOLDER,
    ICEBERG_SOURCE,
    SERVICES_FOLDER,
    compiled_folder,
    context_loader,
    takes_folders,
)
from icefloe.spark.runtime.spark_versions import WITHOUT_JAVA_CLASSES, check_version, is_proven, proven_text
from icefloe.spark.runtime.start_session import WITHOUT_JVM

LOG = logging.getLogger(__name__)

# The setting with Spark's session extensions, and the extension that adds Icefloe's parser.
EXTENSIONS, EXTENSION_CLASS = "spark.sql.extensions", "icefloe.SparkExtensions"
# Attributes of the gateway that store objects of its JVM.
_CLASSES_ATTRIBUTE = "_icefloe_java_classes"
_SHIPPED_ATTRIBUTE = "_icefloe_jar_shipped"
_LOADER_ATTRIBUTE = "_icefloe_class_loader"
_CONSTRUCTORS_ATTRIBUTE = "_icefloe_constructors"
_METHODS_ATTRIBUTE = "_icefloe_static_methods"
_FORMATS_ATTRIBUTE = "_icefloe_formats"
_FOLDER_ATTRIBUTE = "_icefloe_class_folder"
# Whether an application has an accelerator. A call to the JVM for each scan would be felt.
_ACCELERATED: WeakKeyDictionary[SparkContext, bool] = WeakKeyDictionary()
NO_JVM = "this session is one of Spark Connect, or has no JVM in this process for another reason; SQL on attached catalogs, UPDATE and MERGE need it"


def gateway_of(spark: SparkSession) -> Any:
    """Return the Py4J gateway of a classic session.

    Raises:
        EngineError: This process has no JVM, for example with Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        raise EngineError(NO_JVM, next_step=WITHOUT_JVM)
    return gateway


def has_jvm(spark: SparkSession) -> bool:
    """Return True for a classic session, whose JVM this process can call, and False for a session of Spark Connect."""
    try:
        gateway_of(spark)
    except EngineError:
        return False
    return True


def jvm_of(spark: SparkSession) -> Any:
    """Return Py4J's view of the JVM's packages and classes. Raises the error of `gateway_of`."""
    return gateway_of(spark).jvm


def java_class(spark: SparkSession, path: str) -> Any:
    """Return a Java class by its full name. Raises the error of `gateway_of`."""
    return class_behind(gateway_of(spark), path)


def class_behind(gateway: Any, path: str) -> Any:
    """Return a Java class by its full name, like `java_class`, for a gateway that need not have a session. A class is looked up once per JVM."""
    # A gateway returns a Java package for any unknown attribute, so that only its own dictionary is read.
    classes = gateway.__dict__.setdefault(_CLASSES_ATTRIBUTE, {})
    if path not in classes:
        # By its full name: if looked up member by member, Spark would search its jars for a class with the name of each package.
        classes[path] = getattr(gateway.jvm, path)
    return classes[path]


def java_array(spark: SparkSession, path: str, members: Sequence[Any]) -> Any:
    """Create a Java array with these members; `path` is the full name of their class. Raises the error of `gateway_of`."""
    return array_behind(gateway_of(spark), path, members)


def array_behind(gateway: Any, path: str, members: Sequence[Any]) -> Any:
    """Create a Java array, like `java_array`, for a gateway that need not have a session."""
    array = gateway.new_array(class_behind(gateway, path), len(members))
    for index, member in enumerate(members):
        array[index] = member
    return array


def scala_object(spark: SparkSession, path: str) -> Any:
    """Return a Scala `object` by its class path: `scala.None` for `scala.None$.MODULE$`. Raises the error of `gateway_of`."""
    return getattr(java_class(spark, f"{path}$"), "MODULE$")


def java_message(error: Py4JError) -> str:
    """Return the first line of a Java exception's text, without the stack."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.toString() if java_exception is not None else error)
    return text.splitlines()[0] if text else type(error).__name__


def new_object(spark: SparkSession, class_name: str, *arguments: Any) -> Any:
    """Create an object of one of Icefloe's Java classes (`SOURCES` in `java_compiler.py`), which have a single constructor.

    Raises:
        EngineError: The sources do not compile on this Spark, or it is too old.
    """
    gateway = gateway_of(spark)
    # Each look-up is a call to the JVM, and a query creates two objects.
    constructors = gateway.__dict__.setdefault(_CONSTRUCTORS_ATTRIBUTE, {})
    if class_name not in constructors:
        constructors[class_name] = class_loader(spark).loadClass(f"icefloe.{class_name}").getConstructors()[0]
    return constructors[class_name].newInstance(_object_array(gateway, arguments))


def static_method(spark: SparkSession, class_name: str, method_name: str, *arguments: Any) -> Any:
    """Call a static method of one of Icefloe's Java classes. Java receives a Python object among the arguments as a `BiFunction`.

    Raises:
        EngineError: The sources do not compile on this Spark, or it is too old.
    """
    gateway = gateway_of(spark)
    methods = gateway.__dict__.setdefault(_METHODS_ATTRIBUTE, {})
    if (class_name, method_name) not in methods:
        of_class = class_loader(spark).loadClass(f"icefloe.{class_name}").getMethods()
        methods[class_name, method_name] = next(method for method in of_class if method.getName() == method_name)
    return methods[class_name, method_name].invoke(None, _object_array(gateway, arguments))


def _object_array(gateway: Any, members: Sequence[Any]) -> Any:
    """Create an `Object[]` from values, which Py4J converts as arguments of `add`; setting array members would take twice as many calls to the JVM."""
    holder = class_behind(gateway, "java.util.ArrayList")()
    for member in members:
        holder.add(member)
    return holder.toArray()


def class_loader(spark: SparkSession) -> Any:
    """Return the Java class loader that has Icefloe's compiled classes. It is created once per JVM.

    Raises:
        EngineError: The sources do not compile on this Spark, or it is too old.
    """
    return loader_of(gateway_of(spark), spark.version)


def loader_of(gateway: Any, spark_version: str) -> Any:
    """Return the class loader of `class_loader`, for a gateway that need not have a session yet. Raises the error of `class_loader`."""
    # A gateway returns a Java package for any unknown attribute, so that only its own dictionary can be trusted.
    loader = gateway.__dict__.get(_LOADER_ATTRIBUTE)
    if loader is None:
        check_version(spark_version)  # PySpark may be newer than the Spark that it has started
        folder = class_folder(gateway, spark_version)
        loader = _load_from(gateway, folder)
        gateway.__dict__.update({_LOADER_ATTRIBUTE: loader, _FOLDER_ATTRIBUTE: folder})
    return loader


def extension_settings(gateway: Any, extensions: str) -> dict[str, str]:
    """Return the settings that add Icefloe's parser to a session which is about to start.

    Spark reads `spark.sql.extensions` only when the session starts, and looks the class up by its name. So the sources are compiled, or found in the cache, and
    their folder is added to the driver's class loader, between the start of the JVM and the start of the session.

    Args:
        gateway: The gateway of a JVM without a session.
        extensions: The user's value of `spark.sql.extensions`, which is kept in the result; empty if not set.

    Returns:
        A dict with the setting; empty if the classes cannot be found by name or do not compile, which `attach` reports later.
    """
    if not takes_folders(gateway.jvm, context_loader(gateway.jvm)):
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
    """Make the data sources `icefloe` and, without Java's Iceberg, `iceberg` available by name in every session; further calls change nothing."""
    gateway = gateway_of(spark)
    loader = class_loader(spark)
    if _FORMATS_ATTRIBUTE in gateway.__dict__ or not takes_folders(gateway.jvm, loader):
        return
    folder = gateway.__dict__[_FOLDER_ATTRIBUTE]
    loader.addURL(class_behind(gateway, "java.io.File")(f"{folder}/{FORMATS_FOLDER}/").toURI().toURL())
    # Spark refuses a name that two data sources register, so that `iceberg` is registered only if Java's Iceberg is absent.
    conf = spark._jsparkSession.sessionState().conf()
    try:
        provider = (
            class_behind(gateway, "org.apache.spark.sql.execution.datasources.DataSource").lookupDataSource("iceberg", conf).getName()
        )
    except Py4JError as error:
        LOG.warning(
            "the format iceberg is found in lower case only, because Spark cannot load a data source of another library: %s",
            java_message(error),
        )
        return
    if provider == ICEBERG_SOURCE:
        loader.addURL(class_behind(gateway, "java.io.File")(f"{folder}/{SERVICES_FOLDER}/").toURI().toURL())
    gateway.__dict__[_FORMATS_ATTRIBUTE] = True


def executors_have_classes(spark: SparkSession) -> bool:
    """Return whether Spark's tasks have the classes in `FOR_EXECUTORS`. If executors are other processes, the first call adds a jar with the classes."""
    gateway = gateway_of(spark)
    loader, context = class_loader(spark), spark._jsparkSession.sparkContext()
    shipped = gateway.__dict__.setdefault(_SHIPPED_ATTRIBUTE, {})
    application = context.applicationId()
    if application not in shipped and context.isLocal() and takes_folders(gateway.jvm, loader):
        shipped[application] = True
    if application not in shipped:
        try:
            check_sealed(gateway.__dict__[_FOLDER_ATTRIBUTE])
            context.addJar(f"{gateway.__dict__[_FOLDER_ATTRIBUTE]}/{EXECUTOR_JAR}")
            shipped[application] = True
        except UnsafeCacheError as error:
            LOG.warning("could not ship the executor jar: %s; reading files with deleted rows is slower without it", error)
            shipped[application] = False
        except Py4JError as error:
            LOG.warning("could not ship the executor jar; reading files with deleted rows is slower without it: %s", java_message(error))
            shipped[application] = False
    return bool(shipped[application])


def has_accelerator(spark: SparkSession) -> bool:
    """Return whether a classic session has an accelerator, which may be turned off at present. Raises the errors of `static_method`."""
    context = spark.sparkContext
    if context not in _ACCELERATED:  # plugins cannot be added to a running application
        _ACCELERATED[context] = bool(static_method(spark, "Accelerator", "isLoaded", spark._jsparkSession))
    return _ACCELERATED[context]


def is_accelerated_at_present(spark: SparkSession) -> bool:
    """Return whether a classic session has an accelerator that is on. Raises the errors of `static_method`."""
    return has_accelerator(spark) and bool(static_method(spark, "Accelerator", "isOn", spark._jsparkSession))


def class_folder(gateway: Any, spark_version: str) -> Path:
    """Return the folder with Icefloe's compiled classes for this version of Spark; compile them if necessary.

    Raises:
        EngineError: The sources do not compile on this Spark, or other users can change every folder that could hold the classes.
    """
    try:
        return compiled_folder(gateway, spark_version)
    except Py4JError as error:
        proven = is_proven(spark_version)
        hint = "" if proven else f", which is not a version that Icefloe is proven on; those are {proven_text()}"
        raise EngineError(
            f"the Java classes of Icefloe do not compile on Spark {spark_version}{hint}",
            problems=[Problem(where="", what=java_message(error))],
            next_step=f"{'report this' if proven else 'use a proven version'}; {WITHOUT_JAVA_CLASSES}",
        ) from error


def _load_from(gateway: Any, folder: Path) -> Any:
    jvm = gateway.jvm
    url = jvm.java.io.File(f"{folder}/").toURI().toURL()
    loader = context_loader(jvm)
    if takes_folders(jvm, loader):
        # Spark looks classes up by name in the driver's own loader.
        loader.addURL(url)
        return loader
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = url
    return jvm.java.net.URLClassLoader(urls, loader)


def has_class(spark: SparkSession, class_name: str) -> bool:
    """Return True if the JVM of a classic session has a class with this name."""
    jvm = jvm_of(spark)
    try:
        jvm.java.lang.Class.forName(class_name, False, context_loader(jvm))
    except Py4JError:
        return False
    return True
