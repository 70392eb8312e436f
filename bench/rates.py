#!/usr/bin/env python3
"""rates.py PROGRAM [--lines FILE] [--mixes MIX...] [--threads N...] [--rounds N]: compares generation with llama.cpp on a
Llama with the shape of Llama 3.2 1B and random weights (gguf_model.py), as Q4_K_M, Q6_K and Q8_0. PROGRAM is the
program generation of this folder. llama.cpp runs twice: with its own layout of the weights, which is a copy, and with
the mapped file. Each run is a process, and the engines take turns. Appends a line for each run to FILE, and writes
bench/results/rates.md from all its lines. So the mixes can be measured one after the other. Needs the packages gguf,
numpy and llama-cpp-python. Run nothing else at the same time."""

import argparse
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
NAMES = {"q4_k_m": "Q4_K_M", "q6_k": "Q6_K", "q8_0": "Q8_0"}
ENGINES = ("tapehead, int8", "tapehead, float32", "llama.cpp", "llama.cpp, mapped")


def command(engine, program, file):
    if engine.startswith("tapehead"):
        return [program, "--folder", file, "--precision", engine.split()[1]]
    return [sys.executable, "-W", "ignore", str(BENCH / "generation_llama.py"), "--file", file,
            *(["--no-repack"] if "mapped" in engine else [])]


def measure(options, mix, file, lines):
    for _ in range(options.rounds):
        for threads in options.threads:
            for engine in ENGINES:
                run = subprocess.run(
                    [*command(engine, options.program, file), "--prompt", str(options.prompt), "--tokens",
                     str(options.tokens), "--repeats", "1", "--threads", str(threads)],
                    capture_output=True, text=True, check=False)
                if run.returncode != 0:
                    sys.exit(f"{engine}: {run.stderr.strip() or run.stdout.strip()}")
                values = dict(pair.split("=", 1) for pair in run.stdout.split(" build=")[0].split())
                line = [mix, str(threads), engine, values["prompt_per_second"], values["generation_per_second"],
                        values["peak_rss_mib"], str(os.path.getsize(file) >> 20)]
                print(*line, sep="\t", flush=True)
                with open(lines, "a", encoding="utf-8") as out:
                    out.write("\t".join(line) + "\n")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(": ")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def table(lines):
    """The fastest prompt, the fastest generation and the largest memory of each engine."""
    best = {}
    for line in lines:
        mix, threads, engine, prompt, generation, memory, size = line.split("\t")
        of = best.setdefault((mix, int(threads), engine), [0, 0, 0, int(size)])
        of[:] = [max(of[0], float(prompt)), max(of[1], float(generation)), max(of[2], int(memory)), int(size)]
    rows = ["| file | threads | engine | prompt | generation | largest memory, MiB |", "|---|---:|---|---:|---:|---:|"]
    for (mix, threads, engine), (prompt, generation, memory, size) in sorted(
            best.items(), key=lambda item: (item[0][0], item[0][1], ENGINES.index(item[0][2]))):
        rows.append(f"| {NAMES[mix]}, {size} MiB | {threads} | {engine} | {prompt:.1f} | {generation:.2f} | {memory} |")
    return rows


def report(options, lines):
    rounds = max(sum(other.split("\t")[:3] == line.split("\t")[:3] for other in lines) for line in lines)
    return "\n".join([
        "# Generation from GGUF files, compared with llama.cpp", "",
        f"Measured on {datetime.date.today()}: {processor()}, {os.cpu_count()} processors, by `bench/rates.py`. A Llama with the",
        "shape of Llama 3.2 1B and random weights, batch 1, greedy. Tokens per second of a prompt of "
        f"{options.prompt} tokens and of the", f"{options.tokens - 1} tokens after the first one. The fastest of {rounds} interleaved rounds. "
        "llama.cpp is llama-cpp-python 0.3.36, compiled on this", "machine for its processor. It copies the weights into its own layout, or maps the file.", "",
        *table(lines), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--lines", help="default: a new file")
    parser.add_argument("--models", help="a folder that keeps the GGUF files (default: a temporary one)")
    parser.add_argument("--mixes", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=33)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        lines = options.lines or str(pathlib.Path(temporary) / "lines")
        for mix in options.mixes:
            file = pathlib.Path(options.models or temporary) / f"1b-{mix}.gguf"
            if not file.exists():
                subprocess.run([sys.executable, str(BENCH / "gguf_model.py"), "--mix", mix, str(file)], check=True)
            measure(options, mix, str(file), lines)
        text = report(options, pathlib.Path(lines).read_text(encoding="utf-8").splitlines())
    page = BENCH / "results" / "rates.md"
    page.write_text(text, encoding="utf-8")
    print(f"wrote: {page}")


if __name__ == "__main__":
    main()
