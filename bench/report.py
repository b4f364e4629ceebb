"""Reports on the measured rows: a line for the screen, a table (Markdown and JSON), the curves (SVG)."""
import json
import math
import os
import statistics

import rows as table
import svg


def duration(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"


def quantity(row, value):
    return f"{value:.0f} MiB" if row.memory_of else duration(value)


def times(ratio):
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


def percent(fraction):
    return f"{100 * fraction:.0f} %"


def paired(ours, theirs):
    both = [b / a for a, b in zip(ours, theirs) if a > 0]
    return statistics.median(both) if both else None


def summary(row, result):
    """The figures of a row: for each side the minimum, the median, the ratio to ours and the fraction of the machine's limit."""
    rates = next((r for name, r in result["limits"].items() if name == row.limit(result["machine"]["cores_used"])), [])
    sides, own = [], None
    for side in result["sides"]:
        values = [side["rss_mib"]] if row.memory_of else side["seconds"]
        entry = {"side": side["label"]}
        if "error" in side and not side["seconds"]:
            entry["error"] = side["error"]
        elif values:
            entry.update(minimum=min(values), median=statistics.median(values), rounds=len(values))
            if own is not None:
                entry["ratio"] = paired(own, values)
            if row.work and rates and not row.memory_of and all(rates):
                entry["of_limit"] = statistics.median(row.work / rate / s for rate, s in zip(rates, values))
        if own is None:
            own = values
        sides.append(entry)
    ratios = [s["ratio"] for s in sides if s.get("ratio")]
    out = {"name": row.name, "title": row.title, "group": row.group, "sides": sides, "better": min(ratios, default=None)}
    if row.goal:
        out["goal"] = row.goal
    return out


def line(row, result):
    s = summary(row, result)
    parts = []
    for side in s["sides"]:
        text = side.get("error") or (quantity(row, side["median"]) if "median" in side else "nothing")
        if "ratio" in side:
            text += f" (x {times(side['ratio'])})"
        if "of_limit" in side:
            text += f" {percent(side['of_limit'])}"
        parts.append(f"{side['side']} {text}")
    goal = f"  [goal {row.goal:g}: {verdict(s)}]" if row.goal else ""
    return f"{row.name:42} " + " | ".join(parts) + goal


def verdict(s):
    if s["better"] is None:
        return "no peer"
    return "reached" if s["better"] >= s["goal"] else f"misses it ({percent(s['better'] / s['goal'])})"


# ---- Markdown

def labels(summaries):
    seen = []
    for s in summaries:
        seen += [side["side"] for side in s["sides"] if side["side"] not in seen]
    return seen[:1] + sorted(seen[1:], reverse=True)


def cell(row, side):
    if not side:
        return ""
    return quantity(row, side["median"]) if "median" in side else "fails"


def goals(summaries, names):
    """The short table: medians, the ratio to the better peer, the goal, the fraction of the limit."""
    out = ["| workload | " + " | ".join(names) + " | ratio to the better | goal | | of the limit |", "|---|" + "---:|" * (len(names) + 2) + "---|---:|"]
    for row, s in summaries:
        by = {side["side"]: side for side in s["sides"]}
        out.append("| " + " | ".join([row.title, *(cell(row, by.get(n)) for n in names), times(s["better"]) if s["better"] else "",
                                       f"{row.goal:g}" if row.goal else "", verdict(s) if row.goal else "",
                                       percent(s["sides"][0]["of_limit"]) if "of_limit" in s["sides"][0] else ""]) + " |")
    return out


def everything(summaries):
    """The long table: one line for each row and side."""
    out = ["| name | side | minimum | median | ratio | of the limit | rounds |", "|---|---|---:|---:|---:|---:|---:|"]
    for row, s in summaries:
        for side in s["sides"]:
            if "median" not in side:
                out.append(f"| {row.name} | {side['side']} | {side.get('error', 'nothing')} | | | | |")
                continue
            out.append(f"| {row.name} | {side['side']} | {quantity(row, side['minimum'])} | {quantity(row, side['median'])} | "
                       f"{times(side['ratio']) if side.get('ratio') else ''} | {percent(side['of_limit']) if 'of_limit' in side else ''} | "
                       f"{side['rounds']} |")
    return out


def conditions(results):
    """The machine and the versions; if the rows' runs differ in them, all are listed."""
    machines = {json.dumps(r["machine"], sort_keys=True): r["machine"] for r in results}.values()
    ours = {json.dumps(r["ours"], sort_keys=True): r["ours"] for r in results}.values()
    libraries = sorted({name for r in results for name in r["libraries"]})
    peers = {label: versions for r in results for label, versions in r["peers"].items()}
    out = []
    for m in machines:
        caches = ", ".join(f"{k.replace(' cache', '')} {v}" for k, v in m["caches"].items())
        out.append(f"- Machine: {m['cpu']}, {m['cores_used']} of {m['cores']} cores, {caches}, {m['memory_gib']} GiB, {' '.join(m['vector'])}; "
                   f"Linux {m['kernel']}, {m['libc']}")
    out += [f"- Manyfold {o['commit']}, {o['build']}, {o['compiler']}" for o in ours]
    if libraries:
        out[-1] += "; " + ", ".join(libraries)
    for label, versions in sorted(peers.items(), reverse=True):
        rest = [f"{name} {versions[name]}" for name in ("jaxlib", "numpy") if name in versions]
        out.append(f"- {label}: {', '.join([*rest, 'Python ' + versions['python']])}")
    when = sorted(r["when"] for r in results)
    return [*out, f"- Measured from {when[0]} to {when[-1]}"]


# ---- growth and curves

def points(summaries, names, x, y):
    """side -> [(x, y)] over the rows; x and y are functions of the row and the minimum. The minimum, because the points of a curve are measured
    one after the other, and a disturbance of one of them must not bend the curve."""
    series = {}
    for row, s in summaries:
        if row.name not in names:
            continue
        for side in s["sides"]:
            if "median" in side:
                series.setdefault(side["side"], []).append((x(row), y(row, side["minimum"])))
    return {name: sorted(line) for name, line in series.items()}


def copies(summaries, results, names):
    line = []
    for (row, _), result in zip(summaries, results):
        rates = result["limits"].get(row.beside(result["machine"]["cores_used"]), [])
        if row.name in names and rates and all(rates):
            line.append((row.reduced / 8, max(rates) / 2 / 1e9))
    return sorted(line)


def curves(summaries, results):
    def bytes_text(b):
        return next(f"{b / f:g} {u}" for u, f in (("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)) if b >= f)

    reduces = [r.name for r in table.ROWS if r.reduced]
    bandwidth = points(summaries, reduces, lambda r: r.reduced / 8, lambda r, s: r.reduced / s / 1e9)
    if bandwidth:
        bandwidth["plain copy of the input"] = copies(summaries, results, reduces)
    tiny = {}
    for workload, name in (("dispatch_double", "x*2"), ("dispatch_psum", "psum")):
        rows = [r.name for r in table.ROWS if r.workload == workload]
        for side, line in points(summaries, rows, lambda r: r.devices, lambda r, s: s * 1e6).items():
            tiny[f"{side}, {name}"] = line
    base = "cnn_step_float32_128"
    with_base = {g: [base, *(r.name for r in table.ROWS if r.group == g)] for g in ("cnn_devices", "cnn_batch", "cnn_channels")}

    def milliseconds(_, s):
        return s * 1e3

    drawn = {
        "all_reduce": ("All-reduce over 8 devices", "bytes a device", "GB/s of input", bandwidth, bytes_text, "{:g}".format),
        "tiny_devices": ("Tiny pmap call", "devices", "µs", tiny, "{:g}".format, "{:g}".format),
        "cnn_devices": ("CNN step, batch 128 over the devices", "devices", "ms",
                        points(summaries, with_base["cnn_devices"], lambda r: r.devices, milliseconds), "{:g}".format, "{:g}".format),
        "cnn_batch": ("CNN step, 8 devices", "batch", "ms",
                      points(summaries, with_base["cnn_batch"], lambda r: r.flops / table.cnn_flops(1), milliseconds), "{:g}".format, "{:g}".format),
        "cnn_channels": ("CNN step, batch 128, 8 to 128 channels", "GFLOP a step", "ms",
                         points(summaries, with_base["cnn_channels"], lambda r: r.flops / 1e9, milliseconds), "{:.3g}".format, "{:g}".format),
    }
    return {name: (svg.curve(*what), what) for name, what in drawn.items() if any(len(line) > 1 for line in what[3].values())}


def growth(drawn):
    """The curves as tables: one line for each x, one column for each side."""
    out = []
    for name, (_, (title, x_label, y_label, series, x_text, _)) in drawn.items():
        sides = list(series)
        xs = sorted({round(x, 6) for line in series.values() for x, _ in line})
        out += ["", f"**{title}** ({y_label}; `{name}.svg`)", "", f"| {x_label} | " + " | ".join(sides) + " |", "|---:|" + "---:|" * len(sides)]
        for x in xs:
            values = [next((y for a, y in series[s] if math.isclose(a, x, rel_tol=1e-5)), None) for s in sides]
            out.append(f"| {x_text(x)} | " + " | ".join("" if v is None else f"{v:.3g}" if v < 1000 else f"{v:.0f}" for v in values) + " |")
    return out


def misses(summaries):
    """The rows below their goal, in one sentence."""
    below = [f"{row.title} ({times(s['better'])} of {row.goal:g})" for row, s in summaries if row.goal and s["better"] and s["better"] < row.goal]
    return "Every goal is reached." if not below else f"**Below the goal:** {'; '.join(below)}."


# Groups with their own tables, in which the ratio is to the best of all peers.
APART = {"training": "Training, beside JAX and PyTorch", "plugin": "On a plugin", "processes": "Across processes"}


def marks(name):
    return f"<!-- {name}: written by bench/compare.py --document -->", f"<!-- end of {name} -->"


def document(path, lines, name):
    """Inserts the figures of that name into a page, between its two marks."""
    begin, end = marks(name)
    with open(path) as f:
        text = f.read()
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{path} has no place for the figures: {begin} ... {end}")
    with open(path, "w") as f:
        f.write("\n".join([before + begin, *lines, end + after]))


def apart(group, summaries, results):
    """The table of such a group; empty if it has no rows."""
    chosen = [(p, r) for p, r in zip(summaries, results) if p[0].group == group]
    rows = [p for p, _ in chosen]
    return ["", *conditions([r for _, r in chosen]), "", *goals(rows, labels([s for _, s in rows])), "", misses(rows), ""] if rows else []


def write(folder, rows_folder, page=None):
    summaries, results = [], []
    for row in table.ROWS:
        source = next(r for r in table.ROWS if r.name == (row.memory_of or row.name))
        path = os.path.join(rows_folder, table.file_name(source))
        if os.path.exists(path):
            with open(path) as f:
                result = json.load(f)
            summaries.append((row, summary(row, result)))
            results.append(result)
    if not results:
        return
    drawn = curves(summaries, results)
    for name, (picture, _) in drawn.items():
        with open(os.path.join(folder, name + ".svg"), "w") as f:
            f.write(picture)
    of_goals = [p for p in summaries if p[0].group == "goals"]
    tables = {group: apart(group, summaries, results) for group in APART}
    for group, lines in tables.items():
        if page and lines:
            document(page, lines, group)
    lines = ["", *conditions(results), "", "Medians over interleaved rounds; a ratio is the paired median of theirs / ours.", "",
             *goals(of_goals, labels([s for _, s in of_goals])), "", misses(of_goals), "", "## How it grows", "",
             "Minima over the rounds.", *growth(drawn), ""]
    if page and of_goals:
        document(page, lines, "figures")
    own = [line for group, title in APART.items() for line in (f"## {title}", *tables[group])]
    lines = ["# Benchmarks", *lines, *own, "## All figures", "", *everything(summaries), ""]
    with open(os.path.join(folder, "table.md"), "w") as f:
        f.write("\n".join(lines))
    with open(os.path.join(folder, "table.json"), "w") as f:
        json.dump({"conditions": [{k: r[k] for k in ("row", "when", "machine", "ours", "peers", "libraries")} for r in results],
                   "rows": [s for _, s in summaries]}, f, indent=1)
    print(f"\n{os.path.join(folder, 'table.md')}, table.json, {', '.join(n + '.svg' for n in drawn) or 'no curve yet'}")
