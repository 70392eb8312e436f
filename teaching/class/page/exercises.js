/* The exercises: an editor for the lines of each exercise, and what the marker says about them. The files of
 * teaching/exercises are in this page. The engine's interpreter runs them (class_mark in teaching/class/engine.h). */

const EXERCISE_TEXTS = {
    title: "Exercises",
    about: "Write the missing lines of an operation. The marker compares your results with the right ones and says what is wrong. Nothing is installed: "
        + "an interpreter in this page runs your lines. The pages of the lessons explain what each exercise needs.",
    list: "Exercises",
    exercise: "Exercise {0}",
    solved: "solved",
    begun: "begun",
    formula: "Formulas",
    given: "The lines before yours",
    after: "The lines after yours",
    file: "The whole file {0}",
    editor: "Your lines of exercise {0}",
    keys: "Ctrl and Enter runs your lines. Tab indents by four spaces; press Escape first to leave the editor with Tab.",
    run: "Run",
    stop: "Stop",
    reset: "Start again",
    running: "Marking your lines …",
    stopped: "Stopped.",
    empty: "Write your lines first.",
    marks: "{0} of {1} marks: {2}",
    states: { passed: "passed", wrong: "wrong", "not yet": "not yet", "not run": "not run" },
    right: "right",
    wrong: "wrong",
    stoppedCheck: "stopped",
    endless: "no end",
    notRun: "not run",
    checks: "The checks",
    cause: "Likely cause",
    outside: "Outside an array",
    printed: "Printed by your lines",
    toLine: "Go to line {0}",
    all: "You have solved all exercises.",
};

/* Returns a text with its places {0}, {1} filled. */
function exerciseText(name, ...values) {
    return EXERCISE_TEXTS[name].replace(/\{(\d)\}/g, (_, i) => values[i]);
}

/* Reads a file of an exercise: its number, title and task, the lines around the blank, and the number of the first line
 * of the blank. */
function parseExercise(name, text) {
    const comment = text.slice(text.indexOf("/*") + 2, text.indexOf("*/"));
    const lines = comment.split("\n").map((line) => line.replace(/^ \* ?/, "").trimEnd());
    const begin = text.indexOf("\n", text.indexOf("---- your lines")) + 1;
    const end = text.lastIndexOf("\n", text.indexOf("---- end of your lines")) + 1;
    const start = text.lastIndexOf("\nstatic ", begin) + 1;
    const indent = /^ */.exec(text.slice(begin))[0];
    return {
        name, text, indent,
        number: parseInt(name, 10),
        title: lines[0].replace(/^\s*Exercise \d+: (.)([^.]*).*$/, (_, first, rest) => first.toUpperCase() + rest),
        task: lines.slice(1).join("\n").replace(/^\n+/, "").trimEnd().split(/\n\n+/),
        before: text.slice(0, begin),
        given: text.slice(start, begin).trimEnd(),
        after: text.slice(end),
        first: text.slice(0, begin).split("\n").length,
    };
}

