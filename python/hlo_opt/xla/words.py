"""The referee's answers as sentences."""
COMPILERS = {"cpu": "XLA:CPU", "tpu": "XLA:TPU v5e", "gpu": "XLA:GPU H100"}


def size(count):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.2f} {unit}"
    return f"{count} B"


def peak(found):
    floor = found["argument_bytes"] + found["output_bytes"] - found["alias_bytes"]
    return (f"{found['file']}: {size(found['total_bytes'])} ({found['total_bytes']} B) on {COMPILERS[found.get('target', 'cpu')]}: "
            f"arguments {size(found['argument_bytes'])}, results {size(found['output_bytes'])}, donated {size(found['alias_bytes'])}, "
            f"temporaries {size(found['temp_bytes'])}; floor {size(floor)}")


def comparison(found):
    sets = f"{found['cases']} data set{'s' if found['cases'] != 1 else ''}"
    if found["bitwise"]:
        return f"equal: {sets}, the same bits"
    if found["equal"]:
        said = f"equal within the grade: {sets}, largest relative error {found['max_rel_error']:.3g}"
        return said if found["tolerated"] else said + truth(found)
    first = found["first_difference"]
    if "message" in first:
        return f"different: {first['message']}"
    where = f"result {first['result']}{first['index']}: {first['before']} became {first['after']} (data set {first['case']})"
    nan = ", NaN payloads only" if found["nan_payload_only"] else ""
    return (f"different: {where}; {first['elements']} elements of that result differ{nan}; "
            f"largest relative error {found['max_rel_error']:.3g}")


def truth(found):
    """Why a difference above the tolerance is none."""
    own = f"{found['own_error']:.3g} of the scale from double precision"
    if found["tamed"]:
        return f"; the original is noise on {found['tamed']} of them ({own}), which tamer data took the place of"
    return f"; the original itself is {own}, and the rewritten module at most twice as far"


def bench(found):
    return (f"run time {found['before_seconds'] * 1e3:.3f} ms before, {found['after_seconds'] * 1e3:.3f} ms after "
            f"(medians of {found['reps']}, interleaved): {found['ratio']:.2f} times as fast")


def roundtrip(found):
    if found["equal"]:
        return "the same module"
    first = found["first_difference"]
    return f"different modules, first in line {first['line']}:\n  {first['a']}\n  {first['b']}"


def dumped(found):
    lines = [f"{size(entry['total_bytes']):>12}  {entry['file']}" for entry in found["modules"]]
    return "\n".join([f"{len(lines)} modules, largest first:", *lines]) if lines else "XLA compiled nothing that is dumped"
