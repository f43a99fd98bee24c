"""`install_rule`: add `bridge/java/SparkRule.java` and `SubqueryScans.java` to a session's optimizer, with the settings that its scans need."""

from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.bridge.accelerators import log_accelerator
from icefloe.spark.bridge.gateway import java_class, new_object, static_method
from icefloe.spark.runtime.start_session import NEEDED_CONF


def install_rule(spark: SparkSession) -> None:
    """Add the rules to a session's optimizer, the first after other additional rules, and set the settings. Further calls do not add the rules again."""
    for setting, value in NEEDED_CONF.items():
        spark.conf.set(setting, value)
    static_method(spark, "FileScanStrategy", "install", spark._jsparkSession)
    static_method(spark, "SubqueryScans", "install", spark._jsparkSession)
    log_accelerator(spark)
    experimental = spark._jsparkSession.experimental()
    rules: Any = java_class(spark, "java.util.ArrayList")()
    present = experimental.extraOptimizations()
    for index in range(present.size()):
        rules.add(present.apply(index))
    if any(rules.get(index).getClass().getName() == "icefloe.SparkRule" for index in range(rules.size())):
        return
    rules.add(new_object(spark, "SparkRule"))
    getattr(experimental, "extraOptimizations_$eq")(java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(rules))
