/* Decodes the arrays of the JSON, and takes matrices out of them. */

/* Decodes base64. Browsers from before 2025 have only atob. */
function decodeBase64(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
}

/* Returns the truth values of packed bits as numbers, 8 in each byte. */
function unpackBits(bytes, count) {
    const numbers = new Float32Array(count);
    for (let i = 0; i < count; i++) numbers[i] = (bytes[i >> 3] >> (i & 7)) & 1;
    return numbers;
}

/* Returns the numbers of an array. They are decoded, or computed by array.compute, at the first use. */
function numbersOf(array) {
    if (!array.numbers && array.compute) array.numbers = array.compute();
    else if (!array.numbers && array.type === "bits")
        array.numbers = unpackBits(decodeBase64(array.data), countOf(array.shape));
    else if (!array.numbers) {
        const bytes = decodeBase64(array.data);
        array.numbers = array.type === "float64" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    }
    return array.numbers;
}

/* Makes an array of numbers that the viewer computed. */
function computedArray(shape, numbers, type) {
    return { shape, numbers, type: type || "float64" };
}

function countOf(shape) {
    return shape.reduce((product, size) => product * size, 1);
}

/* A matrix of an array: its last two dimensions at an index of the others. A vector is a row. */
function matrixOf(array, leading) {
    const shape = array.shape;
    const cols = shape.length ? shape[shape.length - 1] : 1;
    const rows = shape.length > 1 ? shape[shape.length - 2] : 1;
    let offset = 0;
    for (let i = 0; i < shape.length - 2; i++)
        offset = offset * shape[i] + Math.min(leading[i] || 0, Math.max(shape[i] - 1, 0));
    return { numbers: numbersOf(array), type: array.type, offset: offset * rows * cols, rows, cols };
}

function numberAt(matrix, i, j) {
    return matrix.numbers[matrix.offset + i * matrix.cols + j];
}

/* Returns one row as an array of numbers. */
function rowOf(matrix, i) {
    const begin = matrix.offset + i * matrix.cols;
    return matrix.numbers.subarray(begin, begin + matrix.cols);
}

/* Returns the least and the largest finite number of an array. */
function rangeOf(array) {
    if (!array.limits) {
        const numbers = numbersOf(array);
        let least = Infinity,
            largest = -Infinity;
        for (let i = 0; i < numbers.length; i++) {
            const x = numbers[i];
            if (x < least && x !== -Infinity) least = x;
            if (x > largest && x !== Infinity) largest = x;
        }
        array.limits = least <= largest ? [least, largest] : [0, 0];
    }
    return array.limits;
}

/* Returns the largest absolute value of several arrays. */
function largestOf(arrays) {
    return Math.max(0, ...arrays.filter(Boolean).map((array) => Math.max(...rangeOf(array).map(Math.abs))));
}

/* Returns the index of the element number `flat`. */
function unravelIndex(flat, shape) {
    const index = [];
    for (let i = shape.length - 1; i >= 0; i--) {
        index.unshift(flat % shape[i]);
        flat = Math.floor(flat / shape[i]);
    }
    return index;
}

/* Finds the element where two arrays of one shape differ most. Returns null if the shapes differ or are empty. */
function largestDeviation(a, b) {
    if (String(a.shape) !== String(b.shape)) return null;
    const x = numbersOf(a),
        y = numbersOf(b);
    let worst = -1,
        place = 0;
    for (let i = 0; i < x.length; i++) {
        const deviation = Object.is(x[i], y[i]) ? 0 : Math.abs(x[i] - y[i]);
        if (deviation > worst || (deviation !== deviation && worst === worst)) {
            worst = deviation;
            place = i;
        }
    }
    return x.length ? { deviation: worst, index: unravelIndex(place, a.shape) } : null;
}

/* Adds arrays of one shape. null if the shapes differ. */
function addArrays(arrays) {
    if (arrays.length === 0 || arrays.some((array) => !array || String(array.shape) !== String(arrays[0].shape)))
        return null;
    const sum = Float64Array.from(numbersOf(arrays[0]));
    for (const array of arrays.slice(1)) numbersOf(array).forEach((x, i) => (sum[i] += x));
    return computedArray(arrays[0].shape, sum);
}
