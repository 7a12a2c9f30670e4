"""The page for everyone: axe finds nothing, the keyboard reaches all, nothing overflows a small screen."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.serving import Server
from tests.web_demo.browsing import Visit
from tests.web_demo.packages import installed

pytestmark = pytest.mark.browser

MODES = ["You type", "A model writes", "Several at once"]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 320, "height": 640}


def violations(page: Page) -> list[str]:
    page.evaluate((installed() / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{v['id']}: {n['target']} {n['failureSummary']}" for v in found["violations"] for n in v["nodes"]
    ]


def choose(page: Page, mode: str) -> None:
    page.get_by_role("radio", name=mode).check(force=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_in_any_mode(
    opened: Callable[..., Visit], server: Server, scheme: str, size: dict[str, int]
) -> None:
    seen = opened(server.url, color_scheme=scheme, viewport=size)
    page = seen.page
    page.get_by_label("Text to speak").press_sequentially("Some words are here. And more of them follow.")
    seen.wait("document.querySelector('#mirror .speaking') !== null")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#heard")).not_to_be_empty()
    assert violations(page) == []
    for mode in MODES:
        choose(page, mode)
        for details in page.locator("details:visible").all():
            details.locator("summary").click()
        assert violations(page) == []
    page.get_by_role("button", name="Let them speak").click()
    expect(page.locator(".card")).to_have_count(4)
    assert violations(page) == []


def test_axe_finds_nothing_in_a_notice_or_the_key_form(at_page: Visit) -> None:
    at_page.page.evaluate(
        """() => {
          document.getElementById("notice-title").textContent = "Every place is taken.";
          document.getElementById("notice").hidden = false;
          document.getElementById("key-form").hidden = false;
        }"""
    )
    assert violations(at_page.page) == []


@pytest.mark.parametrize("mode", MODES)
def test_nothing_overflows_the_narrowest_phone(
    opened: Callable[..., Visit], server: Server, mode: str
) -> None:
    page = opened(server.url, viewport=PHONE).page
    choose(page, mode)
    page.get_by_label("Text to speak").evaluate("box => box.value = 'x'.repeat(90)")
    widest: Any = page.evaluate("document.documentElement.scrollWidth")
    assert widest <= PHONE["width"]


def test_the_keyboard_alone_reaches_and_works_everything(at_page: Visit) -> None:
    page = at_page.page
    expect(page.get_by_label("Text to speak")).to_be_focused()
    page.keyboard.type("Hello there. ")
    at_page.wait("document.getElementById('stop').disabled === false")
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"stop", "again", "voice", "engine", "speed"} <= reached
    page.get_by_role("radio", name="You type").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Let it answer")).to_be_visible()


def test_a_screen_reader_is_told_of_states_and_not_of_every_word(at_page: Visit) -> None:
    page = at_page.page
    page.evaluate(
        """() => {
          globalThis.told = [];
          const live = document.querySelectorAll("[role=status], [role=alert], [aria-live]");
          for (const region of live) {
            const all = { subtree: true, childList: true, characterData: true };
            new MutationObserver(() => told.push(region.id)).observe(region, all);
          }
        }"""
    )
    page.get_by_label("Text to speak").press_sequentially("One two three four five six. Seven eight nine.")
    page.wait_for_timeout(2500)
    page.keyboard.press("Escape")
    expect(page.locator("#heard")).to_contain_text("Heard up to here")
    told = page.evaluate("told")
    assert told.count("connection") == 0
    # Emptied when a key is pressed, filled once at the stop.
    assert told.count("heard") <= 3


def test_reduced_motion_keeps_the_picture_still(opened: Callable[..., Visit], server: Server) -> None:
    seen = opened(server.url, reduced_motion="reduce")
    page = seen.page
    page.evaluate(
        """() => {
          globalThis.draws = 0;
          const { clearRect } = CanvasRenderingContext2D.prototype;
          CanvasRenderingContext2D.prototype.clearRect = function (...box) {
            if (this.canvas.id === "lead") globalThis.draws += 1;
            return clearRect.apply(this, box);
          };
        }"""
    )
    page.get_by_label("Text to speak").press_sequentially("One two three four five six. Seven eight nine.")
    seen.wait_for_sound()
    page.evaluate("draws = 0")
    page.wait_for_timeout(1000)
    assert page.evaluate("draws") <= 4
