/* The exercises: an editor for the lines of each exercise, and what the marker says about them. The files of
 * teaching/exercises are in this page. The engine's interpreter runs them (class_mark in teaching/class/engine.h). The files and
 * the marker's sentences are English in every language of the page. */

/* Reads a file of an exercise: its number, title and task, the lines around the blank, and the number of the first line
 * of the blank. lessons are the links to its lessons in teaching/exercises/README.md. */
function parseExercise(name, lessons, text) {
    const comment = text.slice(text.indexOf("/*") + 2, text.indexOf("*/"));
    const lines = comment.split("\n").map((line) => line.replace(/^ \* ?/, "").trimEnd());
    const begin = text.indexOf("\n", text.indexOf("---- your lines")) + 1;
    const end = text.lastIndexOf("\n", text.indexOf("---- end of your lines")) + 1;
    const start = text.lastIndexOf("\nstatic ", begin) + 1;
    const indent = /^ */.exec(text.slice(begin))[0];
    return {
        name, text, indent,
        lessons: [...lessons.matchAll(/\[(\d+)\]\(\.\.\/(lessons\/[^)]*)\.md\)/g)].map(([, number, page]) => ({ number, page })),
        number: parseInt(name, 10),
        title: lines[0].replace(/^\s*Exercise \d+: (.)([^.]*).*$/, (_, first, rest) => first.toUpperCase() + rest),
        task: lines.slice(1).join("\n").replace(/^\n+/, "").trimEnd().split(/\n\n+/),
        before: text.slice(0, begin),
        given: text.slice(start, begin).trimEnd(),
        after: text.slice(end),
        first: text.slice(0, begin).split("\n").length,
    };
}

/* Creates an element with a text of the files or of the marker. */
function makeEnglish(tag, text) {
    return make(tag, { lang: "en" }, text);
}

/* Creates a block of code, which the keyboard can scroll. key and values give its name for screen readers. */
function makeCode(text, attributes, key, values) {
    return label(make("pre", { tabindex: "0", ...attributes }, makeEnglish("code", text)), key, values);
}

/* Creates formulas, a row for each line. Two or more spaces stand before a note. A line that begins with spaces continues the last
 * note. Spaces before = align formulas of equal width only, so they go. */
function makeFormulas(text) {
    const rows = [];
    for (const line of text.split("\n")) {
        const [first, ...notes] = line.replace(/ +=/g, " =").split(/ {2,}/);
        first ? rows.push([first, ...notes]) : rows.at(-1).push(`${rows.at(-1).pop()} ${notes.join(" ")}`);
    }
    const columns = Math.max(2, ...rows.map((row) => row.length));
    return make("div", { class: "exercise-formulas", lang: "en", style: `--formulas: ${columns - 1}` }, rows.flatMap((row) =>
        row.map((cell, i) => make("code", { class: i ? "note" : null, style: i === row.length - 1 ? `grid-column: ${i + 1} / -1` : null }, cell))));
}

/* Makes the paragraphs of a task. Formulas are indented; an item of a list begins with -. */
function makeTask(paragraphs) {
    return paragraphs.flatMap((text) => /^ *-/.test(text) ? text.split(/\n(?= *- )/) : [text]).map((text) =>
        text.split("\n").every((line) => /^ {4}/.test(line))
            ? makeFormulas(text.replace(/^ {4}/gm, ""))
            : makeEnglish("p", text.replace(/\s+/g, " ")));
}

/* Names the lessons of an exercise. On the site (scripts/site.sh) they are links. */
function makeLessons(lessons) {
    const linked = "site" in document.body.dataset;
    return make("p", { class: "note" }, makeText("span", "exercise.lessons"), lessons.flatMap(({ number, page }, i) =>
        [i ? ", " : "", makeText(linked ? "a" : "span", "exercise.lesson", { number }, linked ? { href: `${page}.html` } : {})]));
}

/* The reader's lines and results, which survive a reload. Without storage they live as long as the page. */
class ExerciseStore {
    constructor() {
        this.values = new Map();
    }

    read(name) {
        try {
            return localStorage.getItem(`tapehead.${name}`) ?? this.values.get(name) ?? null;
        } catch {
            return this.values.get(name) ?? null;
        }
    }

    write(name, value) {
        this.values.set(name, value);
        try {
            value === null ? localStorage.removeItem(`tapehead.${name}`) : localStorage.setItem(`tapehead.${name}`, value);
        } catch {
            /* a browser without storage for files */
        }
        if (value === null)
            this.values.delete(name);
    }
}

/* A text area with line numbers. */
class CodeEditor {
    constructor(changed, run) {
        this.changed = changed;
        this.first = 1;
        this.leaving = false;
        this.gutter = make("pre", { class: "gutter", "aria-hidden": "true" });
        this.area = make("textarea", { spellcheck: "false", wrap: "off", autocapitalize: "off", autocomplete: "off", name: "code", rows: 16 });
        this.element = make("div", { class: "code-editor" }, this.gutter, this.area);
        this.area.addEventListener("input", () => { this.number(); this.mark(null); this.changed(this.area.value); });
        this.area.addEventListener("scroll", () => { this.gutter.scrollTop = this.area.scrollTop; });
        this.area.addEventListener("keydown", (event) => this.press(event, run));
    }

