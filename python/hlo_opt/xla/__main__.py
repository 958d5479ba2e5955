"""Ask XLA about HLO modules. Every module runs in a process of its own, with limits.

    python -m hlo_opt.xla peak FILE...                bytes by the compiler's own buffer assignment, from shapes alone
    python -m hlo_opt.xla time FILE...                estimated time of what the compiler makes of a module
    python -m hlo_opt.xla advise FILE                 flags of XLA that make the module smaller
    python -m hlo_opt.xla compare BEFORE AFTER        both on the same data, hard cases included
    python -m hlo_opt.xla dump SCRIPT [ARGUMENTS]     run a program and keep the modules that XLA compiled
    python -m hlo_opt.xla partition FILE -o OUT       what each of several devices runs, as XLA divides the program
    python -m hlo_opt.xla hlo FILE                    StableHLO (text, bytecode, jax.export) as the HLO text that hlo-opt reads
    python -m hlo_opt.xla calibrate                   describe the machine in use for `hlo-opt --machine FILE`

Exit code 0: done, and equal; 1: something could not be asked; 2: bad command line; 3: the results differ.
"""
import argparse
import json
import re
import sys

from . import advise, compiler, dump, machines, service, words

EQUAL, FAILED, DIFFER = 0, 1, 3
GRADES = ("bitwise", "hlo-exact", "reassociate", "assume")


def main(arguments=None):
    options = parser().parse_args(arguments)
    if options.command == "calibrate":  # on whatever device JAX finds
        return calibrate(options)
    if options.command != "dump":  # a program of the user runs in the user's environment
        compiler.import_quietly()
    return {"peak": peak, "time": time, "advise": advice, "compare": compare, "dump": dump_script, "roundtrip": roundtrip, "partition": partitioned, "hlo": lowered}[options.command](options)


def parser():
    top = argparse.ArgumentParser(prog="python -m hlo_opt.xla", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="one JSON object a line instead of sentences")
    shared.add_argument("--time-limit", type=float, default=service.TIME_LIMIT, metavar="SECONDS", help="for each module")
    shared.add_argument("--memory-limit", type=size, metavar="SIZE", help="of address space for each process, such as 24GiB")
    found = commands.add_parser("peak", parents=[shared], help="bytes that the compiler needs")
    found.add_argument("files", nargs="+", metavar="FILE")
    found.add_argument("--target", choices=("cpu", "tpu", "gpu"), default="cpu")
    found.add_argument("--dump", metavar="DIR", help="keep the scheduled module there (cpu)")
    found = commands.add_parser("time", parents=[shared], help="estimated run time")
    found.add_argument("files", nargs="+", metavar="FILE")
    add_machine(found)
    found = commands.add_parser("advise", parents=[shared], help="flags that save memory")
    found.add_argument("file", metavar="FILE")
    add_machine(found)
    found.add_argument("--budget", type=size, metavar="SIZE", help="advise the fastest setting that fits")
    found.add_argument("--within", type=float, default=advise.Asked.within, metavar="SECONDS", help="for all settings together")
    found = commands.add_parser("compare", parents=[shared], help="equal results?")
    found.add_argument("before")
    found.add_argument("after")
    found.add_argument("--cases", type=int, default=3, help="data sets; the first is tame, from the third on everything is in it")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--grade", choices=GRADES, default="bitwise", help="how equal: the same bits, or 1e-5 of the scale of f32 results")
    found.add_argument("--bench", action="store_true", help="measure run times too")
    found = commands.add_parser("roundtrip", parents=[shared], help="do both texts parse to the same module?")
    found.add_argument("a")
    found.add_argument("b")
    found = commands.add_parser("partition", parents=[shared], help="what each of several devices runs")
    found.add_argument("file", metavar="FILE")
    found.add_argument("-o", "--output", metavar="FILE", help="where it goes; standard output otherwise")
    found.add_argument("--target", choices=("cpu", "tpu", "gpu"), default="cpu")
    found = commands.add_parser("hlo", parents=[shared], help="StableHLO as HLO text")
    found.add_argument("file", metavar="FILE")
    found = commands.add_parser("calibrate", help="describe the machine in use")
    found.add_argument("--largest", type=size, metavar="SIZE", help="of an array; small ones are quick, and measure caches")
    found = commands.add_parser("dump", parents=[shared], help="run a program and keep its modules")
    found.add_argument("--out", default="hlo-dump", metavar="DIR")
    found.add_argument("--module", default="", metavar="REGEX", help="modules to list")
    found.add_argument("script")
    found.add_argument("arguments", nargs=argparse.REMAINDER)
    return top


