/* Part 1: the copy task learns. */

const SAMPLE = "COPYTHISSEQUENCE";
const LOOK_EVERY = 250; /* milliseconds */
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/* Returns a sequence of n letters among the first `symbols`. */
function sampleSequence(n, symbols) {
    return Array.from({ length: n }, (_, i) => LETTERS[LETTERS.indexOf(SAMPLE[i % SAMPLE.length]) % symbols]).join("");
}

function percent(share) {
    return `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : 1)} %`;
}

/* Returns what was written, with each wrong letter marked. */
function markedLetters(sequence, written) {
    return [...written].map((letter, i) => (letter === sequence[i] ? letter : make("mark", {}, letter)));
}

function countRight(sequence, written) {
    return [...written].filter((letter, i) => letter === sequence[i]).length;
}

class TrainPart {
    constructor(engine, root) {
        Object.assign(this, { engine, root, settings: startSettings(), busy: Promise.resolve(), listeners: [], previous: null });
        this.place = (name) => root.querySelector(`[data-place="${name}"]`);
        this.place("settings").append(...makeSettings((setting, value) => this.set(setting, value)));
        this.loss = new Chart({ name: "loss", low: 0, height: 180 });
        this.accuracy = new Chart({ name: "accuracy", low: 0, high: 1, percent: true });
        this.norms = new Chart({ name: "norms", log: true });
        this.place("loss-chart").append(this.loss.element);
        this.place("charts").append(this.accuracy.element, this.norms.element);
        this.heads = new HeadMaps(this.place("heads"));
        this.button("run", () => this.toggle());
        this.button("step", () => this.pausedThen(() => this.slice(1)));
        this.button("reset", () => this.pausedThen(() => this.reset()));
        this.draw = onceAFrame(() => this.refresh());
    }

    button(name, action) {
        buttonOf(this.root, name).addEventListener("click", action);
    }

    /* Runs an action after those that were started before. Shows the sentence of an error. */
    inTurn(action) {
        this.busy = this.busy.then(action).then(() => showProblem(this.place("problem"), null), (error) => this.stop(error));
        return this.busy;
    }

    stop(error) {
        if (this.run)
            this.run.running = false;
        showProblem(this.place("problem"), error);
        this.refreshButtons();
    }

    pausedThen(action) {
        this.pause();
        return this.inTurn(action);
    }

    pause() {
        if (this.run)
            this.run.running = false;
        this.refreshButtons();
    }

    /* Starts again with the present settings. The last run stays in the charts as a thin line. */
    async reset() {
        const run = await new Run(this.engine, this.settings).open();
        this.run?.close();
        if (this.run?.step)
            this.previous = this.run;
        this.run = run;
        this.sequence = sampleSequence(this.settings.length, this.settings.symbols);
        this.loss.options.reference = { y: Math.log(run.settings.symbols + 1), key: "guessing", values: { count: run.settings.symbols + 1 } };
        await this.look();
        this.listeners.forEach((listener) => listener());
        this.announce(["ready"]);
        this.draw();
    }

    /* Applies a setting: to the running engine, or by a new one. */
    set(setting, value) {
        const before = this.settings[setting.name];
        const goesOn = this.run?.running;
        this.settings[setting.name] = value;
        this.pausedThen(async () => {
            try {
                await (setting.live && this.run ? this.run.change(setting.name, value) : this.reset());
            } catch (error) {
                this.settings[setting.name] = before;
                throw error;
            }
            this.draw();
            if (goesOn)
                this.start();
        });
    }

    toggle() {
        this.run?.running ? this.pause() : this.start();
    }

    start() {
        if (!this.run || this.run.ended)
            return;
        const run = this.run;
        run.running = true;
        this.started?.();
        this.announce(["training"]);
        this.refreshButtons();
        this.inTurn(() => trainInTurn([run], () => run.running, () => this.lookSometimes()).then(() => this.finish(run)));
    }

    /* Looks at the sample while the model trains, but rarely enough to leave the time to the training. */
    async lookSometimes() {
        if (performance.now() - this.lookedAt > LOOK_EVERY)
            await this.look();
        this.draw();
    }

