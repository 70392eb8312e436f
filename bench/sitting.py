"""One sitting: the probe, then every configuration in every engine, round by round, and what report.py makes of it.

    sitting.py --programs build/bench/bench --peers build/bench/peers/bin/python --out bench/results

A run is a process of its own. It is repeated, at most REPEATS times, when other processes used more than 2 % of the
processors meanwhile; the least disturbed one counts. Where an engine has several variants, those that are clearly slower
in a round take no part in the next ones; the engine's figures are those of its fastest variant. What peers compile in
the first round they find again in the others."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import report
from configurations import read_configurations

QUICK = ["copyA", "copyB", "char12", "gpt2s"]
SMALL = ["copyA", "copyB"]
BFLOAT16 = ["char12", "gpt2s"]  # run with products in bfloat16 as well, under the name char12-bf16
REPEATS, DISTURBED = 3, 0.02
SLOWER = 1.05  # than the fastest variant of its engine: takes no part in further rounds
LONGEST = 1800  # seconds that a run may take
TICK = os.sysconf("SC_CLK_TCK")
START = time.monotonic()

# A glibc that gives no memory back spares PyTorch from faulting it in again at every step.
KEEP_MEMORY = (
    ("MALLOC_MMAP_THRESHOLD_", "4294967296"),
    ("MALLOC_TRIM_THRESHOLD_", "17179869184"),
    ("MALLOC_TOP_PAD_", "67108864"),
)
YNN = (("XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=individual_dot"),)

Variant = namedtuple("Variant", "engine name program environment")
Run = namedtuple("Run", "values disturbance")


def variants(options, name):
    found = [Variant("tapehead", "", (options.programs / "train_step",), ())]
    if not options.peers:
        return found
    torch, jax = ((options.peers, pathlib.Path(__file__).parent / f"{peer}_step.py") for peer in ("torch", "jax"))
    found.append(Variant("torch-default", "default", torch, ()))
    best = ["tuned", "medium", "compiled"]
    if options.quick:  # compiling takes half a minute, and products decide in the large ones alone
        best = best[:1] if name in SMALL else best[:2]
    found += [Variant("torch-best", variant, torch, KEEP_MEMORY) for variant in best]
    found.append(Variant("jax", "default", jax, ()))
    if not options.quick and not name.endswith("-bf16"):
        found.append(Variant("jax", "ynn", jax, YNN))
    return found


# -- one run --


def busy_seconds():
    """Of all processors since the machine started, what its host took away included; nobody is busy while idle."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def processor_seconds():
    """Of this process and of all its children that have ended."""
    return sum(os.times()[:4])


def run_once(command, environment):
    """(values, disturbance) of a command that prints name=value, or (None, why it failed)."""
    start, busy, own = time.monotonic(), busy_seconds(), processor_seconds()
    command = [*map(str, command), "--started", f"{start:.6f}"]
    try:
        done = subprocess.run(
            command, env={**os.environ, **dict(environment)}, capture_output=True, text=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return None, f"took more than {LONGEST} s"
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    elapsed = time.monotonic() - start
    others = busy_seconds() - busy - (processor_seconds() - own)
    share = others / (elapsed * os.cpu_count())
    # Two ticks of a short run are not yet a disturbance: so coarse is the kernel's count.
    return report.read_values(done.stdout), share if others > 5 / TICK else 0.0


def run(command, environment):
    """The least disturbed of at most REPEATS runs as a Run, or the reason why there is none."""
    best = None
    for _ in range(REPEATS):
        values, disturbance = run_once(command, environment)
        if values is None:
            return disturbance
        if best is None or disturbance < best.disturbance:
            best = Run(values, disturbance)
        if best.disturbance <= DISTURBED:
            break
    return best


# -- the sitting --


def sit(options, chosen):
    """Configuration -> engine -> the runs of its fastest variant, and sentences about what went otherwise than planned."""
    runs = {name: {variant: [] for variant in variants(options, name)} for name in chosen}
    remarks = []
    for number in range(options.rounds):
        for name in chosen:
            for variant in promising(runs[name]):
                outcome = run(command_of(options, name, variant), variant.environment)
                if isinstance(outcome, str):
                    del runs[name][variant]
                    remarks.append(f"{name}: {variant.engine} {variant.name} failed: {outcome}")
                    say(remarks[-1])
                    continue
                runs[name][variant].append(outcome)
                if outcome.disturbance > DISTURBED:
                    remarks.append(
                        f"{name}, round {number + 1}: {variant.engine} disturbed in {REPEATS} runs, "
                        f"other processes used {outcome.disturbance:.1%} of the processors in the quietest"
                    )
                say(
                    f"round {number + 1}: {name} {variant.engine} {variant.name} {outcome.values['min_ms']} ms, "
                    f"others {outcome.disturbance:.1%}"
                )
    return {name: fastest_of_each_engine(runs[name]) for name in chosen}, remarks


def least(runs):
    return min((run.values["min_ms"] for run in runs), default=0)


def promising(runs):
    """The variants that are not clearly slower than another one of their engine."""
    return [
        variant
        for variant in runs
        if all(
            least(runs[variant]) <= SLOWER * least(runs[other]) or not runs[other]
            for other in runs
            if other.engine == variant.engine
        )
    ]


def fastest_of_each_engine(runs):
    engines = {}
    for variant in sorted((variant for variant in runs if runs[variant]), key=lambda variant: least(runs[variant])):
        environment = " ".join(f"{name}={value}" for name, value in variant.environment)
        engines.setdefault(
            variant.engine,
            [Run({**r.values, "variant": variant.name, "environment": environment}, r.disturbance) for r in runs[variant]],
        )
    return {name: engines[name] for name in report.ENGINES if name in engines}


def command_of(options, name, variant):
    configuration = name.removesuffix("-bf16")
    command = [*variant.program, configuration, "--threads", options.threads]
    command += ["--variant", variant.name] if variant.name else []
    command += ["--bfloat16"] if name != configuration else []
    if configuration == "copyA":  # is also how long a thousand steps take from start to end
        return command + ["--steps", 1000]
    if options.quick:
        return command + (["--seconds", 0.5] if configuration in SMALL else ["--steps", 3])
    return command + ["--seconds", 10]


def say(sentence):
    print(f"{time.monotonic() - START:5.0f} s: {sentence}", file=sys.stderr, flush=True)


def choose(options):
    every = list(read_configurations()) + [f"{name}-bf16" for name in BFLOAT16]
    chosen = options.configurations.split(",") if options.configurations else QUICK if options.quick else every
    for name in chosen:
        if name not in every:
            sys.exit(f"sitting.py: there is no configuration {name}; there are {', '.join(every)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="directory of train_step and probe")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with PyTorch and JAX; none: Tapehead alone")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--configurations", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    chosen = choose(options)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # JAX takes its threads from it
    options.out.mkdir(parents=True, exist_ok=True)
    probe = subprocess.run(
        [options.programs / "probe", "--threads", str(options.threads)], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory() as caches:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch", "JAX_COMPILATION_CACHE_DIR": f"{caches}/jax"}
        results, remarks = sit(options, chosen)
    report.write(options.out, options.threads, report.read_values(probe.stdout), results, remarks)


if __name__ == "__main__":
    main()
