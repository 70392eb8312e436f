/* Part 3: follow one number from the embedding to the loss and back, in the model of part 1. */

class FollowPart {
    constructor(engine, root, train) {
        Object.assign(this, { engine, root, train, position: 0, element: 0, busy: Promise.resolve() });
        this.place = (name) => root.querySelector(`[data-place="${name}"]`);
        this.heads = new HeadMaps(this.place("heads"));
        this.input = root.querySelector("input[name=sequence]");
        this.field = root.querySelector("input[name=element]");
        this.walk = root.querySelector("input[name=walk]");
        this.input.addEventListener("change", () => this.begin());
        this.field.addEventListener("change", () => {
            this.element = Math.min(Math.max(Math.trunc(Number(this.field.value)) || 0, 0), this.width - 1);
            this.begin();
        });
        this.walk.addEventListener("input", () => this.goTo(Number(this.walk.value)));
        buttonOf(root, "back").addEventListener("click", () => this.goTo(this.at - 1));
        buttonOf(root, "all").addEventListener("click", () => this.goTo(Infinity));
        buttonOf(root, "next").addEventListener("click", () => this.goTo(this.at + 1));
    }

    get width() {
        return this.train.run.settings.width;
    }

    /* Begins with the sample of part 1 when its engine is new. */
    restart() {
        this.input.value = this.train.sequence;
        this.input.maxLength = this.train.sequence.length;
        this.field.max = this.width - 1;
        this.element = Math.min(this.element, this.width - 1);
        this.position = Math.min(this.position, 2 * this.train.sequence.length - 1);
        return this.update();
    }

    /* Begins the walk of another number. */
    begin() {
        this.at = 0;
        return this.update();
    }

    /* Reads the path of the chosen number again. */
    update() {
        this.busy = this.busy.then(() => this.read()).then(() => showProblem(this.place("problem"), null),
                                                           (error) => showProblem(this.place("problem"), error));
        return this.busy;
    }

    async read() {
        const { number, settings, step } = this.train.run;
        const sequence = this.input.value.trim();
        const T = 2 * settings.length;
        const path = await this.engine.ask("follow", number, sequence, this.position, this.element);
        const written = await this.engine.ask("write", number, sequence);
        const weights = await this.engine.ask("attention", number, sequence, settings.heads * T * T);
        this.path = path.path;
        this.tokens = [...path.tokens];
        this.field.value = this.element;
        this.heads.show(weights, settings.heads, tokensOf(sequence, written), sequence);
        this.heads.pick(this.position);
        this.place("writes").replaceChildren(...markedLetters(sequence, written));
        say(this.place("right"), "right.after", { right: countRight(sequence, written), all: sequence.length, step });
        this.showTokens(sequence.length);
        this.showPath(path.loss);
        this.goTo(Math.min(this.at ?? 0, 2 * this.path.length - 1));
    }

    /* Shows the tokens as buttons that choose the position. */
    showTokens(n) {
        const choose = (position) => {
            this.position = position;
            this.begin();
        };
        replaceChildren(this.place("tokens"), this.tokens.map((token, position) => label(make("button", {
            type: "button", "data-key": `token ${position}`, "aria-pressed": String(position === this.position),
            class: position >= n ? "writes" : null, click: () => choose(position) }, token, make("small", {}, position)),
            "token", { position, token: token === "|" ? { key: "separator" } : token })));
    }

    showPath(loss) {
        const { path } = this;
        const number = (x) => make("td", { title: x === undefined ? null : String(x) }, x === undefined ? "" : shortNumber(x));
        this.rows = path.map((entry) => make("tr", {},
            make("th", { scope: "row" }, makeText("span", `path.${entry.name}`), " ",
                 make("span", { class: "shape", translate: "no" }, placeOf(entry)),
                 make("span", { class: "rule", translate: "no" }, entry.formula)), Object.assign(number(entry.value), { className: "forward" }),
            number(entry.factor), number(entry.carried), number(entry.gradient)));
        this.rows.forEach((row) => [2, 3, 4].forEach((i) => row.cells[i].classList.add("backward")));
        this.place("path").replaceChildren(...this.rows);
        sayAll(this.place("sum"), this.summary(loss));
        Object.assign(this.walk, { min: 0, max: 2 * path.length - 1 });
    }

    /* Returns texts that say how the factors and the gradient belong together. */
    summary(loss) {
        const { path } = this;
        const first = path[0];
        if (first.gradient === 0)
            return [["path.zero"]];
        const said = ["path.sum", { loss: shortNumber(loss), count: path.length - 1, product: shortNumber(productOfFactors(path)),
                                    gradient: shortNumber(first.gradient), carried: shortNumber(first.carried) }];
        return Math.abs(first.gradient) < 1e-6 ? [said, ["path.small"]] : [said];
    }

    /* Shows the walk up to a place: values forward, then gradients backward. */
    goTo(place) {
        const steps = this.path.length;
        this.at = Math.min(Math.max(place, 0), 2 * steps - 1);
        const forward = this.at < steps;
        const current = forward ? this.at : 2 * steps - 1 - this.at;
        this.rows.forEach((row, i) => {
            row.classList.toggle("hidden-value", forward && i > current);
            row.classList.toggle("hidden-gradient", forward || i < current);
            row.classList.toggle("current", i === current);
        });
        this.walk.value = this.at;
        say(this.place("sentence"), ...stepOfPath(this.path, current, forward));
        const name = { key: `path.${this.path[current].name}` };
        this.walk.setAttribute("aria-valuetext", textOf(forward ? "walk.forward" : "walk.backward", { name }));
        buttonOf(this.root, "back").disabled = this.at === 0;
        buttonOf(this.root, "next").disabled = this.at === 2 * steps - 1;
        this.walked?.(this.at, steps);
    }
}

/* Writes "[T=2, E=5]". */
function placeOf({ index, axes }) {
    return index.length ? `[${index.map((i, k) => (axes?.[k] ? `${axes[k]}=${i}` : i)).join(", ")}]` : "";
}

function productOfFactors(path) {
    return path.reduce((product, entry) => product * (entry.factor ?? 1), 1);
}

/* Returns the text that says what happens at an entry of the path. */
function stepOfPath(path, i, forward) {
    const entry = path[i], next = path[i + 1];
    const values = { name: { key: `path.${entry.name}` }, place: placeOf(entry) };
    if (forward)
        return ["path.forward", { ...values, value: shortNumber(entry.value) }];
    if (!next)
        return ["path.begin", { gradient: shortNumber(entry.gradient) }];
    return ["path.backward", { ...values, next: { key: `path.${next.name}` }, after: shortNumber(next.gradient),
                               factor: shortNumber(entry.factor), carried: shortNumber(entry.carried), gradient: shortNumber(entry.gradient) }];
}
