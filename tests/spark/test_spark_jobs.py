"""Errors of Spark jobs that are not errors of Icefloe."""

import pytest
from pyspark.errors import ParseException

from icefloe.errors import EngineError
from icefloe.spark.jobs.spark_jobs import engine_error, raise_error_of


def test_the_error_names_the_workers_without_icefloe() -> None:
    error = engine_error(RuntimeError("[PYTHON_EXCEPTION] Traceback:\n  File worker.py\nModuleNotFoundError: No module named 'icefloe'\n"))
    assert "the Python of Spark's workers does not have Icefloe" in str(error)
    assert "PYSPARK_PYTHON" in (error.next_step or "")


def test_a_statement_whose_workers_lack_icefloe_ends_with_that_error_and_not_with_its_cause() -> None:
    with pytest.raises(EngineError, match="does not have Icefloe") as failed:
        raise_error_of(RuntimeError("[PYTHON_EXCEPTION] Traceback:\nModuleNotFoundError: No module named 'icefloe'"), "job")
    assert failed.value.__cause__ is None  # a cause that is Spark's is thrown in the place of the error
    with pytest.raises(EngineError) as failed:
        raise_error_of(RuntimeError("out of memory"), "job")
    assert isinstance(failed.value.__cause__, RuntimeError)


def test_any_other_error_shows_the_first_lines_of_spark() -> None:
    assert "out of memory" in str(engine_error(RuntimeError("out of memory\nat x")))


def test_a_refused_statement_is_to_be_corrected_and_no_advice_names_python() -> None:
    assert engine_error(ParseException("[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'")).next_step == "correct the statement"
    assert "__cause__" not in str(engine_error(RuntimeError("out of memory")))


def test_the_end_of_a_long_traceback_is_shown_and_no_java_stack() -> None:
    frames = "".join(f'  File "worker.py", line {line}\n    call_{line}()\n' for line in range(20))
    stack = "\n\nJVM stacktrace:\norg.apache.spark.SparkException\n\tat a.b(C.scala:1)"
    text = f"An exception was thrown\n[PYTHON_EXCEPTION] Traceback:\n{frames}ValueError: the cause{stack}"
    shown = str(engine_error(RuntimeError(text)))
    assert "[PYTHON_EXCEPTION]" in shown
    assert "ValueError: the cause" in shown
    assert "call_19" in shown
    assert "call_5()" not in shown
    assert "JVM stacktrace" not in shown
    assert "org.apache" not in shown
