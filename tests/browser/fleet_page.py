"""Opens the page of a fleet in headless Chromium and uses it: sorting, filter, links to reports, light and dark.

    python3 tests/browser/fleet_page.py OUT/index.html [FOLDER FOR SCREENSHOTS]

Needs `chromedriver` and `chromium` on the PATH, nothing else. Exit status 1 and a message when something is wrong.
"""

import decimal
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from report_page import Browser, check, look  # noqa: E402

COLUMN = """
const panel = document.getElementById(arguments_.panel), heads = [...panel.querySelectorAll('th button')];
const at = heads.findIndex((head) => head.textContent === arguments_.column);
for (let k = 0; k < arguments_.clicks; k += 1) heads[at].click();
return [...panel.querySelectorAll('tbody tr')].map((row) => row.children[at].textContent);
"""
FILTER = """
const input = document.querySelector('#dumps input');
input.value = arguments_.text;
input.dispatchEvent(new Event('input'));
const rows = [...document.querySelectorAll('#dumps tbody tr')].map((row) => row.children[0].textContent);
input.value = '';
input.dispatchEvent(new Event('input'));
return rows;
"""


def size(count):
    """Bytes as the page writes them; JavaScript rounds halves up."""
    units, unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 0
    while count >= 1024 and unit < len(units) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{decimal.Decimal(count).quantize(decimal.Decimal('0.01'), decimal.ROUND_HALF_UP)} {units[unit]}"


def column(browser, panel, name, clicks):
    return browser.run(f"const arguments_ = {json.dumps({'panel': panel, 'column': name, 'clicks': clicks})};{COLUMN}")


def tables(browser, data):
    """Rows and columns are those of the data, in the order that a click asks for."""
    dumps = data["dumps"]
    check(len(column(browser, "dumps", "dump", 0)) == len(dumps), "one row for each dump")
    peaks = [row["peak_bytes"] for row in dumps if row["peak_bytes"] is not None]
    broken = [""] * (len(dumps) - len(peaks))
    check(column(browser, "dumps", "peak", 1) == [size(peak) for peak in sorted(peaks, reverse=True)] + broken, "the largest peak first, broken dumps last")
    check(column(browser, "dumps", "peak", 1) == [size(peak) for peak in sorted(peaks)] + broken, "the smallest first after a second click")
    names = column(browser, "dumps", "dump", 1)
    check(names == sorted(row["name"] for row in dumps), "names in order")
    lines = column(browser, "owners", "holds at the peaks", 0)
    check(lines == [size(row["bytes"]) for row in data["owners"]], "one row for each source line")
    check(("changes" in data) == browser.run("return document.getElementById('changes') !== null"), "the changes are there if there is a baseline")
    wanted = dumps[-1]["name"]
    shown = browser.run(f"const arguments_ = {json.dumps({'text': wanted})};{FILTER}")
    check(wanted in shown and all(wanted.lower() in name.lower() for name in shown), "the filter leaves what has the text")


def links(browser, page, data):
    """Each dump that was read leads to its report, which draws itself."""
    found = browser.run("return [...document.querySelectorAll('#dumps a')].map((link) => link.getAttribute('href'))")
    check(len(found) == sum(row["status"] != "error" for row in data["dumps"]), "a link for each dump that was read")
    for target in found:
        check((page.parent / target).is_file(), f"{target} is there")
    browser.run("document.querySelector('#dumps a').click()")
    check(browser.run("return document.querySelectorAll('svg.chart').length") > 0, "the report behind the link draws itself")
    check(browser.errors() == [], "nothing complains in the report")


def use(page, dark, shots):
    browser = Browser(dark)
    try:
        browser.open(page)
        data = json.loads(browser.run("return document.getElementById('data').textContent"))
        tables(browser, data)
        light = sum(int(part) for part in browser.run("return getComputedStyle(document.body).backgroundColor")[4:-1].split(",")) > 384
        check(light != dark, "light and dark follow the reader's setting")
        check(browser.run("return document.scripts.length") == 2, "no element of a dump's making")
        check(browser.run("return document.documentElement.scrollWidth <= innerWidth"), "the page is as wide as the window")
        check(browser.errors() == [], f"the browser complains: {browser.errors()}")
        if shots:
            browser.screenshot(shots / f"fleet-{'dark' if dark else 'light'}.png")
        links(browser, page, data)
    finally:
        browser.close()


if __name__ == "__main__":
    look(use, "sorting, filter, links, light and dark")
