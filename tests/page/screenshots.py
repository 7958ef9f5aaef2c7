"""Takes the pictures of docs/records.md: `python -m tests.page.screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from agentcli.browser.browser import find_browser
from agentcli.sessions.export import exporter
from tests.page.long_session import long_session

DOCS = Path(__file__).parents[2] / "docs"


def picture(browser: Browser, url: str, name: str, script: str, **options: object) -> None:
    page = browser.new_page(**options)
    page.goto(url)
    page.evaluate(script)
    page.wait_for_timeout(300)
    file = DOCS / name
    page.screenshot(path=file)
    page.close()
    image = Image.open(file).convert("RGB")
    image.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(file, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text("".join(exporter("html")(long_session(3_000))))
        browser = playwright.chromium.launch(
            executable_path=find_browser(""), chromium_sandbox=False
        )
        wide = {"viewport": {"width": 1280, "height": 860}}
        phone = {"viewport": {"width": 390, "height": 844}}
        url = file.as_uri()
        picture(browser, url, "page-light.png", "", **wide)
        window = "document.querySelector('#step-430 button').click(); location.hash = 'step-430'"
        picture(browser, url, "page-window-dark.png", window, color_scheme="dark", **wide)
        picture(browser, url, "page-phone.png", "location.hash = 'step-7'", **phone)
        browser.close()


if __name__ == "__main__":
    main()
