"""What XLA has said in earlier runs: a question is its job, the texts it is about and its numbers; asked again, the answer is the one in the book.

So a build is judged on the programs of an earlier run by what it makes differently. Another version of jaxlib is another judge and has a book of its own;
errors are asked again.
"""
import hashlib
import importlib.metadata
import json
import os


class Book:
    """A file of answers, one a line, written as they come. Without a file nothing is remembered."""

    def __init__(self, file=None):
        self.file, self.known, self.found = file, {}, 0
        if file and os.path.exists(file):
            with open(file, encoding="utf-8") as lines:
                # A run that was stopped leaves half a line.
                self.known = dict(json.loads(line) for line in lines if line.endswith("]\n"))
        judge = importlib.metadata.version("jaxlib")
        if "jaxlib" not in self.known:
            self.write([("jaxlib", judge)])
        if self.known.setdefault("jaxlib", judge) != judge:
            raise SystemExit(f"{file}: holds answers of jaxlib {self.known['jaxlib']}, here is {judge}")

    def ask(self, job, items, ask):
        """`ask(job, items)`, but only for items whose answers are not known."""
        keys = [question(job, item) for item in items] if self.file else [None] * len(items)
        unknown = [place for place, key in enumerate(keys) if key not in self.known]
        fresh = dict(zip(unknown, ask(job, [items[place] for place in unknown]) if unknown else []))
        self.found += len(items) - len(unknown)
        self.write([(keys[place], answer) for place, answer in fresh.items() if "error" not in answer])
        return [fresh[place] if place in fresh else self.known[key] for place, key in enumerate(keys)]

    def write(self, answers):
        if self.file and answers:
            with open(self.file, "a", encoding="utf-8") as out:
                out.writelines(json.dumps(answer) + "\n" for answer in answers)


def question(job, item):
    """A name for a job on an item: files count by what is in them."""
    return hashlib.sha256(json.dumps([job.__name__, [contents(part) for part in item]]).encode()).hexdigest()


def contents(part):
    if isinstance(part, (list, tuple)):
        return [contents(one) for one in part]
    if isinstance(part, str) and os.path.isfile(part):
        with open(part, "rb") as source:
            return hashlib.sha256(source.read()).hexdigest()
    return part
