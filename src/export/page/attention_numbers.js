/* Computes the matrices of a large attention from Q, K, V and dO at their first use, so that the page need not contain them. The
 * sums are in float64; the results are rounded to the type of the tape. */

/* Calls visit(rows, matrices) for each matrix of an array (N, T, S): the index of its first element, and the matrices of
 * other arrays (N', rows, columns) that belong to it. With fewer key heads, several query heads share one. */
function forEachHead(shape, arrays, visit) {
    const count = countOf(shape.slice(0, -2)),
        size = shape.at(-1) * shape.at(-2);
    for (let n = 0; n < count; n++)
        visit(
            n * size,
            arrays.map((array) => {
                const own = countOf(array.shape.slice(0, -2)),
                    heads = shape.length > 2 ? shape.at(-3) : 1,
                    ownHeads = array.shape.length > 2 ? array.shape.at(-3) : 1;
                const at = own === count ? n : Math.floor(n / heads) * ownHeads + Math.floor(((n % heads) * ownHeads) / heads);
                return numbersOf(array).subarray(at * array.shape.at(-2) * array.shape.at(-1));
            }),
        );
}

function emptyNumbers(array) {
    return array.type === "float32" ? new Float32Array(countOf(array.shape)) : new Float64Array(countOf(array.shape));
}

/* Computes scale A Bᵀ at the visible pairs, for A (N, T, D) and B (N, S, D). Hidden pairs have 0. */
function productsOf(result, a, b, scale, mask) {
    const numbers = emptyNumbers(result),
        [T, S] = result.shape.slice(-2),
        D = a.shape.at(-1);
    const visible = mask && numbersOf(mask);
    forEachHead(result.shape, [a, b], (begin, [x, y]) => {
        for (let t = 0, at = begin; t < T; t++)
            for (let s = 0; s < S; s++, at++) {
                if (visible && visible[at] === 0) continue;
                let sum = 0;
                for (let d = 0, i = t * D, j = s * D; d < D; d++, i++, j++) sum += x[i] * y[j];
                numbers[at] = sum * scale;
            }
    });
    return numbers;
}

/* Computes the softmax of the visible scores in each row. */
function softmaxOf(result, scores, mask) {
    const numbers = emptyNumbers(result),
        x = numbersOf(scores),
        S = result.shape.at(-1);
    const visible = mask && numbersOf(mask);
    for (let begin = 0; begin < numbers.length; begin += S) {
        let largest = -Infinity,
            sum = 0;
        for (let i = begin; i < begin + S; i++) if (!visible || visible[i]) largest = Math.max(largest, x[i]);
        const row = new Float64Array(S);
        for (let s = 0; s < S; s++)
            if (!visible || visible[begin + s]) sum += row[s] = Math.exp(x[begin + s] - largest);
        for (let s = 0; s < S && sum > 0; s++) numbers[begin + s] = row[s] / sum;
    }
    return numbers;
}

/* Computes dA = M dP, with M the factors of dropout: P / A. */
function throughDropout(numbers, weights, dropped) {
    const a = numbersOf(weights),
        p = numbersOf(dropped);
    for (let i = 0; i < numbers.length; i++) numbers[i] *= a[i] === 0 ? 0 : p[i] / a[i];
    return numbers;
}

/* Computes dS = A (dA - rowsum(A dA)). */
function throughSoftmax(result, weights, dweights) {
    const numbers = emptyNumbers(result),
        a = numbersOf(weights),
        da = numbersOf(dweights),
        S = result.shape.at(-1);
    for (let begin = 0; begin < numbers.length; begin += S) {
        let mean = 0;
        for (let i = begin; i < begin + S; i++) mean += a[i] * da[i];
        for (let i = begin; i < begin + S; i++) numbers[i] = a[i] * (da[i] - mean);
    }
    return numbers;
}

/* Gives the arrays inside a node's attention that the page does not contain a function that computes them. */
function computeAttention(tape, node) {
    const { attention } = node;
    if (!attention?.scores?.computed) return;
    const { scores, weights, mask, dropped, dweights, dscores, scale } = attention;
    const [q, k, v] = node.inputs.slice(0, 3).map((id) => tape.tensors[id].value);
    scores.compute = () => productsOf(scores, q, k, scale, mask);
    weights.compute = () => softmaxOf(weights, scores, mask);
    if (!dweights) return;
    dweights.compute = () => {
        const products = productsOf(dweights, tape.tensors[node.outputs[0]].gradient, v, 1, mask);
        return dropped ? throughDropout(products, weights, dropped) : products;
    };
    dscores.compute = () => throughSoftmax(dscores, weights, dweights);
}
