"""Create the referee's virtual environment once, however many processes ask at the same time.

usage: make_venv.py FOLDER [REQUIREMENTS]; prints the path of the environment's interpreter. Exit codes: see setup.sh.
"""
import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys

REFEREE = pathlib.Path(__file__).resolve().parent / "requirements.txt"
STAMP = "referee-requirements.sha256"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: make_venv.py FOLDER [REQUIREMENTS]")
    folder = pathlib.Path(sys.argv[1]).absolute()
    packages = pathlib.Path(sys.argv[2]).absolute() if len(sys.argv) == 3 else REFEREE
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The lock file stays: removing it would let two processes lock two different files of one name.
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready(folder, packages):
            build(folder, packages)
    print(interpreter(folder))


def interpreter(folder):
    return folder / "bin" / "python"


def wanted(packages):
    """What the environment must have been made from: the pinned packages and this Python."""
    text = packages.read_bytes() + repr(sys.version_info[:2]).encode()
    return hashlib.sha256(text).hexdigest()


def ready(folder, packages):
    stamp = folder / STAMP
    return interpreter(folder).exists() and stamp.exists() and stamp.read_text() == wanted(packages)


def build(folder, packages):
    """Make it from nothing; the stamp comes last, so an interrupted build is never taken for a whole one."""
    if folder.exists():
        if not (folder / "pyvenv.cfg").exists() and any(folder.iterdir()):
            stop(4, f"{folder} exists and is no virtual environment: name another folder")
        shutil.rmtree(folder)
    run([sys.executable, "-m", "venv", str(folder)], 4,
        "cannot create a virtual environment (is the venv module of Python installed?)")
    run([str(interpreter(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         # Modules are compiled when they are first imported, and most never are.
         "--no-compile", "--requirement", str(packages)], 5,
        f"cannot install the packages of {packages.name} (is the package index reachable?)")
    (folder / STAMP).write_text(wanted(packages))


def run(command, code, message):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        shown = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        stop(code, f"{message}\n{shown}")


def stop(code, message):
    print(f"referee: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
