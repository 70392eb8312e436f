# abi_list.awk: reads preprocessed headers and prints the declarations of those that `headers` names, such as
# "tapehead/base.h tapehead/tensor.h". Prints one type or function after the other, each after its sort key and a tab. Lines within
# a declaration end with \1 instead of a line break.

BEGIN {
    count = split(headers, names, " ")
    for (i = 1; i <= count; i++)
        wanted[names[i]]
}

/^# [0-9]+ "/ { # a line marker: the following lines are from this file
    file = $3
    gsub(/"|.*include\//, "", file)
    next
}

file in wanted { text = text " " $0 }

END {
    gsub(/__attribute__\(\([a-z_]+(\([^()]*\))?\)\)|TH_FORMAT\([^()]*\)/, "", text)
    gsub(/_Bool/, "bool", text)
    gsub(/[ \t]+/, " ", text)
    for (i = 1; i <= length(text); i++)
        add(substr(text, i, 1))
}

# Adds a character to the declaration, with line breaks after members and enumerators.
function add(c) {
    if (c == " " && (declaration == "" || declaration ~ /[\1 (]$/))
        return
    if (c ~ /[;,)]/)
        sub(/ $/, "", declaration)
    parentheses += (c == "(") - (c == ")")
    braces += (c == "{") - (c == "}")
    if (c == "}") {
        sub(/[ \1]*$/, "", declaration)
        c = "\1" indentation() "}"
    }
    declaration = declaration c
    if (c == ";" && braces == 0)
        finish()
    else if (braces > 0 && parentheses == 0 && c ~ (declaration ~ /^(typedef )?enum / ? "[{,]" : "[{;]"))
        declaration = declaration "\1" indentation()
}

function indentation() {
    return substr("                ", 1, 4 * braces)
}

# Prints the declaration with its key: types come before functions, in the order of their names.
function finish(key) {
    key = declaration
    sub(/( \{)?\1.*/, "", key)
    sub(/[(;].*/, "", key)
    sub(/.*[ *]/, "", key)
    print (declaration ~ /^(typedef|struct|union|enum) / ? "" : "~") key "\t" declaration
    declaration = ""
}
