"""Predicts the speed of the innermost loops of the NEON kernels with llvm-mca, and prints the page results/neon.md.

    neon_loops.py --library build/neon-loops/libtapehead.a --compiler "gcc 12.2.0" >bench/results/neon.md

neon_loops.sh builds the library and runs this."""

import argparse
import re
import subprocess
from collections import defaultdict, namedtuple

from report import markdown_table

PROCESSORS = {"Neoverse N1": "neoverse-n1", "Neoverse V1": "neoverse-v1"}
UNITS = {"V": "vector", "L": "load", "D": "store"}  # first letter of llvm-mca's units, after the processor's name
MCA = "llvm-mca-19"
ITERATIONS = 400
MOST_WAYS = 3000  # that are followed from one block

# What, the function, and the bits of its instance.
LOOPS = [
    ("product, packed", "th_tile_packed_f32_neon", "f32"),
    ("product, packed, float64", "th_tile_packed_f64_neon", "f64"),
    ("product, A in place", "tile_12_2", "f32"),
    ("product of one row, B in place", "tile_1_4", "f32"),
    ("product of one row by Wᵀ", "rows_1", "f32"),
    ("product of bfloat16 parts", "fma_tile_12_2", "f32"),
    ("attention, softmax", "th_attention_softmax_f32_neon", "f32"),
    ("attention, gradient", "th_attention_gradient_f32_neon", "f32"),
    ("add", "th_add_f32_neon", "f32"),
    ("gelu", "th_gelu_f32_neon", "f32"),
    ("gelu, backward", "th_gelu_backward_f32_neon", "f32"),
    ("exp", "th_exp_f32_neon", "f32"),
    ("softmax", "th_softmax_f32_neon", "f32"),
    ("layer norm", "th_layer_norm_f32_neon", "f32"),
    ("layer norm, backward", "th_layer_norm_backward_f32_neon", "f32"),
    ("adam", "th_adam_f32_neon", "f32"),
]

FUSED = re.compile(r"f(n?m(add|sub)|ml[as])\b")
VECTOR = re.compile(r"\bv\d+\.(4s|2d|16b)")  # arithmetic on registers

Prediction = namedtuple("Prediction", "cycles limit limited_by")


def functions(library):
    """Returns {(name, bits): [(address, instruction)]}."""
    command = ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", library]
    found = {}
    for member in re.split(r"\n(?=\S+\.o: )", subprocess.run(command, check=True, capture_output=True, text=True).stdout):
        bits = "f64" if re.search(r"<th_\w+_f64_neon>:", member) else "f32"
        for name, code in re.findall(r"^[0-9a-f]+ <(\w+)>:\n((?: .*\n?)*)", member, re.M):
            lines = re.findall(r"^ *([0-9a-f]+):\t(.*?)\s*(?://.*)?$", code, re.M)
            found[name, bits] = [(int(address, 16), text) for address, text in lines]
    return found


def blocks_of(code):
    """Returns {start: (instructions, starts of the blocks that may follow)}; a block that calls or returns has none."""
    targets = {}
    for i, (_, text) in enumerate(code):
        if branch := re.match(r"(b|b\.\w+|cbn?z|tbn?z)\t(?:.*, )?([0-9a-f]+) <", text):
            after = [] if branch[1] == "b" else [code[i + 1][0]]
            targets[i] = after + [int(branch[2], 16)]
        elif re.match(r"(bl|blr|br|ret)\b", text):
            targets[i] = []
    known = {address for address, _ in code}
    starts = {target for several in targets.values() for target in several if target in known} | {code[0][0]}
    blocks, block = {}, []
    for i, (address, text) in enumerate(code):
        if address in starts:
            start, block = address, []
        block.append(text)
        following = code[i + 1][0] if i + 1 < len(code) else None
        if i in targets or following in starts:
            blocks.setdefault(start, (block, [t for t in targets.get(i, [following]) if t in known]))
    return blocks


