"""The command line imports modules of icefloe.spark by name, when a command needs Spark."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "icefloe"


def test_every_module_that_the_command_line_imports_by_name_exists() -> None:
    names = [
        call.args[0].value
        for path in (PACKAGE / "cli").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") == "spark_module"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    ]
    assert names
    assert [name for name in names if not (PACKAGE / "spark" / f"{name.replace('.', '/')}.py").exists()] == []
