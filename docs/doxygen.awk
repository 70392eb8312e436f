# Doxygen's filter for a public header. A comment belongs to all declarations below it down to the next empty line, one
# behind a declaration to that; the macros that pass the caller's line are left out.

/^#define th_[a-z0-9_]*\(\.\.\.\)/ { next }

# Preformatted text within a comment (an example, a table) stands four columns further in.
function text(line)
{
    if (line ~ /^ \*     /)
        sub(/^ \*/, "", line)
    return line
}

function close_example()
{
    if (example)
        comment = comment " * @endcode\n"
    example = 0
}

function take(line)
{
    if (line ~ /^ \*     / && !example) {
        comment = comment " * @code\n"
        example = 1
    } else if (example && line !~ /^ \*     / && line !~ /^ \*$/) {
        close_example()
    }
    if (line ~ /\*\/$/ && example) {
        sub(/ *\*\/$/, "", line)
        comment = comment text(line) "\n"
        close_example()
        comment = comment " */\n"
    } else {
        comment = comment text(line) "\n"
    }
}

# A title between dashes is for who reads the header; what a longer comment says below one belongs to what follows.
/^\/\* -- .*\*\/$/ { comment = ""; next }
/^\/\* -- / { sub(/-- .*/, "") }

/^\/\*/ {
    opening = "/**"
    if (FNR == 1) {
        opening = "/** @file\n *"
        about_file = 1
    }
    example = 0
    line = $0
    sub(/^\/\*/, "", line)
    comment = opening line "\n"
    inside = !/\*\/$/
    if (!inside && about_file) { printf "%s", comment; comment = ""; about_file = 0 }
    next
}
inside {
    take($0)
    if ($0 ~ /\*\/$/) {
        inside = 0
        if (about_file) { printf "%s", comment; comment = ""; about_file = 0 }
    }
    next
}

/^$/ { comment = "" }
/^(TH_API|typedef|struct|enum|#define TH_)/ && comment != "" { printf "%s", comment }
/[^ ] +\/\* / { sub(/\/\* /, "/**< ") }
/^ +\/\* / { sub(/\/\* /, "/** ") }
{ print }
