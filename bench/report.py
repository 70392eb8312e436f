"""Writes the results of a session: latest.csv, latest.md with the machine, the figures and the comparisons of
comparisons.py, and latest.svg.

report.py DIRECTORY     reads the CSV files there, writes kernels.md, and draws latest.svg again"""

import argparse
import csv
import datetime
import pathlib
import re
import statistics

import chart
import comparisons
from engines import OWN, ROWS, TORCH

OWN_FLOAT32 = OWN[0]
KERNELS = {
    "products": "The layers of a GPT (dy w and dyT x are their gradients), few rows, attention's heads, odd sizes.",
    "attention": "Forward and backward. of_causal: time of both divided by the time of plain causal attention; padded: "
    "lengths from a quarter to three quarters.",
    "elementwise": "Operations on elements and rows. ns: time for each element of x; limit_ns: time for its bytes at the "
    "triad's bandwidth; of_limit: limit_ns / ns, above 1 if operands are in a nearer cache than the triad's.",
}


def read_values(printed):
    """Returns the name=value pairs as a dictionary of numbers; "build" is the text from build= to the end of the
    line."""
    values = {}
    for line in printed.splitlines():
        line, _, build = line.partition("build=")
        if build:
            values["build"] = build
        for pair in line.split():
            name, _, value = pair.partition("=")
            if value:
                values[name] = float(value)
    return values


def summarize(runs):
    """Combines the rounds of a row. The start-up time is from the first round, before peers have compiled anything."""
    values = [run.values for run in runs]
    least = min(values, key=lambda v: v["min_ms"])
    multiplied_by = re.search(r"products=(\S+)", least["build"])
    return {
        **least,
        "variant": least["variant"] or (multiplied_by[1] if multiplied_by else ""),
        "median_ms": statistics.median(v["median_ms"] for v in values),
        "peak_rss_mib": max(v["peak_rss_mib"] for v in values),
        "startup_ms": values[0]["startup_ms"],
        "total_ms": values[0]["total_ms"],
    }


def markdown_table(header, rows):
    number = [
        all(cell.replace(".", "").rstrip("x% ").isdigit() or cell in ("", "-") for cell in column)
        for column in zip(*rows)
    ]
    yield "| " + " | ".join(header) + " |"
    yield "|" + "|".join("---:" if right else "---" for right in number) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


# -- the machine --

FLOAT32_PEAKS = {isa: f"multiply-adds, {isa}" for isa in ("neon", "baseline", "avx2", "avx512")}
PEAKS = {
    **FLOAT32_PEAKS,
    "dpbf16": "bfloat16, dot products",
    "amx": "bfloat16, tile products in registers",
    "amx_l1": "bfloat16, tile products from the first-level cache",
}


def machine_name():
    with open("/proc/cpuinfo") as info:
        cpu = dict(line.split(":", 1) for line in info if ":" in line)
    return next((value.strip() for key, value in cpu.items() if key.strip() == "model name"), "unknown processor")


def machine_lines(threads, probe, build):
    with open("/proc/stat") as stat:
        cores = sum(line[:4] != "cpu " and line.startswith("cpu") for line in stat)
    yield f"Measured on {datetime.date.today()}: {machine_name()}, {cores} processors, {threads} threads; {build}."
    yield ""
    rows = [
        [name, f"{probe[f'fma_{key}_1_gflops']:.0f} GF/s", f"{probe[f'fma_{key}_n_gflops']:.0f} GF/s"]
        for key, name in PEAKS.items()
        if probe.get(f"fma_{key}_1_gflops")
    ]
    rows += [
        [f"triad, {name}", f"{probe[f'triad_{key}_1_gbs']:.0f} GB/s", f"{probe[f'triad_{key}_n_gbs']:.0f} GB/s"]
        for key, name in (("l2", "second-level cache"), ("dram", "memory"))
    ]
    if "round_trip_ns" in probe:
        rows.append(["round trip of a cache line", "-", f"{probe['round_trip_ns']:.0f} ns"])
    rows.append(
        [
            "parallel region, threads that spin / that sleep",
            "-",
            f"{probe['region_active_us']:.2f} / {probe['region_passive_us']:.2f} µs",
        ]
    )
    yield from markdown_table(["probe", "1 thread", f"{threads} threads"], rows)


def float32_peak(probe):
    return max(probe[f"fma_{isa}_n_gflops"] for isa in FLOAT32_PEAKS)


# -- the session --

STEP_HEADER = [
    "configuration",
    "engine",
    "precision",
    "min ms",
    "median ms",
    "of own float32",
    "peak RSS MiB",
    "GF/s",
    "of float32 peak",
    "start-up ms",
]


def step_rows(results, probe):
    """Yields a row for each configuration, engine and precision. All engines use Tapehead's count of the work."""
    for name, found in results.items():
        work = next((values["work_gf"] for values in found.values() if "work_gf" in values), None)
        for row, values in found.items():
            gflops = work / values["min_ms"] * 1e3 if work else None
            share = comparisons.ratio(found, row, [OWN_FLOAT32], "min_ms")
            engine = f"**{row.engine}**" if row in OWN else row.engine
            yield [
                name,
                f"{engine} ({values['variant']})" if values["variant"] else engine,
                row.precision,
                f"{values['min_ms']:.4g}",
                f"{values['median_ms']:.4g}",
                f"{share:.2f}" if share else "-",
                f"{values['peak_rss_mib']:.1f}",
                f"{gflops:.1f}" if gflops else "-",
                f"{gflops / float32_peak(probe):.0%}" if gflops else "-",
                f"{values['startup_ms']:.0f}",
            ]


