/* The panel that opens attention up: every matrix of a node, heads side by side. */

/* Returns how the leading dimensions of the node's arrays are used: the head, and the indices that menus choose. */
function headLayout(view, node) {
    const { attention } = node;
    const shape = attention.weights.shape,
        lead = shape.slice(0, -2);
    const axes = attentionTensors(view.tape, node).q?.axes || "";
    const headAxis = lead.length && lead[lead.length - 1] === attention.heads ? lead.length - 1 : -1;
    const menuShape = headAxis < 0 ? shape : [...shape.slice(0, headAxis), 1, ...shape.slice(-2)];
    return {
        shape,
        axes,
        headAxis,
        menuShape,
        chosen: chosenIndex(view, menuShape, axes),
        count: headAxis < 0 ? 1 : attention.heads,
    };
}

/* Returns the matrix of head h in an array. With fewer key heads than query heads, several query heads share one. */
function headMatrix(array, heads, h) {
    const leading = [...heads.chosen];
    const own = array.shape.length - 3;
    if (heads.headAxis >= 0 && own >= 0) leading[own] = Math.floor((h * array.shape[own]) / heads.count);
    return matrixOf(array, leading);
}

/* Returns the scale of each kind: one for all weights, one for all gradients, or one for each matrix. */
function attentionScale(view, kinds, array, palette) {
    if (view.ownScales || palette === "value" || array === kinds.find((kind) => kind[0] === "mask")?.[2])
        return scaleOf(palette, [array]);
    const arrays = kinds.filter((kind) => kind[3] === palette && kind[0] !== "mask").map((kind) => kind[2]);
    return { ...scaleOf(palette, arrays), root: palette === "gradient" };
}

function sameNumbers(a, b) {
    for (let i = 0; i < a.rows * a.cols; i++) if (a.numbers[a.offset + i] !== b.numbers[b.offset + i]) return false;
    return true;
}

/* Returns true if all heads of a mask are equal. */
function sameForAllHeads(array, heads) {
    const first = headMatrix(array, heads, 0);
    return Array.from({ length: heads.count }, (_, h) => headMatrix(array, heads, h)).every((m) =>
        sameNumbers(m, first),
    );
}

/* Creates the figure of one kind: a matrix for each head. */
function makeAttentionMatrix(view, node, heads, kinds, [symbol, text, array, palette, row, col]) {
    const scale = attentionScale(view, kinds, array, palette);
    const count = symbol === "mask" && sameForAllHeads(array, heads) ? 1 : heads.count;
    const bodies = Array.from({ length: count }, (_, h) => {
        const square = row === "T" && col === "S";
        const matrix = headMatrix(array, heads, h);
        if (square && symbol !== "mask" && String(view.attentionMask?.shape) === String(array.shape))
            matrix.mask = headMatrix(view.attentionMask, heads, h);
        const body = makeMatrix(view, matrix, {
            name: `${symbol}, head ${h}`,
            symbol,
            scale,
            axes: { row, col },
            cells: heads.count > 1 ? 36 : 64,
            size: view.mapSize,
            fitRowsOnly: !square,
            key: `${symbol} ${h}`,
            readout: view.parts.attentionReadout,
            click: square ? (i, j) => pickScore(view, node, h, i, j) : null,
        });
        if (body.box) view.attentionBoxes[`${symbol} ${h}`] = body.box;
        return make(
            "div",
            { class: "head" },
            heads.count > 1 ? make("div", { class: "head-name" }, count > 1 ? `head ${h}` : "all heads") : null,
            body,
        );
    });
    return make(
        "figure",
        { class: "kind", "data-kind": symbol },
        make("figcaption", {}, make("b", {}, symbol), " ", make("span", { class: "shape" }, text)),
        make("div", { class: "heads" }, bodies),
        makeScale(scale),
    );
}

/* Returns a sentence if the page has only a part of the matrices. */
function cropNote(view, node, heads) {
    const parts = attentionTensors(view.tape, node),
        q = parts.q?.shape,
        k = parts.k?.shape;
    if (!q || !k) return null;
    const full = [q[q.length - 2], k[k.length - 2]],
        shown = heads.shape.slice(-2);
    return String(full) === String(shown)
        ? null
        : make(
              "p",
              { class: "note" },
              `The page has ${shown.join(" × ")} of ${full.join(" × ")} weights. Sums over a row are incomplete.`,
          );
}

