/* Line charts in SVG. Lines differ in color and in dashes. */

const CHART = { width: 460, height: 210, left: 46, right: 10, top: 10, bottom: 34, points: 400 };

/* Returns at most `count` indices from 0 to size - 1, with the last one. */
function thinned(size, count) {
    const step = Math.max(Math.ceil(size / count), 1);
    const indices = [];
    for (let i = 0; i < size - 1; i += step)
        indices.push(i);
    return size ? [...indices, size - 1] : [];
}

/* Returns round numbers for the ticks of an axis. */
function ticksOf(low, high, log) {
    if (log) {
        const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
        const step = Math.max(Math.ceil((last - first) / 5), 1);
        return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high * 1.0001; i++)
        ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
}

/* A chart. options: name (the key of a text), low, high, log, percent, height, reference: { y, key, values }. */
class Chart {
    constructor(options) {
        this.options = options;
        this.height = options.height || CHART.height;
        this.svg = label(makeSvg("svg", { class: "chart", viewBox: `0 0 ${CHART.width} ${this.height}`, role: "img" }), options.name);
        this.cursor = makeSvg("line", { class: "cursor", y1: CHART.top, y2: this.height - CHART.bottom, visibility: "hidden" });
        this.readout = make("p", { class: "readout" }, "\u00a0");
        this.legend = make("ul", { class: "legend" });
        this.table = make("div", { class: "scroll" });
        this.details = make("details", { class: "around", toggle: () => this.drawTable() }, makeText("summary", "numbers"), this.table);
        this.element = make("figure", { class: "chart-box" }, make("figcaption", {}, makeText("b", options.name)),
                            this.svg, this.legend, this.readout, this.details);
        this.svg.addEventListener("pointermove", (event) => this.point(event));
        this.svg.addEventListener("pointerleave", () => this.leave());
        this.update([], 1);
    }

    /* Shows lines: { name, style, x: [], y: [] }; style is a number 0 .. 5. A name from the engine stands in `code`. */
    update(lines, last) {
        this.lines = lines;
        this.last = Math.max(last, 1);
        [this.low, this.high] = this.limits();
        const frame = makeSvg("g", { class: "frame" }, this.drawTicks(), this.drawReference());
        this.svg.replaceChildren(frame, ...lines.map((line) => this.drawLine(line)), this.cursor);
        this.drawLegend();
        this.drawTable();
    }

