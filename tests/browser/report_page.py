"""Opens an HTML report in headless Chromium and uses it: charts, zoom, hover, sorting, treemap, light and dark.

    python3 tests/browser/report_page.py REPORT.html [FOLDER FOR SCREENSHOTS]

Needs `chromedriver` and `chromium` on the PATH, nothing else; talks WebDriver over HTTP. Exit status 1 and a message when something is wrong.
"""

import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--window-size=1500,1900"]


class Browser:
    """One WebDriver session."""

    def __init__(self, dark: bool) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        options = {"args": [*FLAGS, scheme, f"--user-data-dir={self.profile.name}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        for _ in range(100):
            try:
                answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise SystemExit("chromedriver does not answer")
        self.session = f"/session/{answer['sessionId']}"

    def call(self, method: str, path: str, body: object = None) -> object:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)["value"]

    def open(self, page: pathlib.Path) -> None:
        self.call("POST", self.session + "/url", {"url": page.resolve().as_uri()})

    def run(self, script: str) -> object:
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": []})

    def errors(self) -> list:
        entries = self.call("POST", self.session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def screenshot(self, path: pathlib.Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def close(self) -> None:
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.profile.cleanup()


def check(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"WRONG: {message}")


POINTER = """
const svg = document.querySelector('svg.chart'), box = svg.getBoundingClientRect();
svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width * 0.6, clientY: box.top + 40, bubbles: true}));
return document.getElementById('tip').textContent;
"""
ZOOM = """
const svg = document.querySelector('svg.chart'), path = () => svg.querySelector('.area').getAttribute('d');
const whole = path(), box = svg.getBoundingClientRect();
svg.dispatchEvent(new WheelEvent('wheel', {deltaY: -1, clientX: box.left + box.width / 2, bubbles: true, cancelable: true}));
const near = path();
svg.dispatchEvent(new MouseEvent('dblclick', {bubbles: true}));
return [whole !== near, whole === path()];
"""
SORT = """
const table = [...document.querySelectorAll('table')][0];
const column = (k) => [...table.querySelectorAll('tbody tr')].map((row) => row.children[k].textContent);
const head = [...table.querySelectorAll('th button')], at = head.findIndex((cell) => cell.textContent === 'instruction');
head[at].click();
const names = column(at);
return names.every((name, k) => k === 0 || !(name < names[k - 1]));
"""


def use(page: pathlib.Path, dark: bool, shots: pathlib.Path | None) -> None:
    browser = Browser(dark)
    try:
        browser.open(page)
        data = json.loads(browser.run("return document.getElementById('data').textContent"))
        sides = 2 if data["rewrites"] else 1
        count = lambda what: browser.run(f"return document.querySelectorAll('{what}').length")
        check(count("svg.chart") == sides, "one chart for each side")
        check(count("svg.treemap") == sides, "one treemap for each side")
        check(count("svg.treemap .tile") >= sides, "tiles in the treemaps")
        rows = browser.run("return document.querySelectorAll('table')[0].querySelectorAll('tbody tr').length")
        check(rows == len(data["before"]["details"]["holders"]), "one row for each buffer")
        check(browser.run("return document.querySelector('h1').textContent") == data["module"], "the module's name as text")
        check("step" in browser.run(POINTER), "hovering says what runs")
        check(browser.run(ZOOM) == [True, True], "the wheel zooms and a double click goes back")
        check(browser.run(SORT) is True, "a click on a heading sorts")
        paper = browser.run("return getComputedStyle(document.body).backgroundColor")
        light = sum(int(part) for part in paper[4:-1].split(",")) > 384
        check(light != dark, f"{'dark' if dark else 'light'} mode paints on {paper}")
        scripts = browser.run("return document.scripts.length")
        check(scripts == 2, "no element of the module's making")
        check(browser.errors() == [], f"the browser complains: {browser.errors()}")
        wide = browser.run("return document.documentElement.scrollWidth <= innerWidth")
        check(wide, "the page is as wide as the window")
        if shots:
            browser.screenshot(shots / f"{page.stem}-{'dark' if dark else 'light'}.png")
    finally:
        browser.close()


def look(use, seen: str) -> None:
    """Opens the page of the command line in light and in dark mode, for the screenshots of a folder if one is named."""
    page = pathlib.Path(sys.argv[1])
    shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if shots:
        os.makedirs(shots, exist_ok=True)
    for dark in (False, True):
        use(page, dark, shots)
    print(f"{page}: {seen} are right")


if __name__ == "__main__":
    look(use, "charts, zoom, hover, sorting, treemap, light and dark")
