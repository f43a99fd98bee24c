"""Accelerators: plugins of Spark that run parts of a plan by native code.

`bridge/java/Accelerator.java` lists them, and decides in every plan which scans they can read.
"""

import logging
from dataclasses import dataclass

from pyspark.sql import SparkSession

from icefloe.operations.warnings_once import is_repeated
from icefloe.spark.bridge.gateway import has_accelerator, static_method

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The accelerator of a session.

    Attributes:
        name: Its name, such as Comet.
        obstacle: Why it cannot read Icefloe's scans; None if it can.
        advice: A setting with which it accelerates more; None if there is none.
    """

    name: str
    obstacle: str | None
    advice: str | None

    def __str__(self) -> str:
        return f"{self.name} " + (
            "reads files without deletes" if self.obstacle is None else f"does not read Icefloe's files: {self.obstacle}"
        )


def accelerator_of(spark: SparkSession) -> Accelerator | None:
    """Return the accelerator of a classic session; None if it has none, or has turned it off. Raises the errors of `static_method`."""
    name, obstacle, advice = static_method(spark, "Accelerator", "report", spark._jsparkSession)
    return None if name is None else Accelerator(name=name, obstacle=obstacle, advice=advice)


def log_accelerator(spark: SparkSession) -> None:
    """Log the accelerator of a session, once for each application: as a warning if it cannot read Icefloe's scans."""
    accelerator = accelerator_of(spark) if has_accelerator(spark) else None
    if accelerator is None or is_repeated(spark.sparkContext.applicationId, str(accelerator)):
        return
    advice = "" if accelerator.advice is None else f"; {accelerator.advice}"
    LOG.log(logging.INFO if accelerator.obstacle is None else logging.WARNING, "%s%s", accelerator, advice)
