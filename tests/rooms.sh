#!/bin/sh
# rooms.sh SOURCE: the arrows between the rooms of src/ run one way, as ARCHITECTURE.md says: a file includes headers of its own room,
# and of the rooms below it. Every room has its line here, below all those that it stands on.
set -eu
cd "$1/src"

rooms='
    kernels:
    tensor:      kernels
    autograd:    kernels tensor
    ops:         kernels tensor autograd
    checker:     kernels tensor autograd ops
    nn:          kernels tensor autograd ops
    generation:  kernels tensor autograd ops nn
    io:          kernels tensor autograd
    data:        kernels tensor io
    text:        kernels tensor io
    store:       kernels tensor autograd ops nn io'

for room in *; do
    below=$(printf '%s\n' "$rooms" | sed -n "s/^ *$room://p")
    if ! printf '%s\n' "$rooms" | grep -q "^ *$room:"; then
        echo "src/$room is a room that nobody knows: give it a line in $0" >&2
        exit 1
    fi
    pattern=$(printf '%s|' $below)
    if grep -rnE '^ *# *include "[a-z_]+/' "$room" | grep -vE "include \"($pattern$room|tapehead)/"; then
        echo "src/$room may include headers of its own and of: ${below:-nothing}" >&2
        exit 1
    fi
done
