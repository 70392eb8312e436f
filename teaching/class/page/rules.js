/* Part 2: break a rule. Two engines with the same seed train, one with the right backward rules, one with a wrong one. */

const FIRST_WRONG = 1; /* rule 0 is right */

class RulesPart {
    constructor(engine, root, settings) {
        Object.assign(this, { engine, root, settings, runs: [], busy: Promise.resolve(), running: false });
        this.place = (name) => root.querySelector(`[data-place="${name}"]`);
        this.loss = new Chart({ name: "rules.loss", low: 0 });
        this.accuracy = new Chart({ name: "rules.symbols", low: 0, high: 1, percent: true });
        this.place("charts").append(this.loss.element, this.accuracy.element);
        buttonOf(root, "run").addEventListener("click", () => this.toggle());
        buttonOf(root, "reset").addEventListener("click", () => this.choose());
        this.draw = onceAFrame(() => this.refresh());
    }

    /* Fills the menu, and shows the first wrong rule. */
    async open() {
        this.rules = await this.engine.ask("rules");
        const menu = make("select", { name: "rule", change: () => this.choose() },
                          this.rules.slice(FIRST_WRONG).map((rule, i) => makeText("option", `rule.${rule.name}`, null, { value: i + FIRST_WRONG })));
        this.menu = menu;
        this.place("menu").append(make("label", { class: "setting" }, makeText("span", "mistake"), menu));
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
        say(this.place("says"), `rule.${rule.name}.says`);
        for (const name of ["right", "wrong"])
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
            this.announce(["rules.ready", { seed: settings.seed, width: settings.width, heads: settings.heads }]);
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
        this.announce(["rules.training"]);
        const runs = this.runs;
        this.inTurn(() => trainInTurn(runs, () => this.running && this.runs === runs, this.draw).then(() => this.finish()));
    }

    finish() {
        this.running = false;
        this.announce(...this.outcome());
        this.trained?.();
        this.draw();
    }

    /* Returns texts about both engines. */
    outcome() {
        return this.runs.flatMap((run, i) => {
            const loss = run.step ? run.losses[run.step - 1] : NaN;
            const said = [[`rules.outcome.${i ? "wrong" : "right"}`, { loss: shortNumber(loss), step: run.step }]];
            return run.lastAccuracy ? [...said, ["rules.outcome.copies", { share: percent(run.lastAccuracy.symbols) }]] : said;
        });
    }

    announce(...texts) {
        sayAll(this.place("status"), texts);
    }

    refresh() {
        const last = Math.max(1, ...this.runs.map((run) => Math.max(run.step, run.settings.steps)));
        const names = ["rule.right", "rule.wrong"].map((key) => textOf(key));
        this.loss.update(this.runs.map((run, i) => ({ name: names[i], style: i, x: run.losses.map((_, k) => k + 1), y: run.losses })), last);
        this.accuracy.update(this.runs.map((run, i) => ({ name: names[i], style: i, x: run.accuracy.map((entry) => entry.step),
                                                          y: run.accuracy.map((entry) => entry.symbols) })), last);
        this.shown?.();
        this.refreshButtons();
    }

    refreshButtons() {
        const started = this.runs.some((run) => run.step);
        const button = buttonOf(this.root, "run");
        say(button, this.running ? "pause" : started ? "continue" : "train.both");
        button.disabled = this.runs.length > 0 && this.runs.every((run) => run.ended);
    }
}
