/* The weights of the heads, side by side, in one scale. The maps have the rows that write: n .. 2n - 1. */

const MAP_SIZE = 360;
const WEIGHT_SCALE = { palette: "weight", low: 0, high: 1 };

/* Returns the T tokens that the model reads: the sequence, the separator, and what it has written. */
function tokensOf(sequence, written) {
    return [...sequence, "|", ...written.slice(0, -1)];
}

class HeadMaps {
    constructor(place) {
        this.place = place;
        this.readout = make("p", { class: "readout" }, "\u00a0");
        this.row = make("div", { class: "heads" });
        const scale = makeScale(WEIGHT_SCALE);
        label(scale, "heads.scale");
        place.append(this.row, make("div", { class: "foot" }, scale, this.readout));
    }

    /* Shows weights (H, T, T). `tokens` are the T tokens, `sequence` what the model must write. */
    show(weights, heads, tokens, sequence) {
        const shape = `${heads} ${tokens.join("")} ${sequence}`;
        if (shape !== this.shape)
            this.build(heads, tokens, sequence);
        this.shape = shape;
        this.matrices.forEach((matrix) => (matrix.numbers = weights));
        for (const canvas of this.row.querySelectorAll("canvas.heat"))
            if (canvas.dataset.drawn)
                canvas.draw();
    }

    build(heads, tokens, sequence) {
        const n = sequence.length, T = tokens.length;
        this.matrices = Array.from({ length: heads }, (_, h) =>
            ({ numbers: new Float32Array(heads * T * T), offset: h * T * T + n * T, rows: n, cols: T, type: "float32" }));
        this.boxes = this.matrices.map((matrix, h) => makeHeatMap(matrix, {
            scale: WEIGHT_SCALE, size: MAP_SIZE, rowLabels: [...sequence], colLabels: tokens, key: `head ${h}`,
            hover: (i, j) => this.mark(h, i, j, tokens, sequence), leave: () => this.leave(),
        }));
        this.boxes.forEach((box, h) => {
            label(box, "heads.map", { head: h, rows: n, cols: T });
            box.removeAttribute("aria-roledescription");
        });
        this.row.replaceChildren(...this.boxes.map((box, h) => make("figure", { class: "head" },
            makeText("figcaption", "head", { head: h }, { class: "head-name" }), box)));
    }

    /* Marks the row and the column of a cell in every head. */
    mark(h, i, j, tokens, sequence) {
        const weight = numberAt(this.matrices[h], i, j);
        say(this.readout, "heads.readout", { head: h, letter: sequence[i], token: j, text: tokens[j], weight: shortNumber(weight) });
        this.hovered?.(h, i, j);
        this.boxes.forEach((box, k) => box.show("hover", [
            { i, j: 0, rows: 1, cols: tokens.length, kind: "band" }, { i: 0, j, rows: sequence.length, cols: 1, kind: "band" },
            ...(k === h ? [{ i, j, rows: 1, cols: 1, kind: "cell" }] : [])]));
    }

    leave() {
        delete this.readout.dataset.text;
        this.readout.textContent = "\u00a0";
        this.boxes.forEach((box) => box.show("hover", []));
    }

    /* Returns for each head the mean weight in a cell of each row: column(i) is the column of the cell in row i. */
    meanWeights(column) {
        return this.matrices.map((matrix) => {
            let sum = 0;
            for (let i = 0; i < matrix.rows; i++)
                sum += numberAt(matrix, i, column(i));
            return sum / matrix.rows;
        });
    }

    /* Marks the column of a token, and its row if it writes. */
    pick(position) {
        const { rows, cols } = this.matrices[0];
        const row = position - rows;
        this.boxes.forEach((box) => box.show("pick", [
            { i: 0, j: position, rows, cols: 1, kind: "source" }, ...(row >= 0 ? [{ i: row, j: 0, rows: 1, cols, kind: "source" }] : [])]));
    }
}
