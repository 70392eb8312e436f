/* An array as a figure: its name, a table of numbers or a heat map, and its scale. Hovering marks rows and columns of
 * the same tokens in every figure of the section. */

const TABLE_COLUMNS = 12,
    TABLE_CELLS = 144;
const PART_ROWS = 10,
    PART_COLUMNS = 8; /* of the table of numbers beside a heat map */

/* Marks the row of token `query` and the column of token `key` in every matrix. Axis T has queries, axis S has keys. A
 * matrix with one axis of tokens gets both marks. */
function markTokens(view, query, key) {
    view.matrices = view.matrices.filter((box) => box.isConnected);
    for (const box of view.matrices) box.show("hover", tokenBands(box.matrix, box.axes, query, key));
}

/* Returns the bands of a matrix that belong to tokens. */
function tokenBands(matrix, axes, query, key) {
    const both = axes.row && axes.col;
    const tokenOf = (axis) =>
        axis === "S" ? key : axis === "T" ? (both && axes.row === axes.col ? null : query) : null;
    const bands = [];
    const row = tokenOf(axes.row),
        col = tokenOf(axes.col);
    if (row !== null && row < matrix.rows) bands.push({ i: row, j: 0, rows: 1, cols: matrix.cols, kind: "band" });
    if (col !== null && col < matrix.cols) bands.push({ i: 0, j: col, rows: matrix.rows, cols: 1, kind: "band" });
    return bands;
}

/* Returns the labels of the tokens along an axis, or null. */
function labelsOf(view, axis, size) {
    const tokens = view.tape.tokens;
    return tokens && (axis === "T" || axis === "S") && tokens.length >= size ? tokens : null;
}

/* Adds to the options of a matrix what all matrices of a section share. */
function matrixOptions(view, matrix, options) {
    const axes = options.axes || { row: "", col: "" };
    const readout = options.readout;
    return {
        ...options,
        rowLabels: labelsOf(view, axes.row, matrix.rows),
        colLabels: labelsOf(view, axes.col, matrix.cols),
        write: view.allDigits ? fullNumber : shortNumber,
        hover(i, j) {
            readout.textContent = `${options.symbol || ""}[${i}, ${j}] = ${fullNumber(numberAt(matrix, i, j), matrix.type)}`;
            const token = (letter) => (axes.row === letter ? i : axes.col === letter ? j : null);
            markTokens(view, token("T"), token("S"));
            options.moved?.(i, j);
        },
        leave() {
            readout.textContent = "\u00a0";
            markTokens(view, null, null);
        },
    };
}

function fitsTable(matrix, options) {
    return matrix.cols <= TABLE_COLUMNS && matrix.rows * matrix.cols <= (options.cells || TABLE_CELLS);
}

/* Creates the table of the numbers around a cell of a heat map. */
function makeNumbersAround(matrix, options) {
    const place = make("div", { class: "part" });
    const details = make("details", { class: "around" }, make("summary", {}, "Numbers"), place);
    const show = (i, j) => {
        const rows = Math.min(PART_ROWS, matrix.rows),
            cols = Math.min(PART_COLUMNS, matrix.cols);
        const clamp = (x, count, size) => Math.min(Math.max(x - (count >> 1), 0), size - count);
        place.replaceChildren(
            makeTablePart(matrix, options, {
                i: clamp(i, rows, matrix.rows),
                j: clamp(j, cols, matrix.cols),
                rows,
                cols,
                headers: true,
            }),
        );
    };
    details.addEventListener("toggle", () => details.open && show(0, 0));
    details.follow = (i, j) => details.open && show(i, j);
    return details;
}

/* Creates the body of a matrix, and registers it for marks. Matrices that share the readout of their caller have no
 * table of numbers beside a heat map. */
function makeMatrix(view, matrix, options) {
    const readout = options.readout || make("output", { class: "readout", "aria-live": "polite" }, "\u00a0");
    const complete = matrixOptions(view, matrix, { ...options, readout });
    if (matrix.rows === 0 || matrix.cols === 0)
        return make("p", { class: "absent" }, `No numbers: the shape is ${matrix.rows} × ${matrix.cols}.`);
    const table = fitsTable(matrix, complete);
    const around = table || options.readout ? null : makeNumbersAround(matrix, complete);
    complete.moved = around?.follow;
    const box = table ? makeTable(matrix, complete) : makeHeatMap(matrix, complete);
    Object.assign(box, { matrix, options: complete, axes: options.axes || { row: "", col: "" } });
    view.matrices.push(box);
    const foot = options.readout
        ? null
        : make("div", { class: "foot" }, matrix.rows * matrix.cols > 1 ? makeScale(options.scale) : null, readout);
    const body = make("div", { class: "body" }, make("div", { class: "scroll" }, box), foot, around);
    body.box = box;
    return body;
}

/* Creates fields that choose the index of the leading dimensions. The choice holds for all arrays of the section.
 * `owner` distinguishes fields of different figures for the keyboard's focus. */
function makeIndexFields(view, shape, axes, owner) {
    return shape.slice(0, -2).map((size, i) => {
        if (size < 2) return null;
        const name = axisName(axes, i) || `axis ${i}`;
        const key = `${name}/${size}`;
        return makeIndexField(
            name,
            size,
            Math.min(view.index[key] || 0, size - 1),
            (k) => {
                view.index[key] = k;
                view.refresh();
            },
            `index ${key} ${owner}`,
        );
    });
}

/* Returns the chosen index of the leading dimensions. */
function chosenIndex(view, shape, axes) {
    return shape
        .slice(0, -2)
        .map((size, i) => Math.min(view.index[`${axisName(axes, i) || `axis ${i}`}/${size}`] || 0, size - 1));
}

/* Creates the figure of an array. options: name, shape and axes of the whole tensor, palette or scale, notes. */
function makeFigure(view, array, options) {
    const axes = options.tensorAxes || "";
    const rank = array.shape.length;
    const matrix = matrixOf(array, chosenIndex(view, array.shape, axes));
    const letters = { row: rank > 1 ? axisName(axes, rank - 2) : "", col: rank ? axisName(axes, rank - 1) : "" };
    const scale = options.scale || scaleOf(options.palette, [array]);
    const cropped =
        options.shape && countOf(options.shape) !== countOf(array.shape)
            ? make(
                  "p",
                  { class: "note" },
                  `The page has ${shapeText(array.shape)} of ${shapeText(options.shape)} numbers.`,
              )
            : null;
    return make(
        "figure",
        { class: "matrix", "data-figure": options.figure },
        make(
            "figcaption",
            {},
            make("b", {}, options.name),
            " ",
            make("span", { class: "shape" }, shapeText(options.shape || array.shape, axes)),
            makeIndexFields(view, array.shape, axes, options.key),
        ),
        makeMatrix(view, matrix, { ...options, scale, axes: letters }),
        cropped,
        options.notes || null,
    );
}

/* Creates the place of an array that is not on the page, with the reason. */
function makeAbsent(name, shape, axes, reason) {
    return make(
        "figure",
        { class: "matrix absent" },
        make("figcaption", {}, make("b", {}, name), " ", make("span", { class: "shape" }, shapeText(shape, axes))),
        make("p", { class: "absent" }, reason),
    );
}
