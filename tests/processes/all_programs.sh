#!/bin/sh
# all_programs.sh MPIRUN BUILD [STEPS]: the four programs that train in several processes give the same bits with 1, 2, 3, 4, 5 and
# 8 processes, with 1 and 2 threads each, in every precision. STEPS: of each training (default 8). MPIRUN is scripts/processes/mpirun.sh;
# BUILD is the folder of a build with MPI. Takes some minutes.
set -eu
mpirun=$1 build=$2 steps=${3:-8}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

awk 'BEGIN { for (i = 0; i < 800; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >text
words_of() { # words_of PROGRAM: prints its first words and options
    case $1 in
    copy_task) echo "--dropout 0.1" ;;
    classify | translate_dates) echo "--picture $1.svg" ;;
    language_model)
        echo "train text run --force --recipe nanogpt --layers 2 --heads 2 --width 32 --length 16 --batch 16 --accumulate 2 --dropout 0.1
            --eval-every 4 --eval-batches 2 --sample-tokens 5"
        ;;
    esac
}
crc() { # crc COMMAND...: prints the checksum of the parameters
    timeout 600 "$@" 2>error | grep -o 'parameters_crc32c=[0-9a-f]*' || sed 's/^/    /' error
}

failed=0 runs=0
for program in copy_task classify translate_dates language_model; do
    for precision in float32 bfloat16x3 bfloat16; do
        # shellcheck disable=SC2046 # words
        set -- "$(ls "$build/programs/$program" "$build/examples/$program" 2>/dev/null)" $(words_of $program) --quiet --steps "$steps" --shards 8 --precision $precision
        alone=$(crc "$@" --threads 1)
        echo "$program, $precision: $alone"
        for n in 1 2 3 4 5 8; do
            for threads in 1 2; do
                runs=$((runs + 1))
                shared=$(crc "$mpirun" $n "$@" --threads $threads)
                [ "$shared" = "$alone" ] && continue
                echo "FAILED: $program, $precision, $n processes, $threads threads: $shared"
                failed=$((failed + 1))
            done
        done
    done
done
echo "$failed of $runs runs differ"
[ $failed -eq 0 ]
