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
        this.place("writes").replaceChildren(...markedLetters(sequence, written),
            make("span", { class: "note" }, ` ${countRight(sequence, written)} of ${sequence.length} right, after step ${step}`));
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
        replaceChildren(this.place("tokens"), this.tokens.map((token, position) => make("button", {
            type: "button", "data-key": `token ${position}`, "aria-pressed": String(position === this.position),
            "aria-label": `position ${position}, ${token === "|" ? "separator" : token}`, class: position >= n ? "writes" : null,
            click: () => choose(position) }, token, make("small", {}, position))));
    }

    showPath(loss) {
        const { path } = this;
        const number = (x) => make("td", { title: x === undefined ? null : String(x) }, x === undefined ? "" : shortNumber(x));
        this.rows = path.map((entry) => make("tr", {},
            make("th", { scope: "row" }, entry.name, " ", make("span", { class: "shape" }, placeOf(entry)),
                 make("span", { class: "rule" }, entry.formula)), Object.assign(number(entry.value), { className: "forward" }),
            number(entry.factor), number(entry.carried), number(entry.gradient)));
        this.rows.forEach((row) => [2, 3, 4].forEach((i) => row.cells[i].classList.add("backward")));
        this.place("path").replaceChildren(...this.rows);
        this.place("sum").textContent = this.summary(loss);
        Object.assign(this.walk, { min: 0, max: 2 * path.length - 1 });
    }

    /* Says how the factors and the gradient belong together. */
    summary(loss) {
        const { path } = this;
        const product = productOfFactors(path);
        const first = path[0];
        const small = Math.abs(first.gradient) < 1e-6
            ? " It is small because this model makes almost no error. Reset part 1 to follow a number of a new model." : "";
        if (first.gradient === 0)
            return "The gradient is 0: the loss does not depend on this number.";
        return `The loss is ${shortNumber(loss)}. The product of the ${path.length - 1} factors is ${shortNumber(product)}: ` +
               `the derivative along this path alone. The sum over all paths is the gradient, ${shortNumber(first.gradient)}. ` +
               `Through the next number of the path comes ${shortNumber(first.carried)} of it.${small}`;
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
        this.place("sentence").textContent = stepOfPath(this.path, current, forward);
        this.walk.setAttribute("aria-valuetext", `${forward ? "forward" : "backward"}, ${this.path[current].name}`);
        buttonOf(this.root, "back").disabled = this.at === 0;
        buttonOf(this.root, "next").disabled = this.at === 2 * steps - 1;
    }
}

/* Writes "[T=2, E=5]". */
function placeOf({ index, axes }) {
    return index.length ? `[${index.map((i, k) => (axes?.[k] ? `${axes[k]}=${i}` : i)).join(", ")}]` : "";
}

function productOfFactors(path) {
    return path.reduce((product, entry) => product * (entry.factor ?? 1), 1);
}

/* Says what happens at an entry of the path. */
function stepOfPath(path, i, forward) {
    const entry = path[i], next = path[i + 1];
    if (forward)
        return `Forward: ${entry.name}${placeOf(entry)} is ${shortNumber(entry.value)}.`;
    if (!next)
        return `Backward begins: the derivative of the loss with respect to itself is ${shortNumber(entry.gradient)}.`;
    return `Backward: ${next.name} has gradient ${shortNumber(next.gradient)}. Times the factor ${shortNumber(entry.factor)} ` +
           `this is ${shortNumber(entry.carried)}. With all other paths, ${entry.name} has gradient ${shortNumber(entry.gradient)}.`;
}
