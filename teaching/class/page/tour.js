/* The tour: twelve steps. Each marks a part of the page, and most ask the reader to predict or to do something. */

const SEPARATOR_RULE = "missing row sum"; /* the wrong rule of the tour */
const MODEL_TRAINED = 0.99;               /* the share of right symbols from which the tour shows the diagonal */
const COMPARED = 100;                     /* steps after which the tour compares the rules */
const FOUND = 0.1;                        /* the mean weight from which a head has found the separator */

/* The steps. target: a selector. ask: the keys of the choices. does: the key of what the reader does; done(tour) says whether it
 * has happened. reveal(tour): the text after an answer. enter(tour) prepares the page. trained: the step needs a trained model. */
const TOUR = [
    { name: "task", target: "#train [data-tour=reads]" },
    { name: "guess", target: "#train [data-tour=writes]", ask: ["tour.guess.few", "tour.guess.half", "tour.guess.all"],
      reveal: (tour) => ["tour.guess.reveal", { right: countRight(tour.train.sequence, tour.train.written), all: tour.train.sequence.length }] },
    { name: "loss", target: "#train [data-tour=facts]" },
    { name: "separator", target: "#train [data-tour=heads]", ask: (tour) => tour.train.weights && tour.heads(), reveal: () => ["tour.separator.later"] },
    { name: "run", target: "#train .buttons", does: "tour.run.do", done: (tour) => tour.train.run.step >= 20 },
    { name: "diagonal", target: "#train [data-tour=heads]", does: "tour.diagonal.do", done: (tour) => tour.trained() },
    { name: "reveal", target: "#train [data-tour=heads]", trained: true, says: (tour) => tour.separatorText() },
    { name: "touch", target: "#train [data-tour=heads]", trained: true, does: "tour.touch.do", done: (tour) => tour.touched },
    { name: "rule", target: "#rules", ask: ["tour.rule.stops", "tour.rule.slow", "tour.rule.same"], reveal: () => ["tour.rule.reveal"],
      enter: (tour) => tour.chooseRule() },
    { name: "both", target: "#rules [data-tour=rules-charts]", does: "tour.both.do", done: (tour) => tour.compared(), says: (tour) => tour.comparedText() },
    { name: "forward", target: "#follow [data-tour=path]", does: "tour.forward.do", done: (tour) => tour.walk >= tour.half - 1,
      enter: (tour) => tour.beginPath() },
    { name: "backward", target: "#follow [data-tour=path]", does: "tour.backward.do", done: (tour) => tour.walk === 2 * tour.half - 1,
      says: () => [["tour.exercises"]] },
];

class Tour {
    constructor(panel, train, rules, follow) {
        Object.assign(this, { panel, train, rules, follow, step: -1, answers: {}, touched: false, walk: 0, half: Infinity });
        this.button = buttonOf(train.root, "tour");
        this.button.addEventListener("click", () => this.open(this.step >= 0 && this.step < TOUR.length ? this.step : 0));
        train.heads.hovered = (h, i, j) => {
            this.touched ||= TOUR[this.step]?.name === "touch" && i === j;
            this.refresh();
        };
        train.shown = () => this.refresh();
        rules.trained = () => this.refresh();
        rules.shown = () => this.endComparison();
        follow.walked = (at, steps) => {
            Object.assign(this, { walk: at, half: steps });
            this.refresh();
        };
        addEventListener("keydown", (event) => event.key === "Escape" && !panel.hidden && panel.contains(document.activeElement) && this.close());
        languageListeners.push(() => !panel.hidden && this.show());
    }

    /* Goes on where the reader was before the page was loaded again. */
    resume() {
        const before = remembered("tour");
        if (!before || !(before.step >= 0 && before.step < TOUR.length))
            return;
        this.answers = before.answers || {};
        this.step = before.step;
        say(this.button, "tour.continue");
        if (before.open)
            this.open(this.step, true);
    }

    open(step, resumed) {
        this.panel.hidden = false;
        document.body.classList.add("touring");
        this.goTo(step, resumed);
    }

    close() {
        this.panel.hidden = true;
        document.body.classList.remove("touring");
        this.mark(null);
        say(this.button, this.step >= 0 ? "tour.continue" : "tour.start");
        this.remember();
        this.button.focus({ preventScroll: true });
    }

    remember() {
        remember("tour", { step: this.step, answers: this.answers, open: !this.panel.hidden });
    }

    /* Shows a step, and moves the keyboard's focus to it. */
    goTo(step, resumed) {
        this.step = step;
        const { enter } = TOUR[step];
        if (enter)
            enter(this);
        this.remember();
        this.show();
        this.mark(TOUR[step].target);
        if (!resumed)
            this.panel.querySelector("h2").focus({ preventScroll: true });
    }

    finish() {
        Object.assign(this, { step: -1, answers: {} });
        this.close();
    }

    /* Marks the part of the page that a step is about, and brings it into view. The panel goes to the other side. */
    mark(selector) {
        document.querySelectorAll(".tour-target").forEach((element) => element.classList.remove("tour-target"));
        const target = selector && document.querySelector(selector);
        if (!target)
            return;
        target.classList.add("tour-target");
        const box = target.getBoundingClientRect();
        const room = innerHeight - (innerWidth > 860 ? 0 : this.panel.offsetHeight);
        if (box.top < 0 || box.bottom > room)
            scrollBy({ top: box.top - Math.max(12, Math.min(60, (room - box.height) / 2)), behavior: "instant" });
        const { left, right } = target.getBoundingClientRect();
        this.panel.classList.toggle("at-left", left + right > innerWidth * 1.02);
    }

