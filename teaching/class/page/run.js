/* A training run: one engine, and what the page knows about its steps. */

const SLICE = 40;          /* milliseconds of training before the Worker answers */
const MEASURE_EVERY = 20;  /* steps */
const MEASURED = 20;       /* sequences while the run trains */
const MEASURED_LAST = 200; /* sequences after the last step */

class Run {
    constructor(engine, settings, rule) {
        Object.assign(this, { engine, settings: { ...settings }, rule, number: 0, step: 0, seconds: 0, running: false, changed: null,
                              losses: [], accuracy: [], norms: [], parameters: [], rate: 0, solved: null });
    }

    async open() {
        this.number = await this.engine.ask("create", this.settings);
        if (this.rule)
            await this.engine.ask("change", this.number, "rule", this.rule);
        await this.inspect();
        return this;
    }

    close() {
        this.running = false;
        if (this.number)
            this.engine.ask("release", this.number).catch(() => {});
        this.number = 0;
    }

    get ended() {
        return this.settings.steps > 0 && this.step >= this.settings.steps;
    }

    /* Runs at most `most` steps, and measures when it is time. */
    async advance(most) {
        const left = this.settings.steps > 0 ? this.settings.steps - this.step : Infinity;
        const untilMeasure = MEASURE_EVERY - (this.step % MEASURE_EVERY);
        const slice = await this.engine.ask("train", this.number, Math.min(most, left, untilMeasure), SLICE);
        this.losses.push(...slice.losses);
        Object.assign(this, { step: slice.steps, rate: slice.rate });
        this.seconds += slice.seconds;
        await this.inspect();
        if (this.step % MEASURE_EVERY === 0 || this.ended)
            await this.measure(this.ended ? MEASURED_LAST : MEASURED);
    }

    /* Reads the norms of the parameters. */
    async inspect() {
        this.parameters = await this.engine.ask("parameters", this.number);
        if (this.step)
            this.norms.push({ step: this.step, layers: normsByLayer(this.parameters) });
    }

    async measure(sequences) {
        const accuracy = await this.engine.ask("measure", this.number, sequences);
        this.accuracy.push({ step: this.step, ...accuracy });
        if (accuracy.symbols === 1 && !this.solved)
            this.solved = { step: this.step, seconds: this.seconds };
    }

    /* Changes a setting of the running engine. */
    async change(name, value) {
        await this.engine.ask("change", this.number, name, value);
        if (this.step > 0)
            this.changed ??= this.step;
        this.settings[name] = value;
    }

    get lastAccuracy() {
        return this.accuracy[this.accuracy.length - 1];
    }
}

/* Returns the norm of the gradient of each layer: the first word of the parameters' names. */
function normsByLayer(parameters) {
    const squares = new Map();
    for (const { name, gradient } of parameters) {
        const layer = name.split(".")[0];
        squares.set(layer, (squares.get(layer) || 0) + (gradient ?? NaN) ** 2);
    }
    return new Map([...squares].map(([layer, square]) => [layer, Math.sqrt(square)]));
}

/* Trains runs in turn, until all have ended or `goesOn` returns false. draw() runs after each slice. */
async function trainInTurn(runs, goesOn, draw) {
    while (goesOn() && runs.some((run) => !run.ended)) {
        const next = runs.filter((run) => !run.ended).sort((a, b) => a.step - b.step)[0];
        await next.advance(Infinity);
        await draw();
    }
}

/* Returns a function that calls draw once for each frame, however often it is called. */
function onceAFrame(draw) {
    let waiting = false;
    return () => {
        if (waiting)
            return;
        waiting = true;
        requestAnimationFrame(() => {
            waiting = false;
            draw();
        });
    };
}
