"""Compile HLO texts with XLA:CPU into one dump folder, with XLA's own memory reports and the binary form beside the texts.

usage: python tests/referee/dump_folder.py FOLDER FILE...

Nothing is executed. Programs over several devices are left out: they need a process of their own.
"""
import os
import pathlib
import sys

import xla


def main():
    folder, files = sys.argv[1], sys.argv[2:]
    jax = xla.start(folder)
    os.environ["XLA_FLAGS"] += " --xla_dump_hlo_as_proto"
    for file in files:
        text = pathlib.Path(file).read_text(encoding="utf-8")
        if xla.partitions_of(text) == 1:
            xla.compile_text(jax, text)


if __name__ == "__main__":
    main()
