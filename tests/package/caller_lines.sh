#!/bin/sh
# caller_lines.sh INCLUDE: checks that public functions have a macro of the same name, which gives errors the caller's line. A
# function needs a macro if its first parameter is a handle that is not const, and it returns one of these:
#   - a tensor (the macro uses TH_AT), or a module, an optimizer, a progress bar or a tokenizer (TH_AT_POINTER)
#   - a status with TH_MUST_CHECK, if the handle is a tensor, a module, an optimizer or a tokenizer (TH_AT_STATUS)
# Exceptions: queries (th_..._find) cause no error. Functions that end a scope return their argument. The macros themselves call
# th_at_pop. The first parameter of th_apply_n is an operation; its callers have macros.
# The test also checks that each macro calls the function of its name.
set -eu
include=$1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes one declaration on each line, without comments and directives.
cat "$include"/tapehead/*.h | sed 's,/\*[^*]*\*/,,g' | awk '
    /\/\*/ { comment = 1; sub(/\/\*.*/, "") ; print }
    /\*\// { comment = 0; sub(/.*\*\//, "") }
    !comment && !/^#/ { print }' | tr '\n' ' ' | sed 's/TH_API/\n&/g; s/;/;\n/g; s/  */ /g' | grep '^TH_API' >"$work/declarations"
grep -h '^#define th_' "$include"/tapehead/*.h >"$work/macros"

awk '
    NR == FNR { macro[$2] = $0; next }
    {
        name = $0
        sub(/\(.*/, "", name)
        sub(/.*[ *]/, "", name)
        result = substr($0, 8, index($0, name "(") - 8)
        first = substr($0, index($0, name "(") + length(name) + 1)
        sub(/[,)].*/, "", first)
        if (first !~ /^th_(tensor|module|optimizer|context|tokenizer) \*/ || name ~ /_(find|end)$/ || name == "th_at_pop")
            next
        if (result == "th_tensor *")
            wrap = "TH_AT("
        else if (match(result, /^th_(module|optimizer|progress|tokenizer) \*$/))
            wrap = "TH_AT_POINTER(" substr(result, 1, length(result) - 2) ", "
        else if (result == "th_status " && first !~ /^th_context/ && /TH_MUST_CHECK/)
            wrap = "TH_AT_STATUS("
        else
            next
        wanted = "#define " name "(...) " wrap name "(__VA_ARGS__))"
        found++
        if (macro[name "(...)"] != wanted)
            print "no macro gives " name " the line of its caller: " wanted
    }
    END { if (found < 100) print "only " found + 0 " functions found that want one" }
' "$work/macros" "$work/declarations" >"$work/complaints"
awk '/TH_AT/ {
    name = substr($2, 1, index($2, "(") - 1)
    if (name != "th_apply" && $0 !~ "[( ]" name "\\(__VA_ARGS__\\)\\)$")
        print "the macro " name " wraps another function: " $0
}' "$work/macros" >>"$work/complaints"

if [ -s "$work/complaints" ]; then
    cat "$work/complaints"
    exit 1
fi
echo "every function that needs its caller's line has a macro"
