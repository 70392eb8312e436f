#!/bin/sh
# own_paths.sh SOURCE BUILD LIBRARY...: the libraries do not contain these two paths. So builds in different folders are identical;
# scripts/platforms/reproducible.sh compares two.
set -eu
source=$1 build=$2
shift 2
status=0
for library; do
    if readelf -S --wide "$library" | grep '\.debug_info' >/dev/null; then
        echo "skipped: $library has debug information, which names the sources"
        exit 77
    fi
    for path in "$source" "$build"; do
        if strings -a "$library" | grep -F "$path"; then
            echo "this is in $library"
            status=1
        fi
    done
done
exit $status