    limits() {
        const { low, high, log } = this.options;
        let least = low ?? Infinity, largest = high ?? -Infinity;
        for (const { y } of this.lines)
            for (const value of y)
                if (Number.isFinite(value) && (!log || value > 0)) {
                    least = Math.min(least, value);
                    largest = Math.max(largest, value);
                }
        if (!(least <= largest))
            return log ? [0.01, 1] : [0, 1];
        if (log)
            return [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(largest) + 1e-9)];
        return least < largest ? [least, largest] : [least - 1, largest + 1];
    }

    placeX(x) {
        return CHART.left + ((CHART.width - CHART.left - CHART.right) * x) / this.last;
    }

    placeY(y) {
        const f = this.options.log ? Math.log10 : (value) => value;
        const share = (f(y) - f(this.low)) / (f(this.high) - f(this.low));
        return this.height - CHART.bottom - (this.height - CHART.top - CHART.bottom) * share;
    }

    write(value) {
        if (value === undefined)
            return textOf("none");
        return this.options.percent ? `${(100 * value).toFixed(1)} %` : shortNumber(value);
    }

    drawTicks() {
        const right = CHART.width - CHART.right, bottom = this.height - CHART.bottom;
        const tickText = (y) => (this.options.percent ? `${Math.round(100 * y)} %` : this.options.log ? y.toExponential(0) : String(y));
        return [
            ...ticksOf(this.low, this.high, this.options.log).map((y) => [
                makeSvg("line", { x1: CHART.left, x2: right, y1: this.placeY(y), y2: this.placeY(y) }),
                makeSvg("text", { x: CHART.left - 6, y: this.placeY(y) + 4, "text-anchor": "end" }, tickText(y))]),
            ...ticksOf(0, this.last).filter(Number.isInteger).map((x) =>
                makeSvg("text", { x: this.placeX(x), y: bottom + 15, "text-anchor": x === 0 ? "start" : x > 0.95 * this.last ? "end" : "middle" }, x)),
            makeSvg("text", { x: right, y: bottom + 30, "text-anchor": "end", class: "axis" }, textOf("step")),
        ];
    }

    drawReference() {
        const { reference } = this.options;
        if (!reference || reference.y > this.high)
            return [];
        const y = this.placeY(reference.y);
        return [makeSvg("line", { class: "reference", x1: CHART.left, x2: CHART.width - CHART.right, y1: y, y2: y }),
                makeSvg("text", { x: CHART.width - CHART.right, y: y + 13, "text-anchor": "end" }, textOf(reference.key, reference.values))];
    }

    drawLine(line) {
        let path = "", pen = "M";
        for (const i of thinned(line.y.length, CHART.points)) {
            const y = line.y[i];
            if (!Number.isFinite(y) || (this.options.log && y <= 0)) {
                pen = "M";
                continue;
            }
            path += `${pen}${this.placeX(line.x[i]).toFixed(1)} ${this.placeY(y).toFixed(1)}`;
            pen = "L";
        }
        return makeSvg("path", { class: `line-${line.style}`, d: path || "M0 0" });
    }

    drawLegend() {
        const names = this.lines.map((line) => line.name + line.style).join() + language;
        if (names === this.legendOf)
            return;
        this.legendOf = names;
        this.legend.replaceChildren(...this.lines.map((line) => make("li", {},
            makeSvg("svg", { viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true", class: "chart" },
                    makeSvg("path", { class: `line-${line.style}`, d: "M1 4H25" })), " ",
            make("span", { translate: line.code ? "no" : null }, line.name))));
    }

    /* Fills the table of numbers, at most 20 steps of each line. */
    drawTable() {
        if (!this.details.open)
            return;
        const longest = this.lines.reduce((a, b) => (b.x.length > a.length ? b.x : a), []);
        const steps = thinned(longest.length, 20).map((i) => longest[i]);
        const valueAt = (line, step) => this.write(line.y[line.x.indexOf(step)]);
        this.table.replaceChildren(make("table", { class: "list" }, makeText("caption", this.options.name, null, { class: "unseen" }),
            make("thead", {}, make("tr", {}, makeText("th", "step", null, { scope: "col" }),
                this.lines.map((line) => make("th", { scope: "col", translate: line.code ? "no" : null }, line.name)))),
            make("tbody", {}, steps.map((step) => make("tr", {}, make("th", { scope: "row" }, step),
                this.lines.map((line) => make("td", {}, valueAt(line, step))))))));
    }

    point(event) {
        const box = this.svg.getBoundingClientRect();
        const x = ((event.clientX - box.left) / box.width) * CHART.width;
        const wanted = ((x - CHART.left) / (CHART.width - CHART.left - CHART.right)) * this.last;
        const values = this.lines.filter((line) => line.x.length).map((line) => {
            const i = line.x.reduce((best, step, k) => (Math.abs(step - wanted) < Math.abs(line.x[best] - wanted) ? k : best), 0);
            return { step: line.x[i], text: `${line.name} ${this.write(line.y[i])}` };
        });
        if (!values.length)
            return;
        setAttributes(this.cursor, { x1: this.placeX(values[0].step), x2: this.placeX(values[0].step), visibility: "visible" });
        say(this.readout, "readout.step", { step: values[0].step, values: values.map((value) => value.text).join(", ") });
    }

    leave() {
        this.cursor.setAttribute("visibility", "hidden");
        delete this.readout.dataset.text;
        this.readout.textContent = "\u00a0";
    }
}
