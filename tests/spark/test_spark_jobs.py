"""Errors of Spark jobs that are not errors of Icefloe."""

from pyspark.errors import ParseException

from icefloe.spark.jobs.spark_jobs import engine_error


def test_the_error_names_the_workers_without_icefloe() -> None:
    error = engine_error(RuntimeError("[PYTHON_EXCEPTION] Traceback:\n  File worker.py\nModuleNotFoundError: No module named 'icefloe'\n"))
    assert "the Python of Spark's workers does not have Icefloe" in str(error)
    assert "PYSPARK_PYTHON" in (error.next_step or "")


def test_any_other_error_shows_the_first_lines_of_spark() -> None:
    assert "out of memory" in str(engine_error(RuntimeError("out of memory\nat x")))


def test_a_refused_statement_is_to_be_corrected_and_no_advice_names_python() -> None:
    assert engine_error(ParseException("[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'")).next_step == "correct the statement"
    assert "__cause__" not in str(engine_error(RuntimeError("out of memory")))
