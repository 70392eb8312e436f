#!/bin/sh
# own_functions.sh ARCHIVE...: the static libraries call no elementary function of libm or of a compiler's vector library. The last
# bits of these differ between versions and processors. Functions that IEEE 754 defines to the last bit, such as sqrt, are
# allowed. Pictures are not checked: no result depends on them.
set -eu

functions='(a?(sin|cos|tan)(h|pi)?|atan2(pi)?|sincos|exp(2|10|m1)?|log(2|10|1p|b)?|pow|cbrt|hypot|rsqrt|erfc?|[lt]?gamma(_r)?|j[01n]|y[01n])'
for archive; do
    objects=$(ar t "$archive" | grep -c '\.o$')
    if [ "$objects" -lt 40 ]; then
        echo "only $objects objects in $archive"
        exit 1
    fi
    found=$(nm -A --undefined-only "$archive" | awk '$2 == "U" { print $3, $1 }' | grep -v ':picture[a-z_]*\.c\.o:' |
        grep -E "^(_*$functions[fl]?(_finite)?|_ZGV[^ ]*) " || true)
    if [ -n "$found" ]; then
        echo "$found" | sed 's/^\([^ ]*\) \(.*\)$/\2 calls \1 of another library/'
        exit 1
    fi
    echo "$objects objects in $archive; none calls an elementary function of another library"
done
