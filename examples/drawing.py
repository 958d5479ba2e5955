"""Draw memory over the order of a program, before and after a run, from a JSON report. Needs Python alone, no packages.

    hlo-opt FILE -q -o /dev/null --report report.json && python3 examples/drawing.py report.json > memory.svg
"""
import json
import sys

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 860, 300, 84, 40, 34
COLORS = ["#c0504d", "#3a7d44"]
UNITS = [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")]


def main():
    report = json.load(open(sys.argv[1], encoding="utf-8"))
    curves = [(name, report[name]["details"]["timeline"], report[name]["total_bytes"], size(report[name]["total_bytes"]))
              for name in ("before", "after")]
    title = f"{report['module']}: memory over the order of the program (XLA:{report['target'].upper()}, {report['before']['model']})"
    print(svg(title, curves, report["before"]["floor"]), end="")


def size(count):
    """Bytes in the largest unit of which there is one."""
    unit, name = next(((unit, name) for unit, name in UNITS if count >= unit), UNITS[-1])
    return f"{count / unit:,.2f} {name}"


def svg(title, curves, floor):
    """Curves (label, timeline, total, text) over the order of the program, each stretched to the same width, and the floor."""
    top = max(total for _, _, total, _ in curves)
    high = lambda count: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / top  # noqa: E731
    right = WIDTH - 16
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             f'<text x="{LEFT}" y="22" font-size="14" fill="#222">{escape(title)}</text>']
    unit, name = next(((unit, name) for unit, name in UNITS if top >= 2 * unit), UNITS[-1])
    step = round_step(top / unit / 4)
    for count in range(int(top / unit / step) + 1):
        at = high(count * step * unit)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" font-size="11" fill="#666" text-anchor="end">{count * step:g} {name}</text>')
    for place, (label, points, _, text) in enumerate(curves):
        color = COLORS[place % len(COLORS)]
        step = (right - LEFT) / len(points)
        line = " ".join(f"{LEFT + step * (at + side):.1f},{high(point['bytes']):.1f}" for at, point in enumerate(points) for side in (0, 1))
        parts.append(f'<polygon points="{LEFT},{high(0):.1f} {line} {right},{high(0):.1f}" fill="{color}" fill-opacity="0.15"/>')
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 12 + 250 * place}" y="{HEIGHT - 10}" font-size="13" fill="{color}">{escape(label)}: {escape(text)}</text>')
    at = high(floor)
    parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#222" stroke-dasharray="5 4"/>')
    parts.append(f'<text x="{LEFT + 512}" y="{HEIGHT - 10}" font-size="13" fill="#222">floor (dashed): {size(floor)}</text>')
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n{body}\n</svg>\n'


def round_step(least):
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is no less."""
    return next(step * 10**power for power in range(9) for step in (1, 2, 5) if step * 10**power >= least)


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


if __name__ == "__main__":
    main()