    /* -- what the steps ask of the page -- */

    trained() {
        const accuracy = this.train.run?.lastAccuracy;
        return Boolean(accuracy) && accuracy.symbols >= MODEL_TRAINED;
    }

    /* Returns a choice for each head, and "none of them". */
    heads() {
        return [...Array.from({ length: this.train.run.settings.heads }, (_, h) => ["head", { head: h }]), ["tour.none"]];
    }

    /* Says which head looks at the separator most, and which one draws the clearest diagonal. */
    separatorText() {
        const n = this.train.sequence.length;
        const separator = this.train.heads.meanWeights(() => n), diagonal = this.train.heads.meanWeights((i) => i);
        const best = (means) => means.indexOf(Math.max(...means));
        const at = best(separator), copies = best(diagonal), found = separator[at] >= FOUND;
        const answer = this.heads()[this.answers.separator];
        const right = this.answers.separator === (found ? at : separator.length);
        return [[found ? "tour.reveal.separator" : "tour.reveal.none", { head: at, share: percent(separator[at]) }],
                ...(answer ? [right ? ["tour.right"] : ["tour.wrong", { answer: { key: answer[0], values: answer[1] } }]] : []),
                ["tour.reveal.diagonal", { head: copies, share: percent(diagonal[copies]) }]];
    }

    chooseRule() {
        const { menu, rules } = this.rules;
        const number = rules.findIndex((rule) => rule.name === SEPARATOR_RULE);
        if (this.rules.chosen !== number) {
            menu.value = number;
            this.rules.choose();
        }
    }

    compared() {
        const { runs, running } = this.rules;
        return !running && runs.length === 2 && runs.every((run) => run.step >= COMPARED);
    }

    /* Pauses the training of both rules when it has shown enough. */
    endComparison() {
        if (!this.panel.hidden && TOUR[this.step]?.name === "both" && this.rules.running && this.rules.runs.every((run) => run.step >= COMPARED) &&
            this.rules.runs.some((run) => run.step < 2 * COMPARED))
            this.rules.pause();
        this.refresh();
    }

    comparedText() {
        const answer = TOUR.find((step) => step.name === "rule").ask[this.answers.rule];
        return this.compared() ? [...this.rules.outcome(), ...(answer ? [["tour.wrong", { answer: { key: answer } }]] : []), ["tour.both.checker"]] : [];
    }

    beginPath() {
        this.walk = 0;
        this.follow.begin();
    }

    /* -- the panel -- */

    /* Returns why the reader cannot go on, as a text, or null. */
    waitsFor(step) {
        if (step.trained && !this.trained())
            return ["tour.again"];
        if (step.ask && this.answers[step.name] === undefined)
            return ["tour.predict"];
        return step.does && !step.done(this) ? [step.does] : null;
    }

    /* Shows what has changed in the present step. The buttons stay, because the reader may be pressing one. */
    refresh() {
        if (this.panel.hidden || this.step < 0)
            return;
        if (this.choicesOf(TOUR[this.step]).length !== this.panel.querySelectorAll(".choices button").length)
            this.show();
        else
            this.showAnswer();
    }

    /* Says what the step waits for, or what it reveals. */
    showAnswer() {
        const step = TOUR[this.step], waits = this.waitsFor(step);
        const texts = waits ? [waits] : [...(step.ask ? [step.reveal(this)] : []), ...(step.does ? [["tour.done"]] : []), ...(step.says ? step.says(this) : [])];
        const state = JSON.stringify([step.name, texts]);
        if (state === this.state)
            return;
        this.state = state;
        sayAll(this.panel.querySelector(".said"), texts);
        showTexts(this.panel);
        setDisabled(buttonOf(this.panel, "next"), Boolean(waits));
    }

    answer(i) {
        this.answers[TOUR[this.step].name] = i;
        this.remember();
        this.show();
        this.panel.querySelector("[name=next]")?.focus({ preventScroll: true });
    }

    /* Returns the choices of a question, as lists of a key and values. */
    choicesOf(step) {
        const choices = typeof step.ask === "function" ? step.ask(this) : step.ask;
        return (choices || []).map((choice) => [choice].flat());
    }

    makeChoices(step) {
        const answer = this.answers[step.name];
        return make("div", { class: "choices", role: "group", "data-label": "tour.choices" }, this.choicesOf(step).map(([key, values], i) =>
            makeText("button", key, values, { type: "button", "data-key": `choice ${i}`, "aria-pressed": String(answer === i), click: () => this.answer(i) })));
    }

    show() {
        const step = TOUR[this.step], last = this.step === TOUR.length - 1;
        replaceChildren(this.panel,
            makeText("button", "tour.close", null, { type: "button", class: "close", name: "close", "data-key": "tour close", click: () => this.close() }),
            makeText("p", "tour.count", { step: this.step + 1, all: TOUR.length }, { class: "note" }),
            makeText("h2", `tour.${step.name}.title`, null, { tabindex: -1, "data-key": "tour title" }),
            makeText("p", `tour.${step.name}`),
            step.ask ? this.makeChoices(step) : null,
            make("p", { class: "said", role: "status" }),
            make("div", { class: "buttons" },
                makeText("button", "tour.back", null, { type: "button", name: "previous", "data-key": "tour back", disabled: this.step === 0, click: () => this.goTo(this.step - 1) }),
                makeText("button", last ? "tour.finish" : "tour.next", null, { type: "button", name: "next", class: "main", "data-key": "tour next",
                    click: () => (last ? this.finish() : this.goTo(this.step + 1)) })));
        this.state = null;
        this.showAnswer();
    }
}
