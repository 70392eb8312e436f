"""What a sitting writes: latest.csv, latest.md with the machine beside the figures, latest.svg.

report.py DIRECTORY     writes kernels.md there, from the CSV of products, attention and elementwise beside it"""

import csv
import datetime
import pathlib
import statistics
import sys

import chart

ENGINES = ["tapehead", "torch-default", "torch-best", "jax"]
KERNELS = {
    "products": "The layers of a GPT (dy w and dyT x are their gradients), few rows, attention's heads, odd sizes.",
    "attention": "Forward and backward. of_causal: time of both over that of plain causal attention; padded: lengths "
    "from a quarter to three quarters.",
    "elementwise": "Operations over elements and rows. ns: an element of x; limit_ns: its bytes at the triad's "
    "bandwidth; of_limit: limit_ns / ns. Operands nearer than the triad's can pass the limit.",
}


def read_values(printed):
    """name=value pairs; those that are numbers as numbers. build= goes to the end of its line."""
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


def summarise(runs):
    """One engine's rounds as one row; start-up is the first round's, when no peer has anything compiled."""
    values = [run.values for run in runs]
    least = min(values, key=lambda v: v["min_ms"])
    return {
        **least,
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


def machine_lines(threads, probe, build):
    with open("/proc/cpuinfo") as info:
        cpu = dict(line.split(":", 1) for line in info if ":" in line)
    model = next((value.strip() for key, value in cpu.items() if key.strip() == "model name"), "unknown processor")
    with open("/proc/stat") as stat:
        cores = sum(line[:4] != "cpu " and line.startswith("cpu") for line in stat)
    yield f"Measured on {datetime.date.today()}: {model}, {cores} processors, {threads} threads; {build}."
    yield ""
    rows = [
        [
            f"multiply-adds, {isa}",
            f"{probe[f'fma_{isa}_1_gflops']:.0f} GF/s",
            f"{probe[f'fma_{isa}_n_gflops']:.0f} GF/s",
        ]
        for isa in ("baseline", "avx2", "avx512", "bfloat16")
        if probe.get(f"fma_{isa}_1_gflops")
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
    return max(probe[f"fma_{isa}_n_gflops"] for isa in ("baseline", "avx2", "avx512"))


# -- the sitting --


def compared(results):
    """Configurations that Tapehead and a peer ran."""
    return [name for name, engines in results.items() if "tapehead" in engines and len(engines) > 1]


def ratio(engines, engine):
    """An engine's least time in times of Tapehead's; None without either."""
    if "tapehead" not in engines or engine not in engines:
        return None
    return engines[engine]["min_ms"] / engines["tapehead"]["min_ms"]


def step_rows(results, probe):
    """One row for each engine of each configuration: the work is Tapehead's count, the same for all."""
    for name, engines in results.items():
        own = engines.get("tapehead")
        for engine in (e for e in ENGINES if e in engines):
            found = engines[engine]
            gflops = own["work_gf"] / found["min_ms"] * 1e3 if own else None
            yield [
                name,
                f"{engine} ({found['variant']})" if found["variant"] else f"**{engine}**",
                f"{found['min_ms']:.4g}",
                f"{found['median_ms']:.4g}",
                f"{ratio(engines, engine):.2f}" if own else "-",
                f"{found['peak_rss_mib']:.1f}",
                f"{gflops:.1f}" if own else "-",
                f"{gflops / float32_peak(probe):.0%}" if own else "-",
                f"{found['startup_ms']:.0f}",
            ]


STEP_HEADER = [
    "configuration",
    "engine",
    "min ms",
    "median ms",
    "times Tapehead",
    "peak RSS MiB",
    "GF/s",
    "of float32 peak",
    "start-up ms",
]


def markdown(threads, probe, results, remarks):
    own = [engines["tapehead"] for engines in results.values() if "tapehead" in engines]
    yield "# Training steps, beside PyTorch and JAX"
    yield ""
    yield from machine_lines(threads, probe, own[0]["build"] if own else "")
    yield ""
    builds = sorted(
        {found["build"] for engines in results.values() for engine, found in engines.items() if engine != "tapehead"}
    )
    yield f"Peers: {', '.join(builds) or 'none'}. What the columns mean: [bench/README.md](../README.md)."
    settings = {found["environment"]: e for engines in results.values() for e, found in engines.items()}
    yield from (f"{engine} ran with {words}." for words, engine in settings.items() if words)
    yield ""
    yield from markdown_table(STEP_HEADER, list(step_rows(results, probe)))
    if compared(results):
        yield ""
        yield "![time in times of Tapehead's](latest.svg)"
    if "copyA" in results:
        totals = (f"{e} {results['copyA'][e]['total_ms'] / 1e3:.2f} s" for e in ENGINES if e in results["copyA"])
        yield ""
        yield f"1000 steps of copyA, start-up included: {', '.join(totals)}."
    if own:
        yield ""
        yield "Memory that the library counts in a step, and its forecast:"
        yield ""
        rows = [
            [
                name,
                f"{e['tapehead']['forecast_mib']:.1f}",
                f"{e['tapehead']['memory_mib']:.1f}",
                f"{e['tapehead']['forecast_mib'] / e['tapehead']['memory_mib']:.3f}",
            ]
            for name, e in results.items()
            if "tapehead" in e
        ]
        yield from markdown_table(["configuration", "forecast MiB", "counted MiB", "forecast / counted"], rows)
    if remarks:
        yield ""
        yield "What went otherwise than planned:"
        yield ""
        yield from (f"- {remark}." for remark in remarks)


def write(directory, threads, probe, runs, remarks):
    results = {name: {e: summarise(engines[e]) for e in engines} for name, engines in runs.items() if engines}
    with open(directory / "latest.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["configuration", "engine", "min_ms", "median_ms", "peak_rss_mib"])
        for name, engines in results.items():
            for engine in (e for e in ENGINES if e in engines):
                found = engines[engine]
                rows.writerow(
                    [
                        name,
                        engine,
                        f"{found['min_ms']:.4f}",
                        f"{found['median_ms']:.4f}",
                        f"{found['peak_rss_mib']:.1f}",
                    ]
                )
    (directory / "latest.md").write_text("\n".join(markdown(threads, probe, results, remarks)) + "\n")
    names = compared(results)
    ratios = {name: [ratio(results[name], engine) for engine in ENGINES[1:]] for name in names}
    if names:
        title = "Time of a training step, in times of Tapehead's"
        chart.bars(directory / "latest.svg", title, names, ENGINES[1:], ratios, "Tapehead's time; less is faster")


def write_kernels(directory):
    lines = ["# Kernels by shape"]
    for name, about in KERNELS.items():
        path = directory / f"{name}.csv"
        if path.exists():
            with open(path, newline="") as file:
                header, *rows = csv.reader(file)
            lines += ["", f"## {name}", "", about, "", *markdown_table(header, rows)]
    (directory / "kernels.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_kernels(pathlib.Path(sys.argv[1]))
