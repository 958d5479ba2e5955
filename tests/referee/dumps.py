"""Every dump of some folders through XLA and through our reader and writer, text and protocol buffer; XLA judges.

    cargo build --release -p hlo-ir --example roundtrip
    dumps.py target/release/examples/roundtrip FOLDER...        [--keep DIR] [--verbose]

A file that XLA does not read whole is split at `// -----`. For each piece XLA reads the original, our print of it, our message of it, and our print of XLA's
message of it, each in a process of its own, and prints all four without metadata and with every constant; the four texts must be equal.
Exit code 0: they are, and nothing that XLA reads is refused or called illegal by us; 1: not; the pieces are listed.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import child  # noqa: E402
import xla  # noqa: E402

# XLA's printer writes negative zero as `-0`, which its parser reads as the integer 0; our messages keep the sign.
NEGATIVE_ZERO = re.compile(r"(?<![\w.])-0(?![\w.])")
# XLA's parser fills a constant that was left out of a dump with a counter; our messages leave it out.
FILLED = re.compile(r" constant\(.*\)")
# A complex number with a nan as its real part gets a nan as its imaginary part from XLA's parser.
NAN_PART = re.compile(r"\((-?nan), [^()]*\)")

# Pieces that XLA reads and that are no legal programs, or that XLA reads as something else than what is written, by the end of their
# label, each with the reason (`by XLA`: XLA itself refuses to compile them, too). What fails for them is listed, but is no failure.
with open(os.path.join(os.path.dirname(__file__), "illegal.json"), encoding="utf-8") as table:
    JUSTIFIED = json.load(table)
SEPARATOR = re.compile(r"(?m)^// -----.*$")
COMMENT = re.compile(r"(?m)^//.*$")
NAME = re.compile(r"(?<=values of )`[^`]*`")
# The ways a piece comes back, by the ending of its file.
WAYS = {"print": "our print", "pb": "our message", "read": "our print of XLA's message"}


def main():
    options = arguments()
    xla.import_quietly()
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder
        os.makedirs(folder, exist_ok=True)
        pieces = [Piece(folder, *source) for place in options.folders for source in sources(place)]
        if not pieces:
            sys.exit("no dumps found: nothing was checked")
        for piece in pieces:
            piece.ask_xla()
        answers = run_ours(options.tool, folder)
        for piece in pieces:
            piece.compare(answers)
    sys.exit(report(pieces, options.verbose))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", help="the example program `roundtrip` of hlo-ir")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--keep", metavar="DIR", help="keep all files there")
    parser.add_argument("--verbose", action="store_true", help="list what both refuse, too")
    return parser.parse_args()


def sources(place):
    """(label, text) of each piece below a folder (or in a file); `programs` of the corpus are templates."""
    paths = sorted(glob.glob(os.path.join(glob.escape(place), "**", "*"), recursive=True))
    if os.path.isfile(place):
        place, paths = os.path.dirname(place) or ".", [place]
    for path in paths:
        if not path.endswith((".hlo", ".txt")) or f"{os.sep}programs{os.sep}" in path:
            continue
        name, whole = os.path.relpath(path, place), read(path)
        texts = SEPARATOR.split(whole)
        if len(texts) == 1 or "error" not in child.run(lambda text=whole: xla.parse(text) and {}, ()):
            yield name, whole
        else:
            yield from ((f"{name}#{number}", text) for number, text in enumerate(texts) if COMMENT.sub("", text).strip())


class Piece:
    """One module, and what came of it."""

    def __init__(self, folder, label, text):
        self.label = label
        self.stem = os.path.join(folder, re.sub(r"[^A-Za-z0-9_-]", "_", label))
        self.results = collections.Counter()
        self.notes = []
        with open(self.stem + ".hlo", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    def ask_xla(self):
        """What XLA makes of the original."""
        self.xla = child.run(original, (self.stem,), time_limit=120)
        self.text = read(self.stem + ".xla-text") if "error" not in self.xla else None

    def compare(self, answers):
        ours = answers[self.stem + ".hlo"]
        taken = not ours["parse"]
        self.results["XLA reads it" if self.text else "XLA refuses it"] += 1
        if self.text is None:
            self.results["both refuse" if not taken else "only we read it"] += 1
            self.notes.append(f"XLA: {self.xla['error'].splitlines()[-1][:200]}; we: {ours['parse'][:1] or 'read it'}")
            return
        if not taken:
            self.fail("only XLA reads it", ours["parse"][0])
            return
        self.results["we read it"] += 1
        self.judge("verified", ours["verify"])
        self.judge("print is a fixed point", [] if ours["fixed_point"] else ["it changes"])
        self.judge("message written", ours["proto"].get("problems", []))
        self.judge("message read", answers.get(self.stem + ".xla-pb", {}).get("problems", []))
        for ending, way in WAYS.items():
            if os.path.exists(f"{self.stem}.{ending}"):
                self.judge(f"XLA reads {way} as the same module", self.difference(ending))
        for dropped in answers.get(self.stem + ".xla-pb", {}).get("dropped", []):
            self.results["said: " + NAME.sub("`...`", dropped)] += 1
        for dropped in ours["proto"].get("dropped", []):
            self.results["said: " + NAME.sub("`...`", dropped)] += 1

    def judge(self, what, problems):
        if problems:
            self.fail("NOT " + what, problems[0])
        else:
            self.results[what] += 1

    def fail(self, what, why):
        self.results[what] += 1
        self.notes.append(f"{what}: {why}")

    def difference(self, ending):
        """The first line in which XLA's reading of a file of ours is not the original."""
        found = child.run(reread, (self.stem, ending), time_limit=120)
        if "error" in found:
            return [f"XLA refuses it: {found['error'].splitlines()[-1][:300]}"]
        ours, wanted = read(f"{self.stem}.{ending}-text"), self.text if ending == "print" else read(self.stem + ".xla-trip")
        if ours == wanted:
            return []
        if ending != "print":
            elided = "{...}" in ours
            ours, wanted = (comparable(text, elided) for text in (ours, wanted))
        for number, (a, b) in enumerate(zip(wanted.splitlines() + [""], ours.splitlines() + [""])):
            if a != b:
                return [f"line {number + 1}: XLA {a.strip()[:300]!r}, ours {b.strip()[:300]!r}"]
        return [] if ours == wanted else ["one text is longer"]


