#!/bin/sh
# page.sh PAGE BUILD CMAKE MPICC MPIRUN: the commands of a page print what the page shows. The test installs the build's libraries,
# writes the programs of the page that use MPI, and runs its blocks of sh in one directory. A block of text that follows is the
# output. The first line of a program is a comment with its name: /* train.c: ... */.
set -eu
page=$1 build=$2 cmake=$3 mpicc=$4 mpirun=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run"

# -- an installation, and the commands mpicc and mpirun: those of the build's MPI --
"$cmake" --install "$build" --prefix "$work/installed" >"$work/log" || { cat "$work/log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$work/installed" -name tapehead.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
cat >"$work/bin/mpicc" <<END
#!/bin/sh
exec "$mpicc" -std=c11 -Wall -Wextra -Wpedantic -Werror "\$@"
END
# As in a user's terminal, except that root may start processes, and that messages stay in this machine's memory. Open MPI knows one
# processor here, so that a command that needs more says so.
cat >"$work/bin/mpirun" <<END
#!/bin/sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl=^tcp OMPI_MCA_orte_default_hostfile="$work/hosts" PRTE_MCA_prte_default_hostfile="$work/hosts"
exec timeout 600 "$mpirun" "\$@"
END
echo "localhost slots=1" >"$work/hosts"
chmod +x "$work/bin/mpicc" "$work/bin/mpirun"

# -- the page: programs, N.sh and N.expected --
awk -v work="$work" '
/^```c$/ { inside = "c"; source = ""; uses_mpi = 0; next }
/^```sh$/ { inside = "sh"; file = work "/" ++n ".sh"; expected = work "/" n ".expected"; printf "" >file; printf "" >expected; next }
/^```text$/ && waiting { inside = "text"; next }
inside && /^```$/ {
    if (inside == "c" && uses_mpi)
        printf "%s", source >(work "/run/" name)
    waiting = inside == "sh"
    inside = ""
    next
}
inside == "c" && source == "" { name = $2; sub(/:$/, "", name) }
inside == "c" { source = source $0 "\n"; if (/^#include <tapehead\/mpi\.h>/) uses_mpi = 1 }
inside == "sh" { print >file }
inside == "text" { print >expected }
!inside && !/^$/ { waiting = 0 }
END { print n + 0 >(work "/count") }' "$page"

case $(uname -m) in
x86_64) export TAPEHEAD_ISA=avx2 ;; # without fused multiply-add the numbers differ
esac
n=0
while [ $((n += 1)) -le "$(cat "$work/count")" ]; do
    if ! (cd "$work/run" && PATH=$work/bin:$PATH sh -eu "$work/$n.sh") >"$work/printed" 2>"$work/log"; then
        cat "$work/printed" "$work/log"
        grep -q "this processor has no AVX2\|this library was built without" "$work/log" && exit 77
        echo "$page: block $n of sh fails"
        exit 1
    fi
    diff "$work/$n.expected" "$work/printed" || { echo "$page: block $n of sh prints something else"; exit 1; }
done
[ "$n" -gt 1 ] || { echo "$page has no block of sh"; exit 1; }
echo "$page: $((n - 1)) blocks of sh print what the page shows"