function makeAttentionMenus(view, heads) {
    const sizes = [120, 240, 400, 512];
    return make(
        "div",
        { class: "menus" },
        makeIndexFields(view, heads.menuShape, heads.axes, "attention"),
        makeMenu(
            "Size",
            ["small", "medium", "large", "huge"],
            sizes.indexOf(view.mapSize),
            (i) => {
                view.mapSize = sizes[i];
                view.refresh();
            },
            "map size",
        ),
        makeMenu(
            "Colors",
            ["one scale for all gradients, by square root", "a scale for each matrix"],
            view.ownScales ? 1 : 0,
            (i) => {
                view.ownScales = i === 1;
                view.refresh();
            },
            "map scale",
        ),
    );
}

/* Creates the matrices of backward, or the sentence that says when they exist. */
function makeAttentionBackward(view, node, heads, kinds) {
    const { tape, position } = view;
    if (!tape.backward) return null;
    if (!tape.hasRunBackward(node, position))
        return node.step === undefined
            ? null
            : make(
                  "p",
                  { class: "absent" },
                  whenBackwardRuns(view, node, "jump attention"),
              );
    return [
        make("h4", {}, "Backward"),
        make("p", { class: "hint" }, "Click a cell of dS, dA, A or S: its numbers appear below."),
        make(
            "div",
            { class: "kinds" },
            kinds.backward.map((kind) => makeAttentionMatrix(view, node, heads, kinds.backward, kind)),
        ),
    ];
}

/* Creates the whole panel of a node. */
function makeAttention(view, node, kinds) {
    const heads = headLayout(view, node);
    view.attentionBoxes = {};
    view.attentionMask = node.attention.mask;
    view.parts.attentionReadout = make("output", { class: "readout", "aria-live": "polite" }, "\u00a0");
    view.parts.explanation = make("div", {
        class: "explanation",
        "aria-live": "polite",
        hidden: true,
        role: "region",
        "aria-label": "Explanation",
    });
    const mask = node.attention.mask ? null : make("p", { class: "hint" }, "There is no mask.");
    return [
        make(
            "h3",
            {},
            "Attention ",
            make("span", { class: "number" }, `node ${node.id}${node.module ? `, ${node.module}` : ""}`),
        ),
        makeAttentionMenus(view, heads),
        cropNote(view, node, heads),
        view.parts.attentionReadout,
        make("h4", {}, "Forward"),
        mask,
        make(
            "div",
            { class: "kinds" },
            kinds.forward.map((kind) => makeAttentionMatrix(view, node, heads, kinds.forward, kind)),
        ),
        makeAttentionBackward(view, node, heads, kinds),
        view.parts.explanation,
    ];
}

/* Creates buttons for the attention nodes, if there are several. */
function makeAttentionChoice(view, nodes) {
    if (nodes.length < 2) return null;
    return make(
        "div",
        { class: "menus" },
        makeMenu(
            "Node",
            nodes.map((node) => `${node.id} ${node.module || ""}`),
            nodes.indexOf(view.attention),
            (i) => {
                view.attention = nodes[i];
                view.refresh();
            },
            "attention node",
        ),
    );
}

/* Shows the panel, and builds it again only if what it shows has changed. */
function refreshAttention(view) {
    const { tape, position, parts } = view;
    const nodes = tape.nodes.filter((node) => node.attention);
    if (!nodes.length) return;
    if (view.selected.node?.attention) view.attention = view.selected.node;
    const node = view.attention || (view.attention = nodes[0]);
    const kinds = attentionKinds(view, node);
    const key = [
        node.id,
        tape.hasRun(node, position),
        [...kinds.forward, ...kinds.backward].map((kind) => kind[0]),
        JSON.stringify(view.index),
        view.mapSize,
        view.ownScales,
        view.allDigits,
        view.version,
    ].join();
    if (key === view.attentionKey) return;
    view.attentionKey = key;
    parts.attention.hidden = false;
    const panel = tape.hasRun(node, position)
        ? makeAttention(view, node, kinds)
        : make("p", { class: "absent" }, `Attention, node ${node.id}, has not run yet at this step.`);
    replaceChildren(parts.attention, makeAttentionChoice(view, nodes), panel);
    if (view.pick?.node === node && tape.hasRun(node, position)) showPick(view);
}
