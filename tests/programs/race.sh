#!/bin/sh
# race.sh LANGUAGE_MODEL SOURCE: bench/race.py computes the t-test, evaluates the last tenth of the text once for each seed, omits runs
# that it has made, and writes the table. With PyTorch, its models have as many parameters as ours.
set -eu
program=$1 source=$2
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
. "$(dirname "$0")/language_model_checks.sh"

race() { # race OPTION...
    python3 -B "$source/bench/race.py" --text text --program "$program" --threads 1 --steps 2 --out out "$@"
}
column() { # column NAME
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR > 1 { print $c }' out/race.csv
}

# Values of tables of Student's distribution.
PYTHONPATH=$source/bench python3 -B - <<'EOF'
import math
from race import t_probability, test_below
for t, degrees, p in [(0, 3, 0.5), (1, 1, 0.25), (31.8205, 1, 0.01), (6.9646, 2, 0.01), (4.5407, 3, 0.01),
                      (3.7469, 4, 0.01), (2.1318468, 4, 0.05), (3.3649, 5, 0.01), (2.8214, 9, 0.01), (5.8934, 5, 0.001),
                      (-2.1318468, 4, 0.95), (math.inf, 4, 0)]:
    assert abs(t_probability(t, degrees) - p) < 2e-6, (t, degrees, p, t_probability(t, degrees))
mean, deviation, t, p = test_below([1.86, 1.87, 1.88, 1.87, 1.87], 1.88)
assert abs(mean - 1.87) < 1e-12 and abs(deviation - 0.0070711) < 1e-6 and abs(t - 3.162278) < 1e-5, (mean, deviation, t)
assert abs(p - 0.0170635) < 1e-5, p
assert test_below([2.0, 2.0], 1.88)[3] == 1 and test_below([1.0, 1.0], 1.88)[3] == 0
EOF

awk 'BEGIN { for (i = 0; i < 90; i++) printf "line %03d of the text\n", i % 7 * i }' >text # 1890 bytes
race --rows nanogpt-tapehead,ours-1.88-tapehead --seeds 2 >page 2>err || { cat err; fail "the race"; }
[ "$(column row | sort | uniq -c | awk '{ print $1 $2 }' | tr '\n' ' ')" = "2nanogpt-tapehead 2ours-1.88-tapehead " ] ||
    fail "the runs are wrong: $(cat out/race.csv)"
cmp -s page out/race.md || fail "the page is not what was printed"
grep -E '^\| nanogpt-tapehead \| 2 \| [0-9]+ \| 2 \| 1.88 \| ' out/race.md | grep -F "too few seeds" >/dev/null || {
    cat out/race.md
    fail "the table lacks nanogpt-tapehead"
}

# nanoGPT's model has no biases: embeddings, four blocks with 12 E^2 weights and two norms, and a norm.
vocabulary=$(python3 -c 'print(len(set(open("text").read())))')
[ "$(column parameters | head -n 1)" = $(((vocabulary + 64) * 128 + 4 * (12 * 128 * 128 + 2 * 128) + 128)) ] ||
    fail "nanoGPT's model has other parameters: $(cat out/race.csv)"

# The loss is the one that the program prints for its last tenth, with the options of the CSV file.
# shellcheck disable=SC2046 # options are words
"$program" train text run --recipe nanogpt $(column options | head -n 1) --seed 1 --quiet --sample-tokens 0 >printed 2>&1 ||
    { cat printed; fail "the program"; }
[ "$(column loss | head -n 1)" = "$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' printed)" ] || { cat out/race.csv printed; fail "another loss"; }
grep -q ' tokens=188$' printed || { cat printed; fail "not all of the last tenth was scored"; }

# A session continues: a seed is evaluated once.
cp out/race.csv once.csv
race --rows nanogpt-tapehead,ours-1.88-tapehead --seeds 2 >page 2>err || fail "the race again"
cmp -s out/race.csv once.csv || fail "a run was repeated"

expect 1 "there is no row ours-2.00" race --rows ours-2.00-tapehead
expect 1 "name a directory" python3 -B "$source/bench/race.py" --text text --steps 2
expect 1 "--seeds must be at least 1" race --seeds 0

if python3 -c "import torch; torch.optim.Muon" 2>/dev/null; then
    race --rows nanogpt-torch,ours-1.88-torch --seeds 1 >page 2>err || { cat err; fail "the race in PyTorch"; }
    [ "$(column parameters | sort -u | wc -l)" = 2 ] || { cat out/race.csv; fail "other numbers of parameters in PyTorch"; }
fi
