# findings.awk: prints the findings of an analyzer that accepted.txt does not list. Exits with 1 if there is one.
# awk -v tool=NAME -v root=DIRECTORY -f findings.awk accepted.txt OUTPUT...
# A finding is a line "FILE:LINE:COLUMN: warning: MESSAGE [CHECK]" and the lines below it. A line "analyzed: NUMBER" counts files.
# Lines of accepted.txt for this tool that match no finding are printed too: another version of the tool may need them.

# Returns a line of a source file.
function source_line(file, number, text, i) {
    if (!(file in last)) {
        for (i = 1; (getline text < (root "/" file)) > 0; i++)
            line[file, i] = text
        close(root "/" file)
        last[file] = i
    }
    return line[file, number]
}

# Returns whether accepted.txt lists a finding of these checks in this line.
function is_accepted(checks, file, text, i, found) {
    for (i = 1; i <= count; i++)
        if (index(checks, check[i]) && index(file, prefix[i]) == 1 && (content[i] == "" || index(text, content[i])))
            found = ++used[i]
    return found
}

FILENAME == ARGV[1] {
    if (/^#/ || split($0, field, / *[|] */) != 5 || field[1] != tool)
        next
    check[++count] = field[2]
    prefix[count] = field[3]
    content[count] = field[4]
    next
}

/^analyzed: / {
    analyzed += $2
    next
}

/^[^ ]+:[0-9]+:[0-9]+: (fatal )?(warning|error|portability|performance|style): / {
    text = $0
    if (index(text, root "/") == 1)
        text = substr(text, length(root) + 2)
    while (sub(/[^\/]+\/\.\.\//, "", text))
        ;
    split(text, place, ":")
    match(text, /\[[^ ]*\]$/)
    checks = RSTART ? substr(text, RSTART) : ""
    shown = 0
    if (seen[text]++)
        next
    if (!is_accepted(checks, place[1], source_line(place[1], place[2]))) {
        print text
        shown = 1
        findings++
    } else {
        accepted++
    }
    next
}

shown

END {
    for (i = 1; i <= count; i++)
        if (!used[i])
            printf "accepted.txt: no finding of %s in %s with \"%s\"\n", check[i], prefix[i], content[i]
    printf "%s: %d files, %d findings, %d accepted ones\n", tool, analyzed, findings, accepted
    exit findings > 0 || analyzed == 0
}
