"""A preprocessor of mdBook: links that leave `docs/` lead to the repository's web address, since the book holds the pages of `docs/` only.

In the sources they are relative, so that code hosts and readers of a clone follow them. The address is that of the variables which GitHub sets in a workflow
(`GITHUB_SERVER_URL`, `GITHUB_REPOSITORY`); without these the text of a link stays, and the link goes.
"""
import json
import os
import posixpath
import re
import sys

LINK = re.compile(r"!?(\[(?P<text>[^\[\]]*)\])\((?P<target>[^)\s]+)\)|```.*?```|`[^`\n]*`", re.DOTALL)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    for item in book.get("items") or book.get("sections"):
        rewrite(item)
    json.dump(book, sys.stdout)


def rewrite(item):
    """The links of a chapter and of those below it; separators and titles of parts have none."""
    chapter = item.get("Chapter") if isinstance(item, dict) else None
    if not chapter:
        return
    page = chapter.get("source_path") or chapter.get("path") or ""
    chapter["content"] = LINK.sub(lambda link: outward(link, posixpath.dirname(page)), chapter["content"])
    for below in chapter["sub_items"]:
        rewrite(below)


def outward(link, folder):
    target = link["target"]
    if not target or "://" in target:
        return link[0]
    path = posixpath.normpath(posixpath.join("docs", folder, target))
    if path.startswith("docs/"):
        return link[0]
    address = repository()
    return f"{link[1]}({address}/blob/HEAD/{path})" if address else link["text"]


def repository():
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else ""


if __name__ == "__main__":
    main()
