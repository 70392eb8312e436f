/* Explains one score of attention: marks everything that contributed to dS[i, j], and shows the formulas with its
 * numbers. */

const TERMS = 4; /* of a long sum */

function pickScore(view, node, h, i, j) {
    view.pick = { node, h, i, j };
    showPick(view);
}

/* Returns the marks of each matrix: the cell, the cells that it was computed from, and the rows it contributes to. */
function sourceMarks(i, j) {
    const row = (k, kind) => ({ i: k, j: 0, rows: 1, cols: 1e9, kind });
    const cell = { i, j, rows: 1, cols: 1, kind: "cell" };
    return {
        dS: [cell],
        A: [row(i, "source"), cell],
        P: [cell],
        dA: [row(i, "source"), cell],
        S: [row(i, "source"), cell],
        mask: [cell],
        dO: [row(i, "source")],
        V: [row(j, "source")],
        Q: [row(i, "source")],
        K: [row(j, "source")],
        O: [row(i, "source")],
        dQ: [row(i, "line")],
        dK: [row(j, "line")],
        dV: [row(j, "line")],
    };
}

/* Removes the explanation and its marks. */
function closePick(view) {
    view.pick = null;
    view.parts.explanation.hidden = true;
    view.parts.explanation.replaceChildren();
    Object.values(view.attentionBoxes).forEach((box) => box.show("pick", []));
}

function markSources(view, { h, i, j }) {
    const marks = sourceMarks(i, j);
    for (const [key, box] of Object.entries(view.attentionBoxes)) {
        const [symbol, head] = key.split(" ");
        const rects = Number(head) === h || symbol === "mask" ? marks[symbol] || [] : [];
        box.show(
            "pick",
            rects.map((rect) => ({ ...rect, cols: Math.min(rect.cols, box.matrix.cols) })),
        );
    }
}

/* Returns row i of a matrix; null if the page has only a part of it. */
function completeRow(matrix, i) {
    return matrix && matrix.whole && i < matrix.rows ? rowOf(matrix, i) : null;
}

function dot(a, b) {
    let sum = 0;
    for (let k = 0; k < Math.min(a.length, b.length); k++) sum += a[k] * b[k];
    return sum;
}

/* Puts a negative number in parentheses. */
function factorText(x) {
    return x < 0 ? `(${shortNumber(x)})` : shortNumber(x);
}

/* Writes the first terms of the sum of products a[k] b[k]. */
function sumText(a, b) {
    const count = Math.min(a.length, b.length);
    const terms = Array.from({ length: Math.min(count, TERMS) }, (_, k) => `${factorText(a[k])}·${factorText(b[k])}`);
    return terms.join(" + ") + (count > TERMS ? ` + … (${count} terms)` : "");
}

/* Creates a line: the name on the left side, the formula, its numbers, the result. */
function makeLine(name, formula, numbers, result, note) {
    return make(
        "div",
        { class: "line", "data-line": name },
        make("span", { class: "left" }, name),
        make("span", {}, `= ${formula}`),
        numbers ? make("span", { class: "figures" }, `= ${numbers}`) : null,
        make("b", { class: "result" }, `= ${result}`),
        note ? make("span", { class: "shape" }, note) : null,
    );
}

/* Creates the lines of forward. */
function forwardLines(m, i, j, attention) {
    const q = completeRow(m.Q, i),
        k = completeRow(m.K, j),
        place = `[${i},${j}]`;
    const score = numberAt(m.S, i, j);
    const product = q && k ? dot(q, k) * attention.scale : NaN;
    const same = Math.abs(product - score) <= 1e-3 * Math.max(1e-3, Math.abs(score));
    const note = same
        ? ""
        : score === -Infinity || (m.mask && numberAt(m.mask, i, j) === 0)
          ? "the mask hides this pair"
          : "mask, soft cap or slopes change the product";
    return [
        q && k
            ? makeLine(
                  `S${place}`,
                  `scale Σ Q[${i}] K[${j}]`,
                  `${shortNumber(attention.scale)} · (${sumText(q, k)})`,
                  shortNumber(score),
                  note,
              )
            : makeLine(`S${place}`, `scale Σ Q[${i}] K[${j}]`, "", shortNumber(score)),
        makeLine(`A${place}`, `exp(S${place}) / Σ exp(S[${i}])`, "", shortNumber(numberAt(m.A, i, j))),
    ];
}