    /* Shows the lines of an exercise. first is the number of the first one in the file. */
    open(text, first, number) {
        this.area.value = text;
        label(this.area, "exercise.editor", { number });
        this.first = first;
        this.number();
        this.mark(null);
    }

    get count() {
        return this.area.value.split("\n").length;
    }

    number() {
        if (this.gutter.childElementCount === this.count && Number(this.gutter.firstChild?.textContent) === this.first)
            return;
        this.gutter.replaceChildren(...Array.from({ length: this.count }, (_, i) => make("span", {}, `${this.first + i}\n`)));
        this.gutter.scrollTop = this.area.scrollTop;
    }

    /* Marks a line of the file, or none. Returns whether it is one of the reader's lines. */
    mark(line) {
        this.gutter.querySelectorAll(".bad").forEach((span) => span.classList.remove("bad"));
        const span = line === null ? null : this.gutter.children[line - this.first];
        span?.classList.add("bad");
        return Boolean(span);
    }

    /* Selects a line of the file. */
    select(line) {
        const lines = this.area.value.split("\n"), i = line - this.first;
        const begin = lines.slice(0, i).reduce((sum, text) => sum + text.length + 1, 0);
        this.area.focus();
        this.area.setSelectionRange(begin, begin + lines[i].length);
    }

    press(event, run) {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            run();
        } else if (event.key === "Escape") {
            this.leaving = true;
            return;
        } else if (event.key === "Tab" && !this.leaving && !event.ctrlKey && !event.altKey) {
            event.preventDefault();
            event.shiftKey ? this.outdent() : this.insert("    ");
        } else if (event.key === "Enter" && !event.isComposing) {
            event.preventDefault();
            this.insert(`\n${this.indentOfLine()}`);
        }
        this.leaving = false;
    }

    lineStart() {
        return this.area.value.lastIndexOf("\n", this.area.selectionStart - 1) + 1;
    }

    indentOfLine() {
        const line = this.area.value.slice(this.lineStart(), this.area.selectionStart);
        return /^ */.exec(line)[0] + (line.trimEnd().endsWith("{") ? "    " : "");
    }

    insert(text) {
        this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
        this.area.dispatchEvent(new Event("input"));
    }

    outdent() {
        const start = this.lineStart();
        const spaces = /^ {0,4}/.exec(this.area.value.slice(start))[0].length;
        this.area.setRangeText("", start, start + spaces, "preserve");
        this.area.dispatchEvent(new Event("input"));
    }
}

class ExercisesPart {
    constructor(root, exercises) {
        Object.assign(this, { root, exercises, store: new ExerciseStore(), marking: null });
        this.editor = new CodeEditor((text) => this.keep(text), () => this.run());
        this.list = label(make("ol", { class: "exercise-list" }), "exercises.title");
        this.task = make("div", { class: "exercise-task" });
        this.given = make("div", {});
        this.after = make("div", {});
        this.button = makeText("button", "run", null,
                               { type: "button", name: "run", class: "main", click: () => this.marking ? this.stop() : this.run() });
        this.status = make("p", { class: "sentence", role: "status", "aria-live": "polite" });
        this.result = make("div", { class: "exercise-result" });
        const reset = makeText("button", "exercise.reset", null, { type: "button", name: "reset", click: () => this.reset() });
        root.append(
            this.list,
            make("div", { class: "exercise-columns" },
                 this.task,
                 make("div", { class: "exercise-work" },
                      this.given, this.editor.element, this.after,
                      label(make("div", { class: "buttons", role: "group" }, this.button, reset), "exercise.buttons"),
                      makeText("p", "exercise.keys", null, { class: "hint" }), this.status, this.result)));
        const named = /^#exercise-(\d+)$/.exec(location.hash);
        const number = Number(named?.[1] ?? this.store.read("exercise") ?? 0);
        this.open(exercises.find((exercise) => exercise.number === number) ?? exercises[0]);
        if (named)
            root.scrollIntoView();
    }

    open(exercise) {
        this.stop();
        this.exercise = exercise;
        this.store.write("exercise", String(exercise.number));
        const { number } = exercise;
        replaceChildren(this.task, make("h3", {}, makeText("span", "exercise.heading", { number }), makeEnglish("span", exercise.title)),
                        makeLessons(exercise.lessons),
                        makeTask(exercise.task),
                        make("details", {}, makeText("summary", "exercise.file", { name: exercise.name }),
                             makeCode(exercise.text, { class: "exercise-code" }, "exercise.file", { name: exercise.name })));
        this.given.replaceChildren(makeCode(exercise.given, { class: "exercise-code" }, "exercise.given"));
        this.after.replaceChildren(makeCode(exercise.after.slice(0, exercise.after.indexOf("\n}\n") + 2), { class: "exercise-code" }, "exercise.after"));
        this.editor.open(this.store.read(`lines.${number}`) ?? `${exercise.indent}\n`, exercise.first, number);
        this.tell();
        this.result.replaceChildren();
        this.refreshList();
    }

