"""Shared by torch_step.py, ddp_step.py and jax_step.py: options, the loop over steps, and the printed line of name=value
pairs. Measures exactly as train_step.c does."""

import argparse
import statistics
import time

from configurations import read_configurations, work

MAX_STEPS = 1000


def parse_options(about, variants, precisions, **flags):
    """Returns the options and the Configuration. flags: more options without a value, with their help."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("configuration", choices=read_configurations())
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=precisions, default=precisions[0], help="of matrix products")
    parser.add_argument("--steps", type=int, default=0, help="in total; 0: until --seconds have passed")
    parser.add_argument("--seconds", type=float, default=10, help="to measure, but at least three steps")
    parser.add_argument("--started", type=float, default=time.monotonic(), help="start of the process on CLOCK_MONOTONIC")
    for name, explanation in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=explanation)
    options = parser.parse_args()
    return options, read_configurations()[options.configuration]


def peak_rss_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def torch_build(torch):
    """Describes what PyTorch multiplies matrices with."""
    mkl = "MKL" if torch.backends.mkl.is_available() else "no MKL"
    capability = torch.backends.cpu.get_cpu_capability()
    return (
        f"torch {torch.__version__} ({mkl}, {capability}, {bfloat16_units(torch)}, {torch.get_num_threads()} threads)"
    )


def bfloat16_units(torch):
    """Names the instructions that multiply bfloat16 numbers, if this version of PyTorch can tell."""
    has_amx, has_dpbf16 = (getattr(torch.cpu, f"_is_{name}_supported", bool)() for name in ("amx_tile", "avx512_bf16"))
    return "AMX" if has_amx else f"{'AVX512_BF16' if has_dpbf16 else 'no bfloat16 units'}, medium is float32 without AMX"


def measure(step, options, configuration, build):
    """Times step(i) and prints the results. step waits until it is complete and returns a function that reads the
    loss."""
    max_steps = options.steps or MAX_STEPS
    cold = 3 if max_steps > 5 and work(configuration) < 1e11 else 1 if max_steps > 1 else 0
    times, count = [], 0
    begin = time.monotonic()
    while count < max_steps and (options.steps or len(times) < 3 or sum(times) < options.seconds):
        loss = step(count)
        end = time.monotonic()
        if count == 0:
            first_step, first_loss = end, loss()
        if count >= cold:
            times.append(end - begin)
        count += 1
        begin = time.monotonic()
    found = {
        "min_ms": f"{min(times) * 1e3:.4f}",
        "median_ms": f"{statistics.median(times) * 1e3:.4f}",
        "peak_rss_mib": f"{peak_rss_mib():.1f}",
        "startup_ms": f"{(first_step - options.started) * 1e3:.2f}",
        "total_ms": f"{(end - options.started) * 1e3:.1f}",
        "steps": count,
        "first_loss": f"{first_loss:.5f}",
        "last_loss": f"{loss():.5f}",
        "build": build,
    }
    print(*(f"{name}={value}" for name, value in found.items()), flush=True)
