/* Part 2: break a rule. Two engines with the same seed train, one with the right backward rules, one with a wrong one. */

const FIRST_WRONG = 1; /* rule 0 is right */

class RulesPart {
    constructor(engine, root, settings) {
        Object.assign(this, { engine, root, settings, runs: [], busy: Promise.resolve(), running: false });
        this.place = (name) => root.querySelector(`[data-place="${name}"]`);
        this.loss = new Chart({ name: "Loss with the right and the wrong rule", low: 0 });
        this.accuracy = new Chart({ name: "Symbols copied correctly", low: 0, high: 1, percent: true });
        this.place("charts").append(this.loss.element, this.accuracy.element);
        buttonOf(root, "run").addEventListener("click", () => this.toggle());
        buttonOf(root, "reset").addEventListener("click", () => this.choose());
        this.draw = onceAFrame(() => this.refresh());
    }

    /* Fills the menu, and shows the first wrong rule. */
    async open() {
        this.rules = await this.engine.ask("rules");
        const menu = make("select", { name: "rule", change: () => this.choose() },
                          this.rules.slice(FIRST_WRONG).map((rule, i) => make("option", { value: i + FIRST_WRONG }, rule.name)));
        this.menu = menu;
        this.place("menu").append(make("label", { class: "setting" }, make("span", {}, "Mistake"), menu));
        return this.choose();
    }

    inTurn(action) {
        this.busy = this.busy.then(action).then(() => showProblem(this.place("problem"), null), (error) => {
            this.running = false;
            showProblem(this.place("problem"), error);
            this.refreshButtons();
        });
        return this.busy;
    }

    get chosen() {
        return Number(this.menu.value);
    }

    /* Shows the chosen rule, asks the checker, and prepares two new engines. */
    choose() {
        const number = this.chosen, rule = this.rules[number];
        this.pause();
        for (const name of ["says", "right", "wrong"])
            this.place(name).textContent = rule[name];
        return this.inTurn(async () => {
            this.close();
            const settings = this.settings();
            const engine = await new Run(this.engine, settings).open();
            const wrong = await new Run(this.engine, settings, number).open();
            this.runs = [engine, wrong];
            const sentences = [];
            for (const asked of [0, number])
                sentences.push(await this.engine.ask("check", engine.number, asked));
            this.place("check-right").textContent = sentences[0].trim();
            this.place("check-wrong").textContent = sentences[1].trim();
            this.announce(`Both engines have seed ${settings.seed}, width ${settings.width} and ${settings.heads} heads, as in part 1.`);
            this.draw();
        });
    }

    close() {
        this.runs.forEach((run) => run.close());
        this.runs = [];
    }

    pause() {
        this.running = false;
        this.refreshButtons();
    }

    toggle() {
        this.running ? this.pause() : this.start();
    }

    start() {
        if (!this.runs.length || this.runs.every((run) => run.ended))
            return;
        this.running = true;
        this.started?.();
        this.refreshButtons();
        this.announce("Training both engines.");
        const runs = this.runs;
        this.inTurn(() => trainInTurn(runs, () => this.running && this.runs === runs, this.draw).then(() => this.finish()));
    }

    finish() {
        this.running = false;
        this.announce(this.outcome());
        this.draw();
    }

    outcome() {
        const sentences = this.runs.map((run, i) => {
            const loss = run.step ? run.losses[run.step - 1] : NaN;
            const accuracy = run.lastAccuracy ? `, and the model copies ${percent(run.lastAccuracy.symbols)} of the symbols` : "";
            return `With the ${i ? "wrong" : "right"} rule the loss is ${shortNumber(loss)} at step ${run.step}${accuracy}.`;
        });
        return sentences.join(" ");
    }

    announce(text) {
        this.place("status").textContent = text;
    }

    refresh() {
        const last = Math.max(1, ...this.runs.map((run) => Math.max(run.step, run.settings.steps)));
        const names = ["right rule", "wrong rule"];
        this.loss.update(this.runs.map((run, i) => ({ name: names[i], style: i, x: run.losses.map((_, k) => k + 1), y: run.losses })), last);
        this.accuracy.update(this.runs.map((run, i) => ({ name: names[i], style: i, x: run.accuracy.map((entry) => entry.step),
                                                          y: run.accuracy.map((entry) => entry.symbols) })), last);
        this.refreshButtons();
    }

    refreshButtons() {
        const started = this.runs.some((run) => run.step);
        const button = buttonOf(this.root, "run");
        button.textContent = this.running ? "Pause" : started ? "Continue" : "Train both";
        button.disabled = this.runs.length > 0 && this.runs.every((run) => run.ended);
    }
}