/* Makes the paragraphs of a task. Formulas are indented; an item of a list begins with -. */
function makeTask(paragraphs) {
    return paragraphs.flatMap((text) => /^ *-/.test(text) ? text.split(/\n(?= *- )/) : [text]).map((text) =>
        text.split("\n").every((line) => /^ {4}/.test(line))
            ? make("pre", { tabindex: "0", "aria-label": EXERCISE_TEXTS.formula }, text.replace(/^ {4}/gm, ""))
            : make("p", {}, text.replace(/\s+/g, " ")));
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

    open(text, first, label) {
        this.area.value = text;
        this.area.setAttribute("aria-label", label);
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
        this.list = make("ol", { class: "exercise-list", "aria-label": EXERCISE_TEXTS.list });
        this.task = make("div", { class: "exercise-task" });
        this.given = make("pre", { class: "exercise-code" });
        this.after = make("pre", { class: "exercise-code" });
        this.button = make("button", { type: "button", name: "run", class: "main", click: () => this.marking ? this.stop() : this.run() },
                           EXERCISE_TEXTS.run);
        this.status = make("p", { class: "sentence", role: "status", "aria-live": "polite" });
        this.result = make("div", { class: "exercise-result" });
        const reset = make("button", { type: "button", name: "reset", click: () => this.reset() }, EXERCISE_TEXTS.reset);
        root.append(
            make("h2", { id: "exercises-title" }, EXERCISE_TEXTS.title), make("p", {}, EXERCISE_TEXTS.about), this.list,
            make("div", { class: "exercise-columns" },
                 this.task,
                 make("div", { class: "exercise-work" },
                      this.given, this.editor.element, this.after,
                      make("div", { class: "buttons", role: "group", "aria-label": EXERCISE_TEXTS.title }, this.button, reset),
                      make("p", { class: "hint" }, EXERCISE_TEXTS.keys), this.status, this.result)));
        root.setAttribute("aria-labelledby", "exercises-title");
        root.hidden = false;
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
        replaceChildren(this.task, make("h3", {}, `${exerciseText("exercise", exercise.number)}: ${exercise.title}`),
                        makeTask(exercise.task),
                        make("details", {}, make("summary", {}, exerciseText("file", exercise.name)),
                             make("pre", { class: "exercise-code", tabindex: "0" }, exercise.text)));
        this.given.textContent = exercise.given;
        this.given.setAttribute("aria-label", EXERCISE_TEXTS.given);
        this.after.textContent = exercise.after.slice(0, exercise.after.indexOf("\n}\n") + 2);
        this.after.setAttribute("aria-label", EXERCISE_TEXTS.after);
        for (const code of [this.given, this.after])
            code.tabIndex = 0;
        this.editor.open(this.store.read(`lines.${exercise.number}`) ?? `${exercise.indent}\n`, exercise.first,
                         exerciseText("editor", exercise.number));
        this.status.textContent = "";
        this.result.replaceChildren();
        this.refreshList();
    }

    refreshList() {
        replaceChildren(this.list, this.exercises.map((exercise) => {
            const solved = this.store.read(`solved.${exercise.number}`), begun = this.store.read(`lines.${exercise.number}`);
            const state = solved ? EXERCISE_TEXTS.solved : begun ? EXERCISE_TEXTS.begun : "";
            return make("li", {}, make("button", { type: "button", "data-key": `exercise ${exercise.number}`,
                                                   "aria-current": exercise === this.exercise ? "true" : null,
                                                   click: () => this.open(exercise) },
                                       make("b", {}, String(exercise.number)), ` ${exercise.title}`,
                                       state ? make("span", { class: solved ? "mark solved" : "mark" }, ` ${solved ? "✓ " : ""}${state}`) : null));
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

    /* Ends the marking. The engine that marks is a worker of its own, so an endless loop cannot hold the page. */
    stop() {
        if (!this.marking)
            return;
        this.marking.worker.terminate();
        this.marking = null;
        this.button.textContent = EXERCISE_TEXTS.run;
        this.status.textContent = EXERCISE_TEXTS.stopped;
    }

    async run() {
        const { exercise } = this, lines = this.editor.area.value;
        if (this.marking)
            return;
        if (!lines.trim()) {
            this.status.textContent = EXERCISE_TEXTS.empty;
            return;
        }
        const engine = this.marking = startEngine();
        this.button.textContent = EXERCISE_TEXTS.stop;
        this.status.textContent = EXERCISE_TEXTS.running;
        try {
            const source = exercise.before + lines + (lines.endsWith("\n") ? "" : "\n") + exercise.after;
            const report = await engine.ask("mark", exercise.number, exercise.name, source);
            if (this.marking === engine)
                this.show(report);
        } catch (error) {
            if (this.marking === engine)
                this.status.textContent = error.message;
        } finally {
            engine.worker.terminate();
            if (this.marking === engine) {
                this.marking = null;
                this.button.textContent = EXERCISE_TEXTS.run;
            }
        }
    }

    show(report) {
        if (report.passed)
            this.store.write(`solved.${report.exercise}`, "yes");
        this.refreshList();
        const all = this.exercises.every((exercise) => this.store.read(`solved.${exercise.number}`));
        this.status.textContent = exerciseText("marks", report.marks, report.max, EXERCISE_TEXTS.states[report.status])
            + (all ? ` ${EXERCISE_TEXTS.all}` : "");
        const failed = report.checks.map((check, i) => i).filter((i) => !["right", "not run"].includes(report.checks[i].state));
        const shown = failed.find((i) => i > 0) ?? failed[0];
        replaceChildren(this.result, report.passed ? null : this.complaint(report, report.checks[shown]),
                        report.printed ? [make("h4", {}, EXERCISE_TEXTS.printed), make("pre", { tabindex: "0" }, report.printed)] : null,
                        report.status === "not run" || report.status === "not yet" ? null : this.checks(report, shown));
    }

    /* What is wrong: the likely cause, and the numbers of the smallest check that failed. */
    complaint(report, check) {
        const sentence = report.status === "wrong" ? check.sentence : report.summary;
        const line = Number(/, line (\d+)/.exec(`${sentence} ${report.warning}`)?.[1] ?? NaN);
        const own = !Number.isNaN(line) && this.editor.mark(line);
        return make("div", { class: "complaint" },
                    report.cause ? make("p", {}, make("b", {}, `${EXERCISE_TEXTS.cause}: `), report.cause) : null,
                    make("pre", { tabindex: "0" }, report.status === "wrong" ? `${check.name}\n${sentence}` : sentence),
                    report.warning ? make("p", {}, make("b", {}, `${EXERCISE_TEXTS.outside}: `), report.warning) : null,
                    own ? make("button", { type: "button", name: "line", click: () => this.editor.select(line) }, exerciseText("toLine", line)) : null);
    }

    checks(report, shown) {
        const names = { right: EXERCISE_TEXTS.right, WRONG: EXERCISE_TEXTS.wrong, STOPPED: EXERCISE_TEXTS.stoppedCheck,
                        ENDLESS: EXERCISE_TEXTS.endless, "not run": EXERCISE_TEXTS.notRun };
        return make("details", {}, make("summary", {}, EXERCISE_TEXTS.checks), make("ul", { class: "check-list" }, report.checks.map((check, i) =>
            make("li", { class: check.state === "right" ? "right" : "wrong" }, make("b", {}, names[check.state]),
                 ` ${check.name}, ${check.marks}/${check.max}`, i === shown ? " ←" : ""))));
    }
}

/* Fills the section of the exercises, and adds it to the list of parts. */
function startExercises() {
    const root = document.getElementById("exercises");
    const files = [...document.querySelectorAll("script.exercise")];
    const exercises = files.map((file) => parseExercise(file.dataset.file, file.textContent.trimStart())).sort((a, b) => a.number - b.number);
    if (!exercises.length)
        return;
    document.querySelector("nav ol")?.append(make("li", {}, make("a", { href: "#exercises" }, EXERCISE_TEXTS.title)));
    new ExercisesPart(root, exercises);
}
