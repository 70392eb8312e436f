/* A small matrix as a table of numbers, each cell in its color. */

function makeCell(matrix, options, i, j) {
    const x = numberAt(matrix, i, j);
    const { background, color } = cellColors(options.scale, x, isHidden(matrix, i * matrix.cols + j));
    return make(
        "td",
        {
            style: `background:${background};color:${color}`,
            "data-i": i,
            "data-j": j,
            title: fullNumber(x, matrix.type),
        },
        options.write(x, matrix.type),
    );
}

function makeTableRow(matrix, options, i, window) {
    const cells = [];
    for (let j = window.j; j < window.j + window.cols; j++) cells.push(makeCell(matrix, options, i, j));
    const label = options.rowLabels?.[i] ?? i;
    return make("tr", {}, window.headers ? make("th", { scope: "row" }, label) : null, cells);
}

/* Creates the table of a part of a matrix. */
function makeTablePart(matrix, options, window) {
    const head = make(
        "tr",
        {},
        make("td", { class: "corner" }),
        Array.from({ length: window.cols }, (_, j) =>
            make("th", { scope: "col" }, options.colLabels?.[window.j + j] ?? window.j + j),
        ),
    );
    const rows = Array.from({ length: window.rows }, (_, i) => makeTableRow(matrix, options, window.i + i, window));
    return make(
        "table",
        { class: "numbers" },
        make("caption", { class: "unseen" }, options.name),
        window.headers ? make("thead", {}, head) : null,
        make("tbody", {}, rows),
    );
}

function addTablePointer(table, options) {
    const cellOfEvent = (event) => event.target.closest("td[data-i]")?.dataset;
    table.addEventListener("pointerover", (event) => {
        const cell = cellOfEvent(event);
        if (cell) options.hover(Number(cell.i), Number(cell.j));
    });
    table.addEventListener("pointerleave", () => options.leave());
    table.addEventListener("click", (event) => {
        const cell = cellOfEvent(event);
        if (cell && options.click) options.click(Number(cell.i), Number(cell.j));
    });
}

/* Makes the cells of a table reachable with the keyboard, one at a time. Enter selects a cell. */
function addTableKeys(table, matrix, options) {
    const cell = (i, j) => table.querySelector(`td[data-i="${i}"][data-j="${j}"]`);
    table.querySelector("td[data-i]")?.setAttribute("tabindex", 0);
    table.addEventListener("focusin", (event) =>
        options.hover(Number(event.target.dataset.i), Number(event.target.dataset.j)),
    );
    table.addEventListener("focusout", () => options.leave());
    table.addEventListener("keydown", (event) => {
        const i = Number(event.target.dataset.i),
            j = Number(event.target.dataset.j);
        const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
        if (moves[event.key]) {
            const next = cell(i + moves[event.key][0], j + moves[event.key][1]) || event.target;
            event.target.setAttribute("tabindex", -1);
            next.setAttribute("tabindex", 0);
            next.focus();
        } else if ((event.key === "Enter" || event.key === " ") && options.click) {
            options.click(i, j);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    });
}

/* Creates the table of a whole matrix. box.show(layer, rectangles) marks cells, as in makeHeatMap. */
function makeTable(matrix, options) {
    const whole = {
        i: 0,
        j: 0,
        rows: matrix.rows,
        cols: matrix.cols,
        headers: matrix.rows > 1 || Boolean(options.colLabels),
    };
    const table = makeTablePart(matrix, options, whole);
    const box = make("div", { class: `cells${options.click ? " clickable" : ""}` }, table);
    addTablePointer(table, options);
    addTableKeys(table, matrix, options);
    box.show = (layer, rects) => {
        for (const kind of ["band", "cell", "source", "line"])
            table.querySelectorAll(`.${layer}-${kind}`).forEach((cell) => cell.classList.remove(`${layer}-${kind}`));
        for (const cell of rects.length ? table.querySelectorAll("td[data-i]") : [])
            for (const rect of rects)
                if (
                    cell.dataset.i >= rect.i &&
                    cell.dataset.i < rect.i + rect.rows &&
                    cell.dataset.j >= rect.j &&
                    cell.dataset.j < rect.j + rect.cols
                )
                    cell.classList.add(`${layer}-${rect.kind}`);
    };
    return box;
}
