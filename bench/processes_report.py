"""Writes processes.md for processes.py."""

import datetime
import os
from collections import namedtuple

import cost_model
from report import machine_name, markdown_table

Condition = namedtuple("Condition", "configuration network scaling processes threads")
Link = namedtuple("Link", "rate delay")  # Gbit/s, microseconds

ONE_MACHINE = "one machine"
NETWORKS = {
    "10 Gbit/s, 50 µs": Link(10, 50),
    "10 Gbit/s, 1 ms": Link(10, 1000),
    "1 Gbit/s, 50 µs": Link(1, 50),
    "1 Gbit/s, 1 ms": Link(1, 1000),
}
ENGINES = ["tapehead", "torch"]
PREDICTED_ONLY = "gpt2l"  # one process measures its step
PROCESSORS = len(os.sched_getaffinity(0))
LIMITS = {"char12": 1.05, "gpt2s": 1.10, "copyB": 1.10}  # 2 processes x 1 thread against 1 process x 2 threads
EXCHANGE_LIMIT = 0.5  # of DistributedDataParallel's exchange, on one machine and with 10 Gbit/s


def milliseconds(values, name):
    return "-" if values is None or values.get(name) is None else cost_model.milliseconds(values[name] * 1e-3)


def quotient(above, below, name, limit=0):
    """Returns above / below of a column as a cell, with the limit in parentheses."""
    if not above or not below or not above.get(name) or not below.get(name):
        return "-"
    return f"{above[name] / below[name]:.2f}" + (f" (at most {limit:.2f})" if limit else "")


def step_rows(results):
    """Yields a row for each condition on one machine."""
    for c in dict.fromkeys(c for _, c in results if c.network == ONE_MACHINE and c.configuration != PREDICTED_ONLY):
        row = [c.configuration, c.scaling if c.processes > 1 else "-", f"{c.processes} x {c.threads}"]
        for engine in ENGINES:
            values = results.get((engine, c))
            limit = LIMITS.get(c.configuration) if (engine, c.scaling, c.processes) == ("tapehead", "strong", 2) else 0
            row += [milliseconds(values, "min_ms"), milliseconds(values, "median_ms")]
            row.append(quotient(values, results.get((engine, reference(c))), "median_ms", limit))
        yield row


def reference(c):
    """Returns the condition that c is compared with, or None."""
    if c.processes == 1:
        return None
    return c._replace(scaling="strong", processes=1, threads=c.processes if c.scaling == "strong" else 1)


def exchange_rows(results):
    """Yields a row for each condition with several processes, divided batches only: the same bytes are exchanged in
    weak scaling."""
    for c in dict.fromkeys(c for _, c in results if c.processes > 1 and c.scaling == "strong"):
        ours, theirs = (results.get((engine, c)) for engine in ENGINES)
        fast = c.network == ONE_MACHINE or NETWORKS[c.network].rate == 10
        limit = EXCHANGE_LIMIT if fast and c.processes <= PROCESSORS else 0
        yield [
            c.configuration,
            c.network,
            str(c.processes),
            f"{(ours or theirs)['bytes'] / 1e6:.4g}",
            milliseconds(ours, "median_ms"),
            milliseconds(theirs, "median_ms"),
            quotient(ours, theirs, "median_ms"),
            milliseconds(ours, "exchange_ms"),
            milliseconds(theirs, "exchange_ms"),
            quotient(ours, theirs, "exchange_ms", limit),
            milliseconds(ours, "transport_ms"),
            milliseconds(theirs, "all_reduce_ms"),
        ]


def write(path, results, builds, remarks, points, rounds):
    """Writes processes.md. results: {(engine, Condition): values}."""
    path.write_text("\n".join(lines(results, builds, remarks, points, rounds)) + "\n")


def lines(results, builds, remarks, points, rounds):
    yield "# Training in several processes, beside PyTorch's DistributedDataParallel"
    yield ""
    yield (
        f"Measured on {datetime.date.today()}: {machine_name()}, {PROCESSORS} processors, rounds: {rounds}; "
        f"{'; '.join(builds)}."
    )
    yield (
        "Tapehead exchanges over MPI, PyTorch over gloo. PyTorch has the fused AdamW and a malloc that keeps its "
        f"memory. More than {PROCESSORS} processes share processors."
    )
    yield ""
    yield "## One machine"
    yield ""
    yield (
        "*strong*: the processes divide the batch. The ratio compares with one process that has as many threads. "
        "*weak*: every process has the whole batch. The ratio compares with one process and one thread."
    )
    yield ""
    header = ["configuration", "scaling", "processes x threads"]
    header += [f"{engine} {what}" for engine in ENGINES for what in ("min ms", "median ms", "ratio of medians")]
    yield from markdown_table(header, list(step_rows(results)))
    yield ""
    yield "## Exchange"
    yield ""
    yield "The processes divide the batch; each has one thread."
    yield ""
    yield "- *exchange*: the median step minus the median step that exchanges nothing."
    yield "- *transport*: the time in the transport, in the process that waits least for others."
    yield "- *all-reduce*: the time in which gloo adds up as many bytes, without a step."
    yield ""
    yield (
        "On one machine gloo uses TCP on the loopback device, and MPI uses shared memory. The networks are emulated: "
        "see [bench/README.md](../README.md)."
    )
    yield ""
    header = ["configuration", "network", "processes", "gradients MB", "tapehead step ms", "torch step ms", "ratio"]
    header += ["tapehead exchange ms", "torch exchange ms", "ratio", "tapehead transport ms", "torch all-reduce ms"]
    yield from markdown_table(header, list(exchange_rows(results)))
    yield ""
    yield from cost_model.report(points)
    if remarks:
        yield ""
        yield "Remarks:"
        yield ""
        yield from (f"- {remark}" for remark in remarks)
