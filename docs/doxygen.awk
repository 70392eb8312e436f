# Doxygen's filter for a public header. A comment belongs to all declarations below it, down to the next comment or empty line. A
# comment behind a declaration belongs to that declaration. The filter leaves out the macros that pass the caller's line.

/^#define th_[a-z0-9_]*\(\.\.\.\)/ { next }

# Returns a line of a comment. Preformatted text (an example, a table) has four more spaces. In other text a backslash begins no
# command of doxygen, and neither "et al." nor ".." ends the summary.
function text(line)
{
    if (line ~ /^ \*     /) {
        sub(/^ \*/, "", line)
    } else {
        gsub(/\\/, "\\\\\\\\", line)
        gsub(/ al\.( |$)/, " al.\\\\ ", line)
        gsub(/ \.\. /, " … ", line)
    }
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

# Leaves out a title between dashes. The text of the comment below the title belongs to the next declarations.
/^\/\* -- .*\*\/$/ { comment = ""; next }
/^\/\* -- / { sub(/-- .*/, "") }

/^\/\*/ {
    opening = "/**"
    if (FNR == 1) {
        opening = FILENAME ~ /tapehead\/tapehead\.h$/ ? "/** @file\n * @mainpage Tapehead\n *" : "/** @file\n *"
        about_file = 1
    }
    example = 0
    line = $0
    sub(/^\/\*/, "", line)
    comment = opening text(line) "\n"
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
/\/\*\*/ {
    start = index($0, "/**")
    $0 = substr($0, 1, start - 1) text(substr($0, start))
}
{ print }
