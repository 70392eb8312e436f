#!/bin/sh
# setup.sh: Gradescope runs this once, when it builds the container of an assignment. It builds the library and the marker, and
# deletes the solutions, which a student's file could otherwise include.
set -eu
cd "${AUTOGRADER:-/autograder}/source/tapehead"
apt-get update && apt-get install -y python3-minimal
scripts/exercise.sh --all || [ -x build/core/teaching/exercises/exercise_marker ] # (the blanks have no marks)
rm -rf teaching/exercises/tests .git
