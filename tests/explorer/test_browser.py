"""The pages in a browser: no error on the console, no serious fault of accessibility, usable by keyboard, in light and dark, and without scripts;
and what they look like.

The browser is the system's Chromium (Debian: chromium); axe-core is fetched by `scripts/fetch_axe.py`.
"""

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.explorer.pictures import FOLDER, Pictures

from icefloe.explorer import html_page
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


@pytest.fixture(scope="module")
def pictures(browser: Any) -> Iterator[Pictures]:
    page = browser.new_page()
    yield Pictures(page)
    page.close()


def drawn(browser: Any, address: str, scheme: str = "light") -> bytes:
    """Return a picture of the window with a page."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1240, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    complete(page, address)
    picture: bytes = page.screenshot()
    context.close()
    return picture


@pytest.mark.parametrize(
    ("section", "scheme"), [*((section.name, "light") for section in SECTIONS if section.name != "contents"), ("overview", "dark")]
)
def test_a_page_looks_like_its_reference_picture(browser: Any, pictures: Pictures, address: str, section: str, scheme: str) -> None:
    """Pictures that are meant to change are drawn again with ICEFLOE_DRAW_PICTURES=1 in the environment, and looked at."""
    width, reference = FOLDER / "font-width.txt", FOLDER / f"{section}-{scheme}.png"
    small = pictures.small(drawn(browser, f"{address}/{section}{QUERIES.get(section, '')}", scheme))
    if os.environ.get("ICEFLOE_DRAW_PICTURES"):
        FOLDER.mkdir(exist_ok=True)
        reference.write_bytes(small)
        width.write_text(f"{pictures.font_width():.2f}\n")
    if abs(float(width.read_text()) - pictures.font_width()) > 0.5:
        pytest.skip(
            f"the pictures were drawn with another font: the sample is {width.read_text().strip()} wide, here {pictures.font_width():.2f}"
        )
    found = pictures.difference(small, reference.read_bytes())
    assert found.is_small, found


def test_the_comparison_of_pictures_sees_another_page_and_another_scheme(browser: Any, pictures: Pictures, address: str) -> None:
    overview, dark, sizes = (
        pictures.small(drawn(browser, f"{address}/{section}", scheme))
        for section, scheme in (("overview", "light"), ("overview", "dark"), ("files", "light"))
    )
    assert pictures.difference(overview, overview).is_small
    assert not pictures.difference(overview, dark).is_small
    assert not pictures.difference(overview, sizes).is_small


def test_the_figures_of_the_file_without_a_server_look_like_those_of_the_served_pages(
    browser: Any, pictures: Pictures, address: str, orders: Table, tmp_path: Path
) -> None:
    """Both are drawn in this run, with the same fonts: style sheet and policy of the file leave no figure out."""
    target = tmp_path / "orders.html"
    target.write_text(standalone(orders, time.time_ns() // 1_000_000, typed="shop.orders", where="id < 1000"))
    context = browser.new_context(viewport={"width": 1240, "height": 900}, reduced_motion="reduce")
    file, page = context.new_page(), context.new_page()
    file.goto(target.as_uri())
    for section in ("overview", "files", "partitions", "clustering"):
        complete(page, f"{address}/{section}")
        one, other = (place.locator("svg:not([aria-hidden])").first for place in (page.locator("main"), file.locator(f"#{section}")))
        found = pictures.difference(pictures.small(one.screenshot()), pictures.small(other.screenshot()))
        assert found.is_small, (section, found)
    context.close()


def test_the_page_shows_itself_in_a_frame_of_a_notebook(browser: Any, orders: Table, tmp_path: Path) -> None:
    target = tmp_path / "notebook.html"
    target.write_text(f"<!doctype html><title>notebook</title>{html_page(orders)._repr_html_()}")
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.goto(target.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("figure svg").first.wait_for(timeout=60_000)
    frame.get_by_role("link", name="Checks").first.click()
    page.wait_for_function("document.querySelector('iframe').contentWindow !== null")
    assert frame.locator("#checks").is_visible()
    assert frame.locator("body").evaluate("() => location.href") == "about:srcdoc#checks"
    assert errors == []
    page.close()


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
