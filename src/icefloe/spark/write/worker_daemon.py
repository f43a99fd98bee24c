"""The daemon of Spark's Python workers in a local session of Icefloe: PySpark's daemon, with the modules for tasks imported before it forks workers.

With PySpark's own daemon a worker imports these modules in its first task, which takes longer than writing a few rows, and Spark ends workers that are idle for
a minute. After each task, a worker collects garbage among all objects of these modules, which takes as long as planning 20,000 files; here it skips these
objects.
"""

import gc

from pyspark import worker  # noqa: F401  importing the modules of tasks is all that is needed
from pyspark.daemon import manager

from icefloe.spark.scan import metadata_table_job, scan_plans  # noqa: F401  as above
from icefloe.spark.write import data_file_job  # noqa: F401  as above

if __name__ == "__main__":
    gc.freeze()
    manager()
