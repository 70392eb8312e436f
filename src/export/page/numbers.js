/* Writes numbers, shapes and sizes as text. */

/* Writes a number with four digits. */
function shortNumber(x) {
    if (Number.isNaN(x) || !Number.isFinite(x)) return specialNumber(x);
    if (Number.isInteger(x) && Math.abs(x) < 1e5) return String(x === 0 ? 0 : x);
    const size = Math.abs(x);
    return size >= 1e-3 && size < 1e5 ? x.toPrecision(4) : x.toExponential(3);
}

/* Writes the shortest text that reads back as the same number of this type. */
function fullNumber(x, type) {
    if (Number.isNaN(x) || !Number.isFinite(x)) return specialNumber(x);
    if (type !== "float32") return String(x === 0 ? 0 : x);
    for (let digits = 6; digits < 9; digits++) {
        const text = Number(x.toPrecision(digits));
        if (Math.fround(text) === x) return String(text === 0 ? 0 : text);
    }
    return String(Number(x.toPrecision(9)));
}

function specialNumber(x) {
    return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

/* Writes a shape with the names of its axes: "B=2 T=4 8". */
function shapeText(shape, axes) {
    if (shape.length === 0) return "scalar";
    return shape.map((size, i) => (axisName(axes, i) ? `${axisName(axes, i)}=${size}` : String(size))).join(" × ");
}

/* Returns the letter of an axis, or "" if it has no name. */
function axisName(axes, i) {
    const letter = (axes || "")[i] || "";
    return /\p{L}/u.test(letter) ? letter : "";
}

function bytesText(bytes) {
    if (bytes < 1024) return `${bytes} bytes`;
    return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

function plural(count, word) {
    return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/* Writes "[1, 2]". */
function indexText(index) {
    return index.length ? `[${index.join(", ")}]` : "";
}