    async slice(most) {
        await this.run.advance(most);
        await this.finish(this.run);
    }

    async finish(run) {
        run.running = false;
        await this.look();
        this.announce(...this.outcome(run));
        this.draw();
        this.trained?.();
    }

    /* Reads what the model does with the sample. */
    async look() {
        const { run, sequence } = this;
        const T = 2 * run.settings.length;
        this.weights = await this.engine.ask("attention", run.number, sequence, run.settings.heads * T * T);
        this.written = await this.engine.ask("write", run.number, sequence);
        this.crc = await this.engine.ask("fingerprint", run.number);
        this.lookedAt = performance.now();
    }

    /* Returns texts about a run that has stopped. */
    outcome(run) {
        const accuracy = run.lastAccuracy;
        return [["outcome", { step: run.step, loss: shortNumber(run.losses[run.losses.length - 1]) }],
                ...(accuracy ? [["outcome.accuracy", { step: accuracy.step, symbols: percent(accuracy.symbols),
                                                       sequences: percent(accuracy.sequences) }]] : []),
                ...(run.ended ? [["outcome.complete"]] : [])];
    }

    announce(...texts) {
        sayAll(this.place("status"), texts);
    }

    refresh() {
        const { run } = this;
        this.refreshCharts();
        showParameters(this.place("parameters"), run.parameters);
        this.heads.show(this.weights, run.settings.heads, tokensOf(this.sequence, this.written), this.sequence);
        say(this.place("steps"), "of", { step: run.step, all: run.settings.steps });
        this.fact("loss", run.step ? shortNumber(run.losses[run.step - 1]) : "–");
        this.fact("rate", shortNumber(run.rate));
        this.fact("symbols", run.lastAccuracy ? percent(run.lastAccuracy.symbols) : "–");
        this.fact("sequences", run.lastAccuracy ? percent(run.lastAccuracy.sequences) : "–");
        this.fact("seconds", run.seconds.toFixed(1));
        this.fact("crc", this.crc.toString(16).padStart(8, "0"));
        this.fact("reads", this.sequence);
        this.shown?.();
        this.place("writes").replaceChildren(...markedLetters(this.sequence, this.written));
        say(this.place("right"), "right", { right: countRight(this.sequence, this.written), all: this.sequence.length });
        this.refreshCommand();
        this.refreshButtons();
    }

    fact(name, text) {
        this.place(name).textContent = text;
    }

    refreshCharts() {
        const { run, previous } = this;
        const steps = (list) => list.map((_, i) => i + 1);
        const last = Math.max(run.settings.steps, run.step);
        const old = previous ? [{ name: textOf("run.before"), style: "old", x: steps(previous.losses), y: previous.losses }] : [];
        this.loss.update([...old, { name: textOf("loss"), style: 0, x: steps(run.losses), y: run.losses }], last);
        const measured = run.accuracy.map((entry) => entry.step);
        this.accuracy.update([{ name: textOf("symbols"), style: 0, x: measured, y: run.accuracy.map((entry) => entry.symbols) },
                              { name: textOf("sequences"), style: 1, x: measured, y: run.accuracy.map((entry) => entry.sequences) }], last);
        this.norms.update(layerLines(run.norms), last);
    }

    refreshCommand() {
        const why = whyNoCommand(this.run);
        this.place("command").textContent = why ? "" : commandOf(this.run.settings);
        say(this.place("command-note"), ...(why || (this.run.ended
            ? ["terminal.same", { crc: this.crc.toString(16).padStart(8, "0") }]
            : ["terminal.later", { step: this.run.settings.steps }])));
    }

    refreshButtons() {
        const running = Boolean(this.run?.running), ended = Boolean(this.run?.ended);
        say(buttonOf(this.root, "run"), running ? "pause" : this.run?.step ? "continue" : "run");
        setDisabled(buttonOf(this.root, "run"), ended);
        setDisabled(buttonOf(this.root, "step"), ended || running);
    }
}

/* Returns the button with this name in a part. */
function buttonOf(root, name) {
    return root.querySelector(`button[name="${name}"]`);
}

function setDisabled(button, disabled) {
    button.disabled = disabled;
}
