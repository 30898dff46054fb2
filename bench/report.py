"""Tables of bench/RESULTS.md, from what bench/run.py measured: {shape: {"facts": …, "results":
{contestant: [samples]}, "scans": {contestant: {query: seconds}}}}; and the goals, computed from
them."""

import json
import statistics

import measure

MIB = measure.MIB
# What decodes every value and encodes it again; the others are limits, or lithify.
DECODING = ("DuckDB", "Polars", "pyarrow", "Rust parquet-concat and -rewrite", "Spark")
MANY = 1 / 3  # From this share of the bytes on, packing case 4 takes longer than moving the rest.
NOISE = 1.05  # Times of scans that are no further apart are the same.
MEMORY_GOAL = 512 * MIB


def middle(samples, key):
    return statistics.median(sample[key] for sample in samples)


class Figures:
    """One shape's medians, and what the goals ask of them."""

    def __init__(self, name, measured):
        self.name = name
        self.facts = measured["facts"]
        self.results = {who: samples for who, samples in measured["results"].items() if samples}
        self.failed = measured["failed"]
        self.scans = measured["scans"]
        self.own = next(who for who in self.results
                        if who.startswith("lithify, ") and who != "lithify, 1 thread")
        self.recode = self.own.replace("lithify", "lithify decoding all")

    def of(self, who, key):
        return middle(self.results[who], key) if who in self.results else None

    def peers(self):
        return [who for who in self.results if who.startswith(DECODING)]

    def best(self, key):
        """(value, whose) of the peer with the least."""
        return min((self.of(who, key), who) for who in self.peers())

    def cases(self):
        return self.results["the codec alone, 1 thread"][0]["codec"]["cases"]

    def many(self):
        return self.cases()["many"] >= MANY

    def times_faster(self, who):
        """(wall, CPU) of the fastest peer by that of `who`: CPU of one thread, where there is less
        of it, as for the peers."""
        alone = min(self.of(other, "cpu") for other in (who, one_thread(who))
                    if other in self.results)
        return (self.best("wall")[0] / self.of(who, "wall"), self.best("cpu")[0] / alone)


def one_thread(who):
    return who.split(", ")[0] + ", 1 thread"


def percent(value):
    return f"{100 * value:.0f} %"