def ways_around(blocks, start):
    """Yields the ways from a block back to it, as lists of blocks. It is the first of them in memory."""
    reaching, new = {start}, [start]
    while new:
        new = [b for b in blocks if b > start and b not in reaching and reaching & set(blocks[b][1])]
        reaching.update(new)
    ways = [[start]]
    for _ in range(MOST_WAYS):
        if not ways:
            return
        way = ways.pop()
        for after in blocks[way[-1]][1]:
            if after == start:
                yield way
            elif after in reaching and after not in way:
                ways.append(way + [after])


def innermost_loops(code):
    """Returns the loops without a loop inside: each way through a function that ends where it begins, without calls."""
    blocks = blocks_of(code)
    loops = {frozenset(way): way for start in blocks for way in ways_around(blocks, start)}
    inner = [way for loop, way in loops.items() if not any(other < loop for other in loops)]
    return [[text for start in way for text in blocks[start][0]] for way in inner]


def count(pattern, loop):
    return sum(bool(pattern.search(text)) for text in loop)


def hottest(loops):
    """Returns the loop with the most fused multiply-adds, or else vector instructions."""
    return max(loops, key=lambda loop: (count(FUSED, loop), count(VECTOR, loop), -len(loop)))


def predict(loop, processor):
    """Returns cycles for each iteration, and the limit: the cycles of the busiest kind of unit."""
    text = "\n".join(re.sub(r"\b[0-9a-f]+ <.*", "0", line) for line in loop)
    command = [MCA, "-mtriple=aarch64-linux-gnu", f"-mcpu={processor}", f"-iterations={ITERATIONS}", "-instruction-info=0"]
    said = subprocess.run(command, input=text + "\n", check=True, capture_output=True, text=True).stdout
    cycles = int(re.search(r"Total Cycles: +(\d+)", said)[1]) / ITERATIONS
    limit = float(re.search(r"Block RThroughput: +([\d.]+)", said)[1])
    names = re.findall(r"^\[[\d.]+\] +- [A-Z]\d+Unit([A-Z])", said, re.M)
    used = re.search(r"Resource pressure per iteration:\n.*\n(.*)", said)[1].split()
    shares = defaultdict(list)
    for name, share in zip(names, used):
        shares[name].append(0.0 if share == "-" else float(share))
    busy = {name: sum(share) / len(share) for name, share in shares.items()}
    kind = max(busy, key=busy.get)
    if limit > 1.05 * busy[kind]:  # one unit of several alone: division, square root, conversion
        return Prediction(cycles, limit, "one vector unit" if max(map(max, shares.values())) in shares["V"] else "issue")
    return Prediction(cycles, max(limit, busy[kind]), UNITS.get(kind, "integer"))


def rows(library):
    code = functions(library)
    for what, name, bits in LOOPS:
        loop = hottest(innermost_loops(code[name, bits]))
        cells = [what, f"`{name}`", str(len(loop)), str(count(VECTOR, loop)), str(count(FUSED, loop))]
        for processor in PROCESSORS.values():
            p = predict(loop, processor)
            cells += [f"{p.cycles:.1f}", f"{p.limit:.1f}", p.limited_by, f"{max(0, 100 * (p.cycles / p.limit - 1)):.0f} %"]
        yield cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libtapehead.a for aarch64")
    parser.add_argument("--compiler", required=True, help="its compiler, for the page")
    options = parser.parse_args()
    version = re.search(r"LLVM version ([\d.]+)", subprocess.run([MCA, "--version"], capture_output=True, text=True).stdout)
    print("# Loops of the NEON kernels\n")
    print(f"Predicted by llvm-mca {version[1]} from the instructions of {options.compiler}; not measured on a processor.")
    print("`bench/studies/neon_loops.sh` makes this table; [bench/README.md](../README.md#loops-on-aarch64) explains it.\n")
    header = ["loop", "function", "instructions", "vector", "fused"]
    for processor in PROCESSORS:
        short = processor.split()[-1]
        header += [f"{short}: cycles", "limit", "limited by", "over the limit"]
    print("\n".join(markdown_table(header, list(rows(options.library)))))


if __name__ == "__main__":
    main()
