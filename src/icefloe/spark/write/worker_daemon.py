"""The process that forks Spark's Python workers in a local session of Icefloe: PySpark's daemon, but with the modules for tasks already imported.

With PySpark's own daemon each worker imports these modules in its first task, which takes longer than writing a few rows, and Spark ends workers that are idle
for a minute. After each task a worker collects garbage. Among all objects of these modules that takes as long as planning 20,000 files, so that these objects
are excluded here.
"""

import gc

from pyarrow import parquet  # noqa: F401  importing the modules of tasks is all that is needed
from pyspark import worker  # noqa: F401  as above
from pyspark.daemon import manager

from icefloe.spark.scan import change_tasks, metadata_table_job, scan_plans  # noqa: F401  as above
from icefloe.spark.write import data_file_job  # noqa: F401  as above

if __name__ == "__main__":
    gc.freeze()
    manager()
