#!/bin/sh
# include_order.sh SOURCE: folders of src/ include each other in one direction only, as ARCHITECTURE.md shows. A file includes
# headers of its own folder and of the folders on its line below. A new folder needs a line here.
set -eu
cd "$1/src"

folders='
    kernels:
    tensor:             kernels
    autograd:           kernels tensor
    ops:                kernels tensor autograd
    checker:            kernels tensor autograd ops
    nn:                 kernels tensor autograd ops
    io:                 kernels tensor autograd
    models/files:       kernels tensor io
    models/logs:        kernels tensor io models/files
    models/data:        kernels tensor io models/files
    models/text:        kernels tensor io models/files
    models/generation:  kernels tensor autograd ops nn
    models/store:       kernels tensor autograd ops nn io models/files'

for folder in $(ls -d */ models/*/ | sed 's|/$||' | grep -vx models); do
    below=$(printf '%s\n' "$folders" | sed -n "s,^ *$folder:,,p")
    if ! printf '%s\n' "$folders" | grep -q "^ *$folder:"; then
        echo "src/$folder has no line in $0: add one with the folders that it may include" >&2
        exit 1
    fi
    pattern=$(printf '%s|' $below)
    if grep -rnE '^ *# *include "[a-z_]+/' "$folder" | grep -vE "include \"($pattern$folder|tapehead)/"; then
        echo "src/$folder may include headers of its own and of: ${below:-nothing}" >&2
        exit 1
    fi
done
