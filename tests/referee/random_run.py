"""The command line that the random referees of batches share: seeds, batches, a time limit, and what is counted."""
import argparse
import collections
import time

import xla


def parser(doc, batch):
    """Options of every such referee; batches of `batch` programs share a process."""
    made = argparse.ArgumentParser(description=doc.split("\n")[0])
    made.add_argument("--tool", required=True)
    made.add_argument("--count", type=int, default=100)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--minutes", type=float, default=0, help="stop after that time; 0: never")
    made.add_argument("--batch", type=int, default=batch, help="programs that share a process")
    return made


def run(options, check, source):
    """Runs `check(seeds, counts, fail)` on batch after batch; `source(seed)` is the text of a program. Gives the failed seeds and the counts."""
    xla.import_quietly()
    counts, failed, start = collections.Counter(), [], time.monotonic()

    def fail(seed, text):
        failed.append(seed)
        print(f"seed {seed}: {text}\n{source(seed)}\n", flush=True)

    end = options.seed + options.count
    for first in range(options.seed, end, options.batch):
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
        check(list(range(first, min(first + options.batch, end))), counts, fail)
        print(f"seeds below {min(first + options.batch, end)}: {len(failed)} failed; {dict(counts)}", flush=True)
    return failed, counts