/* Creates the lines from dO to dS. */
function backwardLines(m, i, j) {
    const place = `[${i},${j}]`,
        a = rowOf(m.A, i),
        da = rowOf(m.dA, i);
    const jacobian = new Float64Array(a.length);
    writeJacobianRow(a, j, jacobian, 0);
    const weight = a[j],
        mean = dot(a, da),
        result = numberAt(m.dS, i, j);
    const dout = completeRow(m.dO, i),
        v = completeRow(m.V, j);
    const product = dout && v ? dot(dout, v) : null;
    const dropped = product !== null && Math.abs(product - da[j]) > 1e-3 * Math.max(1e-6, Math.abs(product));
    return [
        makeLine(
            `dS${place}`,
            "A (dA − Σ A dA)",
            `${shortNumber(weight)} · (${shortNumber(da[j])} − ${factorText(mean)})`,
            shortNumber(result),
        ),
        product === null
            ? null
            : makeLine(
                  `dA${place}`,
                  `${dropped ? "M " : ""}Σ dO[${i}] V[${j}]`,
                  sumText(dout, v),
                  shortNumber(da[j]),
                  dropped ? `M = ${shortNumber(da[j] / product)} is the factor of dropout` : "",
              ),
        makeLine(
            "Σ A dA",
            `Σₖ A[${i},k] dA[${i},k]`,
            sumText(a, da),
            shortNumber(mean),
            "the mean of dA in the row, with the weights A",
        ),
        makeLine(
            `dS${place}`,
            `Σₖ J[${j},k] dA[${i},k]`,
            "",
            shortNumber(dot(jacobian, da)),
            "the same with the Jacobian J = diag(a) − a aᵀ of the row",
        ),
    ];
}

/* Writes row j of the Jacobian of a softmax to row[begin], row[begin + 1], ... */
function writeJacobianRow(a, j, row, begin) {
    for (let k = 0; k < a.length; k++) row[begin + k] = -a[j] * a[k];
    row[begin + j] += a[j];
}

/* Creates the lines of what dS[i, j] contributes to. */
function contributionLines(m, i, j, scale) {
    const ds = numberAt(m.dS, i, j);
    const vector = (row) =>
        `[${Array.from(row.subarray(0, TERMS), (x) => shortNumber(ds * scale * x)).join(", ")}${row.length > TERMS ? ", …" : ""}]`;
    const q = completeRow(m.Q, i),
        k = completeRow(m.K, j);
    return [
        k ? makeLine(`to dQ[${i}]`, `dS[${i},${j}] scale K[${j}]`, "", vector(k)) : null,
        q ? makeLine(`to dK[${j}]`, `dS[${i},${j}] scale Q[${i}]`, "", vector(q)) : null,
    ];
}

/* Creates the figure of the Jacobian of row i. */
function jacobianFigure(view, m, i, j) {
    const a = rowOf(m.A, i),
        n = a.length;
    const numbers = new Float64Array(n * n);
    for (let r = 0; r < n; r++) writeJacobianRow(a, r, numbers, r * n);
    const array = computedArray([n, n], numbers);
    const scale = scaleOf("value", [array]);
    const body = makeMatrix(view, matrixOf(array, []), {
        name: `J, Jacobian of row ${i}`,
        symbol: "J",
        scale,
        axes: { row: "S", col: "" },
        cells: 64,
        size: Math.min(view.mapSize, 240),
        key: "J",
        readout: view.parts.attentionReadout,
    });
    body.box?.show("pick", [{ i: j, j: 0, rows: 1, cols: n, kind: "source" }]);
    return make(
        "figure",
        { class: "kind", "data-kind": "J" },
        make(
            "figcaption",
            {},
            make("b", {}, "J"),
            " ",
            make("span", { class: "shape" }, `∂A[${i}] / ∂S[${i}] = diag(a) − a aᵀ`),
        ),
        body,
        makeScale(scale),
    );
}

/* Returns the matrices of a head by their symbols. matrix.whole is false if columns of Q, K, V, O or their gradients
 * are cropped. */
function matricesOf(view, node, heads, kinds, h) {
    const { q, k, v, o } = attentionTensors(view.tape, node);
    const widths = { Q: q, K: k, V: v, O: o, dQ: q, dK: k, dV: v, dO: o };
    const m = {};
    for (const [symbol, , array] of [...kinds.forward, ...kinds.backward]) {
        m[symbol] = headMatrix(array, heads, h);
        m[symbol].whole = !widths[symbol] || widths[symbol].shape.at(-1) === m[symbol].cols;
    }
    return m;
}

/* Shows the explanation of the chosen score, and marks its sources. */
function showPick(view) {
    const { node, h, i, j } = view.pick;
    const heads = headLayout(view, node),
        kinds = attentionKinds(view, node);
    const m = matricesOf(view, node, heads, kinds, h);
    const backward = m.dS && m.dA;
    if (i >= m.A.rows || j >= m.A.cols) return;
    markSources(view, view.pick);
    const tokens = view.tape.tokens;
    const pair =
        tokens && tokens.length >= Math.max(m.A.rows, m.A.cols) ? ` (“${tokens[i]}” looks at “${tokens[j]}”)` : "";
    view.parts.explanation.hidden = false;
    view.parts.explanation.replaceChildren(
        make(
            "h4",
            {},
            make(
                "button",
                { type: "button", class: "close", "aria-label": "Close the explanation", click: () => closePick(view) },
                "×",
            ),
            `${backward ? "dS" : "S"}[${i},${j}]${heads.count > 1 ? `, head ${h}` : ""}${pair}`,
        ),
        make(
            "div",
            { class: "explained" },
            make(
                "div",
                { class: "lines" },
                backward ? backwardLines(m, i, j) : null,
                forwardLines(m, i, j, node.attention),
                backward ? contributionLines(m, i, j, node.attention.scale) : null,
            ),
            backward ? jacobianFigure(view, m, i, j) : null,
        ),
    );
}
