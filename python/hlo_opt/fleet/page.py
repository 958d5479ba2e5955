"""The page of a fleet: one file that needs no network, whose tables are built by its script from the data in it."""
from __future__ import annotations

import json
from importlib import resources


def html(data: str) -> str:
    """The page of a table in JSON. Nothing in the data becomes markup: outside of strings JSON has no `<`, and inside it is written as an escape."""
    style, script = (resources.files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    data = json.dumps(json.loads(data), separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Memory of a fleet</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        "<noscript>This page draws itself with a script that is part of it.</noscript>\n"
        f'<script type="application/json" id="data">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n')