def torch_best(results):
    """Returns {configuration: fastest row of PyTorch}, without configurations in which PyTorch did not run."""
    best = {name: comparisons.best(found, TORCH, "min_ms") for name, found in results.items()}
    return {name: row for name, row in best.items() if row}


def describe(row, values):
    return f"{row.precision}, {values['variant']}" if values["variant"] else row.precision


def memory_rows(results):
    for name, found in results.items():
        for row in (row for row in OWN if row in found):
            forecast, counted = found[row]["forecast_mib"], found[row]["memory_mib"]
            yield [name, row.precision, f"{forecast:.1f}", f"{counted:.1f}", f"{forecast / counted:.3f}"]


def markdown(threads, probe, results, remarks):
    builds = {row: values["build"] for found in results.values() for row, values in found.items()}
    yield "# Training steps, beside PyTorch and JAX"
    yield ""
    yield from machine_lines(
        threads, probe, next((builds[row] for row in OWN if row in builds), "Tapehead did not run")
    )
    yield ""
    peers = sorted({build for row, build in builds.items() if row not in OWN})
    yield f"Peers: {'; '.join(peers) or 'none'}. For the columns see [bench/README.md](../README.md)."
    settings = {}
    for found in results.values():
        for row, values in found.items():
            settings.setdefault(values["environment"], set()).add(f"{row.engine} ({values['variant']})")
    yield from (f"{', '.join(sorted(who))} ran with {words}." for words, who in settings.items() if words)
    yield ""
    yield from markdown_table(STEP_HEADER, list(step_rows(results, probe)))
    best = torch_best(results)
    if best:
        names = (f"{name} {describe(row, results[name][row])}" for name, row in best.items())
        yield ""
        yield f"The fastest rows of PyTorch, *torch-best*: {'; '.join(names)}."
    header, compared = comparisons.table(results)
    if compared:
        yield ""
        yield "Ratios of the minimum / of the median step; in parentheses the limits on a processor with AMX:"
        yield ""
        yield from markdown_table(header, compared)
    if charted(results):
        yield ""
        yield "![time relative to Tapehead's float32](latest.svg)"
    if "copyA" in results:
        totals = (
            f"{row.engine} {row.precision} {values['total_ms'] / 1e3:.2f} s" for row, values in results["copyA"].items()
        )
        yield ""
        yield f"1000 steps of copyA, start-up included: {', '.join(totals)}."
    memory = list(memory_rows(results))
    if memory:
        yield ""
        yield "Memory of a step, as the library counts it and as it predicts it:"
        yield ""
        yield from markdown_table(
            ["configuration", "precision", "forecast MiB", "counted MiB", "forecast / counted"], memory
        )
    if remarks:
        yield ""
        yield "Remarks:"
        yield ""
        yield from (f"- {remark}." for remark in remarks)


def write_csv(path, results):
    """Writes all rows, and the fastest row of PyTorch again as torch-best."""
    best = torch_best(results)
    with open(path, "w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["configuration", "engine", "precision", "variant", "min_ms", "median_ms", "peak_rss_mib"])
        for name, found in results.items():
            rows = [(row.engine, row) for row in found] + ([("torch-best", best[name])] if name in best else [])
            for engine, row in rows:
                values = found[row]
                figures = [f"{values['min_ms']:.4f}", f"{values['median_ms']:.4f}", f"{values['peak_rss_mib']:.1f}"]
                lines.writerow([name, engine, row.precision, values["variant"], *figures])


def read_csv(path):
    """Reads the columns of write_csv() that the chart needs."""
    results = {}
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            row = next((row for row in ROWS if (row.engine, row.precision) == (line["engine"], line["precision"])), None)
            if row:
                results.setdefault(line["configuration"], {})[row] = {"min_ms": float(line["min_ms"])}
    return results


def charted(results):
    """Returns the configurations that have Tapehead's float32 and another row."""
    return [name for name, found in results.items() if OWN_FLOAT32 in found and len(found) > 1]


def write_chart(path, results):
    groups = charted(results)
    bars = [row for row in ROWS if row != OWN_FLOAT32 and any(row in results[name] for name in groups)]
    values = {name: [comparisons.ratio(results[name], row, [OWN_FLOAT32], "min_ms") for row in bars] for name in groups}
    if groups:
        title = "Time of a training step, relative to Tapehead in float32"
        names = [f"{row.engine} {row.precision}" for row in bars]
        chart.bars(path, title, groups, names, values, "Tapehead in float32; lower is faster")


def write(directory, threads, probe, runs, remarks):
    """Writes all three files. runs: configuration -> row -> runs."""
    results = {name: {row: summarize(found[row]) for row in found} for name, found in runs.items() if found}
    write_csv(directory / "latest.csv", results)
    (directory / "latest.md").write_text("\n".join(markdown(threads, probe, results, remarks)) + "\n")
    write_chart(directory / "latest.svg", results)


def write_kernels(directory):
    lines = ["# Kernels by shape"]
    for name, about in KERNELS.items():
        path = directory / f"{name}.csv"
        if path.exists():
            with open(path, newline="") as file:
                header, *rows = csv.reader(file)
            lines += ["", f"## {name}", "", about, "", *markdown_table(header, rows)]
    (directory / "kernels.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    write_kernels(directory)
    if (directory / "latest.csv").exists():
        write_chart(directory / "latest.svg", read_csv(directory / "latest.csv"))


if __name__ == "__main__":
    main()
