"""The pages in a browser: no error on the console, no serious fault of accessibility, usable by keyboard, in light and dark, and without scripts.

The browser is the system's Chromium (Debian: chromium); axe-core is fetched by `scripts/fetch_axe.py`.
"""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from icefloe.explorer.page import SECTIONS
from icefloe.explorer.server import OneTable, application
from icefloe.explorer.standalone import standalone
from icefloe.table import Table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(__file__).parents[2] / ".setup" / "axe.min.js"
SERIOUS = ("serious", "critical")
QUERIES = {"query": "?where=id+%3C+1000+AND+day+%3D+%272026-11-07%27", "contents": "?kind=file&manifest=2&entry=1"}

pytestmark = [pytest.mark.browser, pytest.mark.slow]
if CHROMIUM is None:
    pytestmark.append(pytest.mark.skip(reason="there is no Chromium on this machine: install the package chromium"))


@pytest.fixture(scope="module")
def address(orders: Table) -> Iterator[str]:
    """Serve the table with six faults, and return the address of its pages."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application(OneTable(lambda: orders), typed="shop.orders"), log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/t/{orders.full_name}"
    server.should_exit = True
    thread.join(timeout=30)
    listening.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def complete(page: Any, address: str) -> None:
    """Open a page, and wait until it no longer loads itself again."""
    page.goto(address, timeout=120_000)
    is_complete = (
        "document.readyState === 'complete' && document.querySelector('main') !== null && document.querySelector('.waiting') === null"
    )
    for _ in range(120):
        try:
            if page.evaluate(is_complete):
                return
        except Exception as error:  # the page was loaded again meanwhile, for which the driver has no class
            if "navigation" not in str(error):
                raise
        time.sleep(1)
    pytest.fail(f"{address} never was complete")


def faults_of(page: Any) -> list[str]:
    """Return the serious faults of accessibility of a page."""
    if not AXE.exists():
        pytest.skip("axe-core is not there: run scripts/fetch_axe.py")
    # A page's policy runs no other script, so that axe-core runs in a world of its own.
    session = page.context.new_cdp_session(page)
    tree = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    world = session.send("Page.createIsolatedWorld", {"frameId": tree, "worldName": "axe"})["executionContextId"]
    session.send("Runtime.evaluate", {"expression": AXE.read_text(), "contextId": world})
    script = (
        "axe.run(document).then(found => found.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))]))"
    )
    result = session.send("Runtime.evaluate", {"expression": script, "contextId": world, "awaitPromise": True, "returnByValue": True})
    return [f"{impact}: {rule}: {nodes}" for impact, rule, nodes in result["result"]["value"] if impact in SERIOUS]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("section", [section.name for section in SECTIONS])
def test_a_page_has_no_error_on_the_console_and_no_serious_fault_of_accessibility(
    browser: Any, address: str, section: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1240, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    complete(page, f"{address}/{section}{QUERIES.get(section, '')}")
    assert errors == []
    assert faults_of(page) == []
    # Nothing is wider than the window, except in boxes that scroll.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


def test_the_blocks_of_the_hierarchy_are_reached_by_keyboard_and_lead_below(browser: Any, address: str) -> None:
    page = browser.new_page()
    complete(page, f"{address}/overview")
    blocks = page.locator("svg.blocks a")
    blocks.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement === document.querySelectorAll('svg.blocks a')[1]")
    page.locator("svg.blocks a[href*='manifests=2-2']").first.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "manifests=2-2" in page.url
    page.close()


def test_a_command_is_copied_by_its_button(browser: Any, address: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    complete(page, f"{address}/checks")
    button = page.locator("button.copy").first
    button.click()
    page.wait_for_function("document.querySelector('button.copy').textContent !== 'copy'")
    assert page.evaluate("navigator.clipboard.readText()") == button.get_attribute("data-copy")
    context.close()


def test_a_query_is_traced_without_scripts(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    complete(page, f"{address}/query")
    page.get_by_label("WHERE").fill("id < 0")
    page.get_by_role("button", name="Trace").click()
    page.locator("figcaption", has_text="reads 0 of 85 data files").wait_for(timeout=60_000)
    context.close()


def test_the_file_without_a_server_runs_under_its_own_policy(browser: Any, orders: Table, tmp_path: Path) -> None:
    target = tmp_path / "orders.html"
    target.write_text(standalone(orders, time.time_ns() // 1_000_000, typed="shop.orders", where="id < 1000"))
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(target.as_uri())
    assert page.locator("button.copy").first.is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.panel')).borderRadius") != "0px"
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert faults_of(page) == []
    page.close()
