#!/bin/sh
# headers.sh INCLUDE CC CXX: each public header compiles alone, as C11 and as C++17, without a warning.
set -eu
include=$1 cc=$2 cxx=$3
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"

status=0
for header in "$include"/tapehead/*.h; do
    name=tapehead/$(basename "$header")
    echo "#include \"$name\"" | "$cc" -std=c11 $warnings -Wconversion -I "$include" -fsyntax-only -x c - ||
        { echo "$name does not compile alone as C11"; status=1; }
    echo "#include <$name>" | "$cxx" -std=c++17 $warnings -I "$include" -fsyntax-only -x c++ - ||
        { echo "$name does not compile alone as C++17"; status=1; }
done
exit $status
