"""Takes the manual's pictures of the page: `python -m tests.web_demo.take_screenshots`."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.serving import serving
from tests.web_demo.browsing import FLAGS

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
TEXT = "It speaks while you write. The words fill in as they are heard, and you can stop it at any"
SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1120, "height": 1000}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1120, "height": 1000}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "light",
        "is_mobile": True,
        "has_touch": True,
    },
}


def typing(page: Page) -> None:
    page.get_by_label("Text to speak").press_sequentially(TEXT, delay=45)
    page.wait_for_timeout(300)


def several(page: Page) -> None:
    page.get_by_role("radio", name="Several at once").check(force=True)
    page.get_by_role("slider", name="Voices").fill("6")
    page.get_by_role("button", name="Let them speak").click()
    page.wait_for_timeout(3500)


def take(browser: Browser, url: str, name: str, scene: Any, options: dict[str, Any]) -> None:
    page = browser.new_page(device_scale_factor=2 if name == "phone" else 1.5, **options)
    page.goto(url)
    page.wait_for_timeout(800)
    scene(page)
    page.screenshot(path=IMAGES / f"page-{name}.png")
    page.context.close()


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with serving() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        for name, options in SIZES.items():
            take(browser, server.url, name, typing, options)
        take(browser, server.url, "several", several, SIZES["desktop"])
        browser.close()


if __name__ == "__main__":
    main()
