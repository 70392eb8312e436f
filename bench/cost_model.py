"""Predicts training steps in more processes than were measured, from the points that processes.py writes.

    cost_model.py bench/results/processes.csv       prints the model, its check and the prediction

In a step, P processes exchange G bytes of gradients and then as many of parameters. Each process sends 2 (P - 1)
messages, with b = 2 G (P - 1) / P bytes together, in two phases. On a link with rate R and delay D, the model is

    exchange = message 2 (P - 1) + trips 2 D + wire 8 b / R + processor b

Its four coefficients are the least squares of the relative errors, and are not negative. Without a link (one machine),
the terms with D and R are absent. The model adds the exchange to the step of one process: nothing overlaps."""

import argparse
import csv
import pathlib
from collections import namedtuple

from report import markdown_table

# Times in seconds, bytes, the rate in bit/s (0 on one machine).
Point = namedtuple("Point", "configuration network scaling processes threads rate delay bytes step local exchange")
Model = namedtuple("Model", "message trips wire processor")

ENGINE = "tapehead"
FITTED_PROCESSES = 2  # more could have to share this machine's processors
PREDICTED, PROCESSES, RATES, DELAY = ["char12", "gpt2s", "gpt2l"], [16, 64, 256, 1024], [10e9, 100e9], 50e-6
SWEEPS = 20000


def read_points(path):
    """Returns Tapehead's points; exchange is the time in the transport."""
    with open(path, newline="") as file:
        return [point_of(row) for row in csv.DictReader(file) if row["engine"] == ENGINE]


def point_of(row):
    def number(name, unit):
        return float(row[name] or 0) * unit

    return Point(
        row["configuration"],
        row["network"],
        row["scaling"],
        int(row["processes"]),
        int(row["threads"]),
        number("rate_gbit", 1e9),
        number("delay_us", 1e-6),
        number("bytes", 1),
        number("median_ms", 1e-3),
        number("local_median_ms", 1e-3),
        number("transport_ms", 1e-3),
    )


# -- the model --


def terms(processes, rate, delay, size):
    """Returns the factors of the coefficients, in the order of Model."""
    sent = 2 * size * (processes - 1) / processes
    return [2 * (processes - 1), 2 * delay, 8 * sent / rate if rate else 0, sent]


def terms_of(point):
    return terms(point.processes, point.rate, point.delay, point.bytes)


def seconds(model, factors):
    return sum(coefficient * factor for coefficient, factor in zip(model, factors))


def fit(points):
    """Returns the Model with the least squares of the relative errors, by coordinate descent."""
    rows = [[factor / p.exchange for factor in terms_of(p)] for p in points]
    squares = [sum(row[i] ** 2 for row in rows) for i in range(len(Model._fields))]
    found = [0.0] * len(squares)
    errors = [-1.0] * len(rows)  # of the relative exchange
    for _ in range(SWEEPS):
        for i, square in enumerate(squares):
            if square == 0:
                continue
            better = max(0.0, found[i] - sum(e * row[i] for e, row in zip(errors, rows)) / square)
            errors = [e + (better - found[i]) * row[i] for e, row in zip(errors, rows)]
            found[i] = better
    return Model(*found)


def fitted(points):
    return [p for p in points if p.processes == FITTED_PROCESSES and p.scaling == "strong" and p.exchange > 0]


def checks(points):
    """Yields (point, predicted exchange). The model of a fitted point is fitted to the others. The model of a point
    with more processes is fitted to all of them."""
    chosen = fitted(points)
    for point in chosen:
        yield point, seconds(fit([p for p in chosen if p != point]), terms_of(point))
    model = fit(chosen)
    for point in points:
        if point.processes > FITTED_PROCESSES and point.scaling == "strong" and point.exchange > 0:
            yield point, seconds(model, terms_of(point))


# -- the report --


def milliseconds(seconds):
    return f"{seconds * 1e3:.4g}" if seconds < 10 else f"{seconds * 1e3:.0f}"


def check_rows(points):
    for point, predicted in checks(points):
        yield [
            point.configuration,
            point.network,
            str(point.processes),
            milliseconds(point.exchange),
            milliseconds(predicted),
            f"{predicted / point.exchange:.2f}",
            milliseconds(point.step),
            milliseconds(point.local + predicted),
            f"{(point.local + predicted) / point.step:.2f}",
        ]


def prediction_rows(points, model):
    """Yields a row for each predicted configuration, rate and number of processes: weak scaling."""
    sizes = {p.configuration: p.bytes for p in points if p.bytes}
    steps = {p.configuration: p.step for p in points if (p.processes, p.threads) == (1, 1)}
    for name in (name for name in PREDICTED if name in steps):
        # gpt2l and gpt2s differ in the length only: gpt2l has 960 more rows of the position embedding.
        size = sizes.get(name) or sizes.get("gpt2s", 0) + 960 * 768 * 4
        for rate in RATES:
            for processes in PROCESSES:
                exchange = seconds(model, terms(processes, rate, DELAY, size))
                step = steps[name] + exchange
                yield [
                    name,
                    f"{rate / 1e9:g} Gbit/s",
                    str(processes),
                    milliseconds(steps[name]),
                    milliseconds(exchange),
                    milliseconds(step),
                    f"{steps[name] / step:.0%}",
                ]


def report(points):
    """Yields the lines of the report in Markdown."""
    chosen = fitted(points)
    yield "## Prediction"
    yield ""
    if len(chosen) <= len(Model._fields) or not any(p.configuration in PREDICTED for p in chosen):
        yield f"Omitted: the {len(chosen)} measured points with {FITTED_PROCESSES} processes are too few."
        return
    model = fit(chosen)
    yield (
        "This section is a prediction by `bench/cost_model.py`, not a measurement. In the model, the "
        f"exchange consists of {model.message * 1e6:.3g} µs for each message, {model.trips:.3g} times the delay for each "
        f"of two phases, {model.wire:.3g} times the time on the link, and {model.processor * 1e9:.3g} ns for each byte."
    )
    yield ""
    yield (
        f"The model is fitted to the {len(chosen)} points with {FITTED_PROCESSES} processes in the next table. A model "
        "that is fitted to the other points predicts each of them. Points with more processes are not fitted. If "
        "processes share processors, their measured exchange includes the wait for a processor."
    )
    yield ""
    header = [
        "configuration",
        "network",
        "processes",
        "exchange ms",
        "predicted",
        "ratio",
        "step ms",
        "predicted",
        "ratio",
    ]
    yield from markdown_table(header, list(check_rows(points)))
    yield ""
    yield (
        "The predicted steps are weak scaling: every process has the whole batch. Each process computes as fast as one "
        f"thread of this machine. The delay is {DELAY * 1e6:.0f} µs. The network carries the messages of all processes "
        "at the full rate. Nothing overlaps. *efficiency*: the step of one process divided by the step."
    )
    yield ""
    header = ["configuration", "network", "processes", "step of one process ms", "exchange ms", "step ms", "efficiency"]
    yield from markdown_table(header, list(prediction_rows(points, model)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=pathlib.Path, help="processes.csv")
    print("\n".join(report(read_points(parser.parse_args().points))))


if __name__ == "__main__":
    main()
