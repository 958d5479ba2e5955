"""Make a dump independent of the machine: source paths become repro.py, lines count from the program."""
import re

PUBLIC_FILE = "repro.py"
_PATH = re.compile(r'"[^"\n]*\.py"')
# A function defined inside the program's builder reads as if it stood alone.
_OUTER = re.compile(r'"(?:[^"\n]*\.)?<locals>\.([^"\n]*)"')
_LINES = re.compile(r"line=(\d+) end_line=(\d+)")


def scrub(text, first_line):
    """Scrub a dump; `first_line` is the line of the program's own `def`, which becomes line 1."""
    lines = text.split("\n")
    section = ""
    for number, line in enumerate(lines):
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            section = line
        elif not line:
            section = ""
        elif section == "FileNames":
            lines[number] = _PATH.sub(f'"{PUBLIC_FILE}"', line)
        elif section == "FunctionNames":
            lines[number] = _OUTER.sub(r'"\1"', line)
        elif section == "FileLocations":
            lines[number] = _LINES.sub(lambda found: _shift(found, first_line), line)
    return "\n".join(lines).rstrip("\n") + "\n"


def _shift(found, first_line):
    line, end_line = (int(found.group(k)) - first_line + 1 for k in (1, 2))
    if line < 1:
        raise ValueError("a traced line lies outside its program: keep each program in one function")
    return f"line={line} end_line={end_line}"
