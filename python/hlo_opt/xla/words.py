"""The referee's answers as sentences."""
COMPILERS = {"cpu": "XLA:CPU", "tpu": "XLA:TPU v5e", "gpu": "XLA:GPU H100"}


def size(count):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.2f} {unit}"
    return f"{count} B"


def peak(found):
    floor = found["argument_bytes"] + found["output_bytes"] - found["alias_bytes"]
    each = f" for each of {found['devices']} devices" if found["devices"] > 1 else ""
    return (f"{found['file']}: {size(found['total_bytes'])} ({found['total_bytes']} B){each} on {COMPILERS[found.get('target', 'cpu')]}: "
            f"arguments {size(found['argument_bytes'])}, results {size(found['output_bytes'])}, donated {size(found['alias_bytes'])}, "
            f"temporaries {size(found['temp_bytes'])}; floor {size(floor)}")


def partitioned(found):
    if "text" in found:
        return found["text"].rstrip("\n")
    return f"{found['output']}: what each of {found['devices']} devices runs of {found['file']}"


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
    noise = (f"; the original is noise, on tamer data too ({found['own_error']:.3g} of the scale from double precision), "
             "so that nothing tells a mistake from rounding") if found.get("undecided") else ""
    return (f"different: {where}; {first['elements']} elements of that result differ{nan}; "
            f"largest relative error {found['max_rel_error']:.3g}{noise}")


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


def time(found):
    rest = [f"loops of unknown length, counted once: {', '.join(found['unknown_loops'])}"] if found["unknown_loops"] else []
    rest += [f"calls by their bytes alone: {', '.join(found['unpriced'])}"] if found["unpriced"] else []
    rest += [f"between devices: {size(found['collective_bytes'])}"] if found["collective_bytes"] else []
    return "; ".join([f"{found['file']}: {milliseconds(found['seconds'])} ms estimated on {found['machine']}: {found['kernels']} kernels, "
                      f"{found['flops'] / 1e9:.3g} GFLOP, {size(found['bytes'])} moved", *rest])


def milliseconds(seconds):
    return f"{seconds * 1e3:.4g}"


def advice(found):
    """The table, what had no effect, and what to set."""
    rows = found["rows"]
    lines = [("peak", "change", "est. ms", "setting", "note"), *(cells(row, rows[0]) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    table = ["  ".join(cell.rjust(width) if column < 3 else cell.ljust(width) for column, (cell, width) in enumerate(zip(line, widths))) + "  " + line[4]
             for line in lines]
    idle = found["without_effect"]
    rest = [f"without effect: {', '.join(setting_text(setting) for setting in idle)}"] if idle else []
    rest += [f"not tried, the time was up: {found['not_tried']} settings"] if found["not_tried"] else []
    rest += [f"no rewritten form: {found['rewrite']}"] if found["rewrite"] else []
    rest += [f"set {to_set(found[key], found['target'])}" for key in ("advice", "advice_rewritten") if found[key]]
    return "\n".join([f"{found['file']} on {COMPILERS[found['target']]}", *(line.rstrip() for line in table), *rest])


def cells(row, base):
    name = " + ".join([*(["rewritten"] if row["rewritten"] else []), *([setting_text(row["setting"])] if row["setting"] else [])]) or "as it is"
    if "error" in row:
        return "-", "-", "-", name, row["note"]
    change = f"{row['total_bytes'] / base['total_bytes'] - 1:+.1%}" if row is not base and "error" not in base else ""
    return size(row["total_bytes"]), change, milliseconds(row["seconds"]), name, row["note"]


def setting_text(setting):
    return " ".join(f"{name}={value}" for name, value in setting.items())


def to_set(row, target):
    """How a user sets the setting of a row."""
    what = f"for {size(row['total_bytes'])}{' (rewritten by hlo-opt)' if row['rewritten'] else ''}"
    setting = row["setting"]
    if not setting:
        return f"{what}: no flag"
    if target == "tpu" or not all(name.startswith("xla_") for name in setting):
        return f"{what}: jax.jit(..., compiler_options={setting})"
    return f'{what}: XLA_FLAGS="{" ".join(f"--{name}={value}" for name, value in setting.items())}"'