def add_machine(command):
    names = [machine["target"] + ":" + machine["name"] for machine in machines.known() if machine["target"] != "cpu"]
    command.add_argument("--target", choices=("cpu", "tpu", "gpu", *names), default="cpu", help="a compiler, perhaps with the machine whose speed counts")
    command.add_argument("--machine", metavar="FILE", help="a machine that `calibrate` described")


def size(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(B|KiB|MiB|GiB|TiB)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 123, 64KiB or 1.5GiB")
    return int(float(match[1]) * 1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(match[2] or "B"))


def ask(options, command, **keys):
    request = {"cmd": command, "time_limit": options.time_limit, **{key: value for key, value in keys.items() if value is not None}}
    if options.memory_limit:
        request["memory_limit"] = options.memory_limit
    return service.answer(request)


def say(options, found, sentence):
    """Prints the answer, or on standard error why there is none; tells whether there is one."""
    if options.json:
        print(json.dumps(found, allow_nan=False), flush=True)
    elif "error" in found:
        print(f"error: {found['error']}", file=sys.stderr)
    else:
        print(sentence(found), flush=True)
    return "error" not in found


def peak(options):
    answers = [say(options, ask(options, "peak", file=file, dump=options.dump, target=options.target), words.peak) for file in options.files]
    return EQUAL if all(answers) else FAILED


def time(options):
    answers = [say(options, ask(options, "time", file=file, target=options.target, machine=options.machine), words.time) for file in options.files]
    return EQUAL if all(answers) else FAILED


def advice(options):
    try:
        machine = machines.read(options.machine) if options.machine else machines.of(options.target)
    except (OSError, ValueError) as error:
        return EQUAL if say(options, {"error": str(error)}, words.advice) else FAILED
    progress = (lambda text: print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)) if sys.stderr.isatty() else None
    asked = advise.Asked(options.file, options.target.partition(":")[0], machine, options.budget, options.time_limit, options.memory_limit,
                         options.within, progress)
    return EQUAL if say(options, advise.advise(asked), words.advice) else FAILED


def compare(options):
    pair = {"before": options.before, "after": options.after, "seed": options.seed}
    found = ask(options, "same", cases=options.cases, **pair)
    if "error" not in found:
        found["equal"] = found["bitwise"] or (options.grade != "bitwise" and (found["tolerated"] or found["as_near_the_truth"]))
    if not say(options, found, words.comparison):
        return FAILED
    if options.bench and not say(options, ask(options, "bench", **pair), words.bench):
        return FAILED
    return EQUAL if found["equal"] else DIFFER


def roundtrip(options):
    found = ask(options, "roundtrip", a=options.a, b=options.b)
    if not say(options, found, words.roundtrip):
        return FAILED
    return EQUAL if found["equal"] else DIFFER


def partitioned(options):
    found = ask(options, "partition", file=options.file, target=options.target)
    if "error" not in found and options.output:
        try:
            with open(options.output, "w", encoding="utf-8") as out:
                out.write(found.pop("text"))
            found["output"] = options.output
        except OSError as error:
            found = {"error": str(error)}
    return EQUAL if say(options, found, words.partitioned) else FAILED


def lowered(options):
    return EQUAL if say(options, ask(options, "hlo", file=options.file), lambda found: found["text"].rstrip("\n")) else FAILED


def calibrate(options):
    from . import calibrate as measured
    measured.main(options.largest)
    return EQUAL


def dump_script(options):
    found = dump.run(options.script, options.arguments, options.out, options.module, options.time_limit, options.memory_limit)
    return EQUAL if say(options, found, words.dumped) else FAILED


if __name__ == "__main__":
    sys.exit(main())