def comparable(text, elided):
    """The text without what XLA's own parser changes, its computations in the order of their names: XLA prints them in an order that
    depends on where the module came from."""
    text = NAN_PART.sub(r"(\1, ?)", NEGATIVE_ZERO.sub("0", text))
    if elided:
        text = FILLED.sub(" constant(?)", text)
    return "\n\n".join(sorted(text.strip().split("\n\n")))


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def original(stem):
    """Runs in a child: XLA's text and message of the original."""
    module = xla.parse(read(stem + ".hlo"))
    write(stem + ".xla-text", xla.plain_text(module))
    message = module.as_serialized_hlo_module_proto()
    with open(stem + ".xla-pb", "wb") as file:
        file.write(message)
    from jaxlib import _hlo
    write(stem + ".xla-trip", xla.plain_text(_hlo.HloModule.from_serialized_hlo_module_proto(message)))
    return {}


def reread(stem, ending):
    """Runs in a child: XLA's text of a file of ours."""
    if ending == "pb":
        with open(f"{stem}.pb", "rb") as file:
            module = from_message(file.read())
    else:
        module = xla.parse(read(f"{stem}.{ending}"))
    write(f"{stem}.{ending}-text", xla.plain_text(module))
    return {}


def from_message(data):
    """The module in a serialized HloProto: its field 1, length-delimited, as bytes for XLA."""
    from jaxlib import _hlo
    length, at = 0, 1
    while True:
        length |= (data[at] & 0x7f) << (7 * (at - 1))
        at += 1
        if data[at - 1] < 0x80:
            break
    return _hlo.HloModule.from_serialized_hlo_module_proto(data[at:at + length])


def run_ours(tool, folder):
    done = subprocess.run([tool, folder], stdout=subprocess.PIPE, check=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["file"]: line["found"] for line in lines}


def report(pieces, verbose):
    """The table, then every piece that failed; the exit code."""
    total = collections.Counter()
    bad = False
    for piece in pieces:
        total += piece.results
        failed = any(key.startswith(("NOT", "only XLA")) for key in piece.results)
        reason = next((reason for name, reason in JUSTIFIED.items() if piece.label.endswith(name)), None)
        if reason and not failed:
            piece.notes.append("nothing is wrong with it any more: strike it off the list")
        bad |= failed != bool(reason)
        if failed or reason or verbose and piece.notes:
            print(f"{piece.label}: {reason or ''}\n  " + "\n  ".join(piece.notes))
    print(f"\n{len(pieces)} pieces")
    for what, count in sorted(total.items()):
        print(f"{count:6} {what}")
    print("some piece is not what it should be" if bad else "all as they should be, but for the ones above, each for its reason")
    return 1 if bad else 0


if __name__ == "__main__":
    main()