    refreshList() {
        replaceChildren(this.list, this.exercises.map((exercise) => {
            const solved = this.store.read(`solved.${exercise.number}`), begun = this.store.read(`lines.${exercise.number}`);
            const state = solved ? "exercise.solved" : begun ? "exercise.begun" : null;
            return make("li", { id: `exercise-${exercise.number}` }, make("button", { type: "button", "data-key": `exercise ${exercise.number}`,
                                                   "aria-current": exercise === this.exercise ? "true" : null,
                                                   click: () => this.open(exercise) },
                                       make("b", {}, String(exercise.number)), " ", makeEnglish("span", exercise.title),
                                       state ? [" ", makeText("span", state, null, { class: solved ? "mark solved" : "mark" })] : null));
        }));
    }

    keep(text) {
        const first = this.store.read(`lines.${this.exercise.number}`) === null;
        this.store.write(`lines.${this.exercise.number}`, text);
        if (first)
            this.refreshList();
    }

    reset() {
        this.store.write(`lines.${this.exercise.number}`, null);
        this.store.write(`solved.${this.exercise.number}`, null);
        this.open(this.exercise);
        this.editor.area.focus();
    }

    /* Shows texts [key, values] in the status line. */
    tell(...texts) {
        sayAll(this.status, texts);
    }

    /* Ends the marking. The engine that marks is a worker of its own, so an endless loop cannot hold the page. */
    stop() {
        if (!this.marking)
            return;
        this.marking.worker.terminate();
        this.marking = null;
        say(this.button, "run");
        this.tell(["exercise.stopped"]);
    }

    async run() {
        const { exercise } = this, lines = this.editor.area.value;
        if (this.marking)
            return;
        if (!lines.trim()) {
            this.tell(["exercise.empty"]);
            return;
        }
        const engine = this.marking = startEngine();
        say(this.button, "exercise.stop");
        this.tell(["exercise.running"]);
        try {
            const source = exercise.before + lines + (lines.endsWith("\n") ? "" : "\n") + exercise.after;
            const report = await engine.ask("mark", exercise.number, exercise.name, source);
            if (this.marking === engine)
                this.show(report);
        } catch (error) {
            if (this.marking === engine)
                this.status.replaceChildren(makeEnglish("span", error.message));
        } finally {
            engine.worker.terminate();
            if (this.marking === engine) {
                this.marking = null;
                say(this.button, "run");
            }
        }
    }

    show(report) {
        if (report.passed)
            this.store.write(`solved.${report.exercise}`, "yes");
        this.refreshList();
        const all = this.exercises.every((exercise) => this.store.read(`solved.${exercise.number}`));
        this.tell(["exercise.marks", { marks: report.marks, max: report.max, state: { key: `exercise.state.${report.status}` } }],
                  ...(all ? [["exercises.all"]] : []));
        const failed = report.checks.map((check, i) => i).filter((i) => !["right", "not run"].includes(report.checks[i].state));
        const shown = failed.find((i) => i > 0) ?? failed[0];
        replaceChildren(this.result, report.passed ? null : this.complaint(report, report.checks[shown]),
                        report.printed ? [makeText("h4", "exercise.printed"), makeCode(report.printed, {}, "exercise.printed")] : null,
                        report.status === "not run" || report.status === "not yet" ? null : this.checks(report, shown));
    }

    /* What is wrong: the likely cause, and the numbers of the smallest check that failed. */
    complaint(report, check) {
        const sentence = report.status === "wrong" ? check.sentence : report.summary;
        const line = Number(/, line (\d+)/.exec(`${sentence} ${report.warning}`)?.[1] ?? NaN);
        const own = !Number.isNaN(line) && this.editor.mark(line);
        return make("div", { class: "complaint" },
                    report.cause ? this.remark("exercise.cause", report.cause) : null,
                    makeCode(report.status === "wrong" ? `${check.name}\n${sentence}` : sentence, {}, "exercise.wrong"),
                    report.warning ? this.remark("exercise.outside", report.warning) : null,
                    own ? makeText("button", "exercise.line", { line }, { type: "button", name: "line", click: () => this.editor.select(line) }) : null);
    }

    /* Creates a sentence of the marker after its heading. */
    remark(key, sentence) {
        return make("p", {}, makeText("b", key), makeEnglish("span", sentence));
    }

    checks(report, shown) {
        return make("details", {}, makeText("summary", "exercise.checks"), make("ul", { class: "check-list" }, report.checks.map((check, i) =>
            make("li", { class: check.state === "right" ? "right" : "wrong" }, makeText("b", `exercise.check.${check.state.toLowerCase()}`), " ",
                 makeEnglish("span", `${check.name}, ${check.marks}/${check.max}`), i === shown ? " ←" : ""))));
    }
}

/* Fills the section of the exercises. */
function startExercises() {
    const files = [...document.querySelectorAll("script.exercise")];
    const exercises = files.map((file) => parseExercise(file.dataset.file, file.dataset.lessons, file.textContent.trimStart())).sort((a, b) => a.number - b.number);
    new ExercisesPart(document.getElementById("exercises"), exercises);
}