def shape_lines(figures):
    facts, own = figures.facts, figures.own
    cases = figures.cases()
    held = ", ".join(f"{percent(cases[case])} {text}" for case, text in (
        ("plain", "pages without a dictionary"), ("few", "dictionaries of few values"),
        ("unique", "dictionaries of unique values"), ("many", "other dictionaries")))
    lines = [f"## {figures.name}: {facts['files']:,} files, {facts['bytes'] / MIB:.2f} MiB, "
             f"{facts['rows']:,} rows, {facts['columns']} columns", "",
             f"Writer {facts['writer']}, codec {facts['codec']}, {facts['groups']:,} row groups, "
             f"nothing deleted. Bytes: {held}. Measured {facts['date']}, lithify "
             f"{facts['binary']}.", "",
             "| | rounds | wall s | CPU s | MiB/s of input | peak MiB | output MiB | files | "
             "row groups | wall, lithify = 1 | CPU, lithify = 1 |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for who, samples in figures.results.items():
        wall, cpu = figures.of(who, "wall"), figures.of(who, "cpu")
        lines.append(
            f"| {who} | {len(samples)} | {wall:.2f} | {cpu:.2f} | "
            f"{facts['bytes'] / MIB / max(wall, 1e-6):.1f} | {figures.of(who, 'peak') / MIB:.0f} | "
            f"{figures.of(who, 'size') / MIB:.2f} | {samples[-1]['files'] or '-'} | "
            f"{samples[-1]['groups'] or '-'} | {wall / figures.of(own, 'wall'):.2f} | "
            f"{cpu / figures.of(own, 'cpu'):.2f} |")
    lines.append("")
    for who, why in figures.failed.items():
        lines += [f"{who} could not: {why}", ""]
    if chunks := figures.results[own][-1]["chunks"]:
        told = ", ".join(f"{name} {count:,}" for name, count in sorted(chunks.items()))
        lines += [f"Column chunks as lithify counts them: {told}.", ""]
    return lines + scan_lines(figures)


def scan_lines(figures):
    if not figures.scans:
        return []
    base = figures.scans[figures.own]
    lines = ["| DuckDB reads what was made by | every value, ms | lithify's = 1 | "
             f"`{figures.facts['where']}`, ms | lithify's = 1 |", "|---|---:|---:|---:|---:|"]
    for who, times in figures.scans.items():
        lines.append(f"| {who} | {1000 * times['full']:.0f} | {times['full'] / base['full']:.2f} | "
                     f"{1000 * times['selective']:.1f} | "
                     f"{times['selective'] / base['selective']:.2f} |")
    odd = [who for who, times in figures.scans.items() if times["differs"]]
    if odd:
        lines += ["", "Other types of columns than in the inputs, so that the hashes of values "
                      f"differ: {', '.join(odd)}."]
    return lines + [""]


# --- goals -------------------------------------------------------------------------------------

def verdict(reached):
    return "not measured" if reached is None else "reached" if reached else "**missed**"


def goal(shape, what, wanted, got, reached):
    return {"shape": shape, "what": what, "wanted": wanted, "got": got,
            "reached": None if reached is None else bool(reached)}


def speed_goals(f):
    """Where case 4 rules, and where it does not."""
    wall, cpu = f.times_faster(f.own)
    wanted = 3 if f.many() else 10
    many = percent(f.cases()["many"])
    found = [goal(f.name, f"faster than the fastest peer, case 4 holds {many}", f"{wanted} times",
                  f"wall {wall:.1f} ({f.best('wall')[1]}), CPU {cpu:.1f} ({f.best('cpu')[1]})",
                  min(wall, cpu) >= wanted)]
    if f.many():
        alone, codec = one_thread(f.own), "the codec alone, 1 thread"
        wall, cpu = (f.of(codec, key) / f.of(alone, key) for key in ("wall", "cpu"))
        return found + [goal(f.name, "speed, the codec's own = 1, one thread", "0.8",
                             f"wall {wall:.2f}, CPU {cpu:.2f}", min(wall, cpu) >= 0.8)]
    share = f.of("cp and fsync", "wall") / f.of(f.own, "wall")
    return found + [goal(f.name, "speed, cp and fsync = 1", "0.5", f"{share:.2f}", share >= 0.5)]


def recode_goal(f):
    if f.recode not in f.results:
        return goal(f.name, "decoding all: faster than the fastest peer", "1.5 times",
                    "this lithify has no switch for it", None)
    wall, cpu = f.times_faster(f.recode)
    return goal(f.name, "decoding all: faster than the fastest peer", "1.5 times",
                f"wall {wall:.2f} ({f.best('wall')[1]}), CPU {cpu:.2f} ({f.best('cpu')[1]})",
                min(wall, cpu) >= 1.5)


def bound_goals(f):
    peak, who = max((f.of(who, "peak"), who) for who in f.results if who.startswith("lithify"))
    size, best = f.best("size")
    share = f.of(f.own, "size") / size
    found = [goal(f.name, "peak memory", "512 MiB", f"{peak / MIB:.0f} MiB ({who})",
                  peak <= MEMORY_GOAL),
             goal(f.name, "output, the smallest peer's = 1", "1.03", f"{share:.3f} ({best})",
                  share <= 1.03)]
    for key, what in (("full", "reading every value"), ("selective", "a selective query")):
        times = [(f.scans[who][key], who) for who in f.scans if who.startswith(DECODING)]
        if times:
            least, who = min(times)
            ratio = f.scans[f.own][key] / least
            found.append(goal(f.name, f"time of {what}, the fastest peer's output = 1",
                              f"1, noise {NOISE}", f"{ratio:.2f} ({who})", ratio <= NOISE))
    return found


def goals(all_figures, deletes):
    """All goals of issue 5; `deletes`: those that bench/iceberg.py measured."""
    found = []
    for f in all_figures:
        found += speed_goals(f) + [recode_goal(f)] + bound_goals(f)
    return found + deletes


ALL_GOALS = ("The fastest peer is the fastest of those that decode, each time for wall and CPU "
             "time apart, whatever its number of threads; a goal of speed is reached if both are. "
             "Case 4, dictionaries of many values that are not unique, rules where it holds "
             f"{percent(MANY)} of the bytes or more: there the goal is 3 times, elsewhere 10.")


def goal_lines(found, note):
    """First how many of each goal are reached, then each with its number."""
    by_goal = {}
    for item in found:
        by_goal.setdefault((item["what"].partition(", case 4")[0], item["wanted"]), []).append(
            item["reached"])
    lines = ["## Goals", "", note, "", "| goal | wanted | reached on |", "|---|---|---|"]
    for (what, wanted), reached in by_goal.items():
        measured = [one for one in reached if one is not None]
        lines.append(f"| {what} | {wanted} | {sum(measured)} of {len(measured)} |")
    lines += ["", "| shape | goal | wanted | got | |", "|---|---|---|---|---|"]
    for item in found:
        lines.append(f"| {item['shape']} | {item['what']} | {item['wanted']} | {item['got']} | "
                     f"{verdict(item['reached'])} |")
    return lines + [""]


def delete_goals(path):
    """(goals, a note of where they are from)"""
    if not path.exists():
        return [], "Deletes were not measured yet: `./dev bench iceberg`."
    stored = json.loads(path.read_text(encoding="utf-8"))
    return stored["goals"], (f"Deletes are from `./dev bench iceberg` of {stored['date']}, "
                             "bench/ICEBERG.md.")


def write(out, stored, head, deletes):
    figures = [Figures(name, measured) for name, measured in stored.items()]
    body = [line for f in figures for line in shape_lines(f)]
    found, note = delete_goals(deletes)
    tail = goal_lines(goals(figures, found), f"{ALL_GOALS} {note}")
    out.write_text("\n".join(head + body + tail), encoding="utf-8")
