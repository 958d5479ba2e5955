"""The line behind a measured table: its command, the build, the date, and a checksum of the table, by which `tests/docs/stamps.rs` notices an edit by hand.

    stamp.py COMMAND < TABLE    # prints the line for a table that another command printed
"""
import datetime
import pathlib
import shlex
import subprocess
import sys
import zlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class Table:
    """Prints a table row by row, and in the end the line behind it."""

    def __init__(self, head):
        self.rows = []
        self.row(head)

    def row(self, line):
        self.rows += line.splitlines()
        print(line, flush=True)

    def end(self):
        print(f"\n{stamp(self.rows)}", flush=True)


def stamp(rows, command=None, made=None):
    """The line behind a table; without a command that of this process, and made by the present build today."""
    return f"*Measured with {quoted(command or this_command())}, {made or f'build `{build()}`, {datetime.date.today()}'}; checksum `{checksum(rows)}`.*"


def checksum(rows):
    return f"{zlib.crc32(chr(10).join(rows).encode()):08x}"


def build():
    """The commit that is checked out; `-dirty` behind it where files differ from it."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def this_command():
    """The script and its arguments; of paths outside of the repository only the name, since they say nothing elsewhere."""
    script = pathlib.Path(sys.argv[0]).resolve().relative_to(REPOSITORY)
    return shlex.join(["python", str(script), *map(plain, sys.argv[1:])])


def plain(argument):
    path = pathlib.Path(argument)
    if not path.is_absolute():
        return argument
    return str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else path.name


def quoted(command):
    """Words such as `the commands of its rows` are no command."""
    return command if command.startswith(("the ", "a ")) else f"`{command}`"


if __name__ == "__main__":
    print(stamp(sys.stdin.read().splitlines(), sys.argv[1]))
