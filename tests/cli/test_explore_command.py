"""`icefloe explore`: one file without a server, and a server until Ctrl-C."""

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Command


def test_the_page_of_a_table_is_written_as_one_file(icefloe: Command, warehouse: Path, tmp_path: Path) -> None:
    result = icefloe("explore", "demo.events", "--warehouse", warehouse, "--html", tmp_path / "out.html", "--where", "id < 5")
    assert result.exit_code == 0, result.output
    content = (tmp_path / "out.html").read_text()
    assert "The scan opens" in content
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


def test_the_file_needs_no_package_of_the_extra(warehouse: Path, tmp_path: Path) -> None:
    words = ["icefloe", "explore", "demo.events", "--warehouse", str(warehouse)]
    script = (
        "import sys\n"
        "sys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
        "from icefloe.cli.main import main\n"
        f"sys.argv = {[*words, '--html', str(tmp_path / 'a.html')]!r}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"sys.argv = {words!r}\n"
        "main()\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "<html" in (tmp_path / "a.html").read_text()
    assert run.returncode == 1
    assert "icefloe[explore]" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["demo.nothing", "--html", "a.html"], "demo.nothing"),
        (["--html", "a.html"], "name a table"),
        (["demo.events", "--html", "nowhere/a.html"], "cannot write"),
        (["demo.events", "--where", "id < 5"], "--html"),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(icefloe: Command, warehouse: Path, arguments: list[str], reason: str) -> None:
    result = icefloe("explore", *arguments, "--warehouse", warehouse)
    assert result.exit_code == 1
    assert reason in result.output


@contextmanager
def serving(warehouse: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Run the command, which a failed test does not leave behind."""
    command = [str(Path(sys.executable).with_name("icefloe")), "explore", *words, "--warehouse", str(warehouse)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_server_prints_its_address_serves_with_the_token_only_keeps_its_port_and_ends_by_ctrl_c(warehouse: Path) -> None:
    with serving(warehouse, "demo.events") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        port = address.rpartition(":")[2].partition("/")[0]
        with serving(warehouse, "demo.events", "--port", port) as second:
            _, errors = second.communicate(timeout=120)
            assert second.returncode == 1
        assert f"port {port}" in errors, "a port that is taken is an error"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=120) as response:
            assert b"demo.events" in response.read()
            assert "server" not in {name.lower() for name in response.headers}
        without = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            without.open(address.partition("?")[0], timeout=60)
        refused.value.close()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert address.partition("token=")[2] not in output + errors
