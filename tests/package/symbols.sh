#!/bin/sh
# symbols.sh SOURCE VERSION CORE [MODELS]: checks the symbols of the shared libraries CORE and MODELS.
#   - Each exports the public functions of its headers and nothing else. The headers that tapehead/models.h includes belong to
#     MODELS, all others to CORE.
#   - CORE also exports the functions marked TH_PRIVATE_API, with the version TAPEHEAD_PRIVATE_VERSION. The headers in
#     src/models/core include the headers that declare them. MODELS calls each of them.
#   - The soname has the minor version until 1.0. Public functions have the symbol version TAPEHEAD_ and the same number.
set -eu
source=$1 version=$2 core=$3 models=${4:-}
. "$(dirname "$(readlink -f "$0")")/package_checks.sh"

# exports LIBRARY: prints the exported names, except those that every library of musl has.
exports() {
    nm -D --defined-only "$1" | awk '$2 != "A" && $3 !~ /^_(init|fini)$/ { print $3 }'
}

# compare EXPORTED DECLARED WHAT
compare() {
    [ -s "$work/$2" ] || wrong "no declaration of $3 found"
    comm -23 "$work/$1" "$work/$2" | sed "s/.*/exported, but no declaration of $3: &/" >"$work/complaints"
    comm -13 "$work/$1" "$work/$2" | sed "s/.*/declaration of $3, but not exported: &/" >>"$work/complaints"
    [ ! -s "$work/complaints" ] || wrong "$(cat "$work/complaints")"
}

soversion=$(soversion "$version")
# soname LIBRARY NAME
soname() {
    readelf -d "$1" | grep -q "SONAME.*\[$2\.so\.$soversion\]" || wrong "the soname of $1 is not $2.so.$soversion"
}

models_headers=$(models_headers "$source/include")
core_headers=$(cd "$source/include" && ls tapehead/*.h | grep -vxF "$models_headers")

soname "$core" libtapehead
exports "$core" >"$work/all"
sed -n "s/@@TAPEHEAD_$soversion\$//p" "$work/all" | sort >"$work/exported"
sed -n "s/@@TAPEHEAD_PRIVATE_$version\$//p" "$work/all" | sort >"$work/exported_private"
(cd "$source/include" && declared TH_API $core_headers) >"$work/declared"
private_headers=$(cd "$source/src" && grep -rl --include='*.h' '^TH_PRIVATE_API' . | sed 's|^\./||')
for header in $private_headers; do
    grep -qx "#include \"$header\"" "$source"/src/models/core/*.h || wrong "no header in src/models/core includes $header, which declares private functions"
done
(cd "$source/src" && declared TH_PRIVATE_API $private_headers) >"$work/declared_private"
compare exported declared "a public function of the core"
compare exported_private declared_private "a private function of the core"
grep -vE "@@TAPEHEAD_($soversion|PRIVATE_$version)\$" "$work/all" && wrong "exported with another version"
echo "$(wc -l <"$work/exported") public and $(wc -l <"$work/exported_private") private functions exported by $(basename "$core")"
if readelf -d "$core" | grep NEEDED | grep -E 'jansson|pcre|utf8proc|libz'; then
    wrong "the core needs a library of the models library"
fi

if [ -n "$models" ]; then
    soname "$models" libtapehead_models
    exports "$models" | sed "s/@@TAPEHEAD_$soversion\$//" | sort >"$work/exported"
    (cd "$source/include" && declared TH_API $models_headers) >"$work/declared"
    compare exported declared "a public function of the models library"
    nm -D --undefined-only "$models" | grep -q "@TAPEHEAD_PRIVATE_$version\$" ||
        wrong "$models does not need the private functions of this release"
    nm -D --undefined-only "$models" | sed -n "s/^ *U \(.*\)@TAPEHEAD_PRIVATE_$version\$/\1/p" | sort >"$work/needed"
    comm -13 "$work/needed" "$work/declared_private" | sed 's/^/TH_PRIVATE_API marks a function that the models library does not call: /' >"$work/complaints"
    [ ! -s "$work/complaints" ] || wrong "$(cat "$work/complaints")"
    echo "$(wc -l <"$work/exported") public functions exported by $(basename "$models")"
fi
exit $status
