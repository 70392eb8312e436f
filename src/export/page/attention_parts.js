/* Finds the tensors of attention: Q, K, V and O of a fused node, or those around the softmax of a composed one. */

const PRODUCT = /^(masked_)?matmul$/;

/* Follows the first inputs of a composed attention from the scores up to the product of queries and keys. */
function findScoreProduct(tape, scores) {
    let node = tape.nodes[tape.tensors[scores]?.node];
    for (let i = 0; node && !PRODUCT.test(node.op) && i < 8; i++) node = tape.nodes[tape.tensors[node.inputs[0]]?.node];
    return node && PRODUCT.test(node.op) ? node : null;
}

/* Follows the weights of a composed attention, through dropout, to the product with the values. */
function findOutputProduct(tape, weights) {
    for (let id = weights, i = 0; i < 4; i++) {
        const users = tape.tensors[id].users;
        const product = users.find((node) => PRODUCT.test(node.op) && node.inputs[0] === id);
        if (product) return product;
        const dropout = users.find((node) => node.op === "dropout");
        if (!dropout) return null;
        id = dropout.outputs[0];
    }
    return null;
}

/* Returns the keys before the transpose that the product reads. */
function untransposedKeys(tape, id) {
    const node = tape.nodes[tape.tensors[id]?.node];
    return node?.op === "transpose" || node?.op === "swap_axes" ? node.inputs[0] : id;
}

/* Returns {q, k, v, o} as tensors, or null where one is not found, and the nodes that compute scores and output. */
function attentionTensors(tape, node) {
    const tensor = (id) => tape.tensors[id] || null;
    if (!/softmax/.test(node.op))
        return {
            q: tensor(node.inputs[0]),
            k: tensor(node.inputs[1]),
            v: tensor(node.inputs[2]),
            o: tensor(node.outputs[0]),
            first: node,
            last: node,
        };
    const first = findScoreProduct(tape, node.inputs[0]),
        last = findOutputProduct(tape, node.outputs[0]);
    return {
        q: tensor(first?.inputs[0]),
        k: tensor(first && untransposedKeys(tape, first.inputs[1])),
        v: tensor(last?.inputs[1]),
        o: tensor(last?.outputs[0]),
        first,
        last,
    };
}

/* Returns what attention contributed to a tensor's gradient. Otherwise returns the gradient at this position, or null
 * if it is not on the page. */
function gradientThrough(tape, node, tensor, position) {
    if (!node || !tensor || !tape.hasRunBackward(node, position)) return null;
    return (
        node.contributions?.find((c) => tape.tensors[node.inputs[c.input]] === tensor)?.gradient ||
        tape.gradientAt(tensor, position)
    );
}

/* Returns true if dropout changed the weights. */
function hasDropout(attention) {
    if (!attention.dropped) return false;
    attention.dropped.changed ??= largestDeviation(attention.dropped, attention.weights)?.deviation !== 0;
    return attention.dropped.changed;
}

/* Lists the matrices of the forward and of the backward: symbol, text, array, palette, and the axes of their rows and
 * columns. Matrices that do not exist at this position are left out. */
function attentionKinds(view, node) {
    const { tape, position } = view,
        { attention } = node;
    const { q, k, v, o, first, last } = attentionTensors(tape, node);
    const dropped = hasDropout(attention) ? attention.dropped : null;
    const weights = dropped ? "P" : "A";
    const output = last && tape.hasRun(last, position) ? o?.value : null;
    const exists = (kind) => kind[2];
    const forward = [
        ["Q", "queries", q?.value, "value", "T", ""],
        ["K", "keys", k?.value, "value", "S", ""],
        ["V", "values", v?.value, "value", "S", ""],
        ["S", "scores: Q Kᵀ scale, cap and mask", attention.scores, "value", "T", "S"],
        ["mask", "1: visible", attention.mask, "weight", "T", "S"],
        ["A", "weights, softmax of each row of S", attention.weights, "weight", "T", "S"],
        ["P", "weights after dropout, A ∘ M", dropped, "weight", "T", "S"],
        ["O", `output ${weights} V`, output, "value", "T", ""],
    ].filter(exists);
    const backward = tape.hasRunBackward(node, position)
        ? [
              ["dO", "incoming gradient", o?.gradient, "gradient", "T", ""],
              ["dV", `${weights}ᵀ dO`, gradientThrough(tape, last, v, position), "gradient", "S", ""],
              ["dA", `${dropped ? "M ∘ " : ""}dO Vᵀ`, attention.dweights, "gradient", "T", "S"],
              ["dS", "A (dA − Σ A dA)", attention.dscores, "gradient", "T", "S"],
              ["dQ", "dS K scale", gradientThrough(tape, first, q, position), "gradient", "T", ""],
              ["dK", "dSᵀ Q scale", gradientThrough(tape, first, k, position), "gradient", "S", ""],
          ].filter(exists)
        : [];
    return { forward, backward };
}
