#!/bin/sh
# own_functions.sh ARCHIVE: no part of the static library takes an elementary function from libm (or from a compiler's vector library),
# whose last bits differ from version to version and from processor to processor. What IEEE 754 fixes to the last bit, such as sqrt, is
# fine. Pictures are not looked at: nothing that they compute goes into a result.
set -eu
archive=$1

objects=$(ar t "$archive" | grep -c '\.o$')
if [ "$objects" -lt 100 ]; then
    echo "only $objects objects in $archive"
    exit 1
fi
functions='(a?(sin|cos|tan)(h|pi)?|atan2(pi)?|sincos|exp(2|10|m1)?|log(2|10|1p|b)?|pow|cbrt|hypot|rsqrt|erfc?|[lt]?gamma(_r)?|j[01n]|y[01n])'
found=$(nm -A --undefined-only "$archive" | awk '$2 == "U" { print $3, $1 }' | grep -v ':picture[a-z_]*\.c\.o:' |
    grep -E "^(_*$functions[fl]?(_finite)?|_ZGV[^ ]*) " || true)
if [ -n "$found" ]; then
    echo "$found" | sed 's/^\([^ ]*\) \(.*\)$/\2 takes \1 from elsewhere/'
    exit 1
fi
echo "$objects objects, none of them takes an elementary function from elsewhere"
