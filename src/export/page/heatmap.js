/* A heat map on a canvas. The canvas is drawn once; marks are elements above it, so that hovering redraws nothing. */

const NARROW = 60; /* the least width and height of a map, in pixels, if its cells stay below 18 */
const LABEL_CELL = 11; /* the least size of a cell with labels of tokens beside it, in pixels */

/* Chooses the size of the cells, so that a map of this shape is about `size` pixels large, and its margins. */
function mapGeometry(matrix, options) {
    const { rows, cols } = matrix;
    const size = options.size || 240;
    const cell = Math.min(28, size / Math.max(rows, options.fitRowsOnly ? 1 : cols, 1));
    const whole = cell > 1 ? Math.floor(cell) : cell;
    const height = Math.max(whole, Math.min(18, NARROW / rows)),
        width = Math.max(whole, Math.min(18, NARROW / cols));
    const labels = options.rowLabels && options.colLabels && Math.min(width, height) >= LABEL_CELL;
    const margin = labels ? 14 : 0;
    return {
        rows,
        cols,
        cellWidth: width,
        cellHeight: height,
        margin,
        labels,
        width: Math.max(Math.round(width * cols), 1),
        height: Math.max(Math.round(height * rows), 1),
    };
}

/* Draws each number as one pixel on a separate canvas. */
function drawPixels(matrix, scale) {
    const canvas = make("canvas", { width: Math.max(matrix.cols, 1), height: Math.max(matrix.rows, 1) });
    const context = canvas.getContext("2d");
    if (matrix.rows && matrix.cols) {
        const image = context.createImageData(matrix.cols, matrix.rows);
        colorPixels(new Uint32Array(image.data.buffer), matrix, scale);
        context.putImageData(image, 0, 0);
    }
    return canvas;
}

function drawLabels(context, geometry, options) {
    context.fillStyle = currentTheme() === "dark" ? "#c3cad6" : "#4a5160";
    context.font = "10px ui-monospace, monospace";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const { margin, cellWidth, cellHeight } = geometry;
    options.rowLabels
        .slice(0, geometry.rows)
        .forEach((text, i) => context.fillText(String(text).slice(0, 2), margin / 2, margin + (i + 0.5) * cellHeight));
    options.colLabels
        .slice(0, geometry.cols)
        .forEach((text, j) => context.fillText(String(text).slice(0, 2), margin + (j + 0.5) * cellWidth, margin / 2));
}

/* Draws the map in device pixels. */
function drawMap(canvas, matrix, options, geometry) {
    const ratio = Math.max(window.devicePixelRatio || 1, 1);
    canvas.width = (geometry.width + geometry.margin) * ratio;
    canvas.height = (geometry.height + geometry.margin) * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = geometry.cellWidth < 1 || geometry.cellHeight < 1;
    context.drawImage(
        drawPixels(matrix, options.scale),
        geometry.margin,
        geometry.margin,
        geometry.width,
        geometry.height,
    );
    if (geometry.labels) drawLabels(context, geometry, options);
    canvas.dataset.drawn = currentTheme();
}

/* Draws maps when they come into view. */
const mapObserver = new IntersectionObserver(
    (entries) => {
        for (const entry of entries.filter((e) => e.isIntersecting)) {
            mapObserver.unobserve(entry.target);
            entry.target.draw();
        }
    },
    { rootMargin: "200px" },
);

/* Returns the cell under the pointer, or null. */
function cellAt(event, canvas, geometry) {
    const box = canvas.getBoundingClientRect();
    const scale = box.width / (geometry.width + geometry.margin);
    const j = Math.floor(((event.clientX - box.left) / scale - geometry.margin) / geometry.cellWidth);
    const i = Math.floor(((event.clientY - box.top) / scale - geometry.margin) / geometry.cellHeight);
    return i >= 0 && j >= 0 && i < geometry.rows && j < geometry.cols ? { i, j } : null;
}

/* Places a mark on the cells of a rectangle, at least 3 pixels large. */
function makeMark(rect, geometry) {
    const width = Math.max(rect.cols * geometry.cellWidth, 3),
        height = Math.max(rect.rows * geometry.cellHeight, 3);
    const x = geometry.margin + rect.j * geometry.cellWidth,
        y = geometry.margin + rect.i * geometry.cellHeight;
    const total = { width: geometry.width + geometry.margin, height: geometry.height + geometry.margin };
    return make("i", {
        class: rect.kind,
        style:
            `left:${(100 * x) / total.width}%;top:${(100 * y) / total.height}%;` +
            `width:${(100 * width) / total.width}%;height:${(100 * height) / total.height}%`,
    });
}

/* Adds the keyboard to a map: arrow keys move a cursor, Enter selects its cell. */
function addMapKeys(box, options, geometry) {
    const cursor = { i: 0, j: 0 };
    box.addEventListener("focus", () => options.hover(cursor.i, cursor.j));
    box.addEventListener("blur", () => options.leave());
    box.addEventListener("keydown", (event) => {
        const step = event.shiftKey ? 8 : 1;
        const moves = { ArrowLeft: [0, -step], ArrowRight: [0, step], ArrowUp: [-step, 0], ArrowDown: [step, 0] };
        if (moves[event.key]) {
            cursor.i = Math.min(Math.max(cursor.i + moves[event.key][0], 0), geometry.rows - 1);
            cursor.j = Math.min(Math.max(cursor.j + moves[event.key][1], 0), geometry.cols - 1);
            options.hover(cursor.i, cursor.j);
        } else if ((event.key === "Enter" || event.key === " ") && options.click) {
            options.click(cursor.i, cursor.j);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    });
}

function addMapPointer(box, canvas, options, geometry) {
    let last = null;
    box.addEventListener("pointermove", (event) => {
        const cell = cellAt(event, canvas, geometry);
        if (cell && last && cell.i === last.i && cell.j === last.j) return;
        last = cell;
        cell ? options.hover(cell.i, cell.j) : options.leave();
    });
    box.addEventListener("pointerleave", () => {
        last = null;
        options.leave();
    });
    box.addEventListener("click", (event) => {
        const cell = cellAt(event, canvas, geometry);
        if (cell && options.click) options.click(cell.i, cell.j);
    });
}

/* Creates a heat map. box.show(layer, rectangles) replaces the marks of a layer, "hover" or "pick". */
function makeHeatMap(matrix, options) {
    const geometry = mapGeometry(matrix, options);
    const canvas = make("canvas", { class: "heat", "aria-hidden": "true" });
    const width = geometry.width + geometry.margin,
        height = geometry.height + geometry.margin;
    const layers = { hover: make("div", { class: "marks hover" }), pick: make("div", { class: "marks pick" }) };
    const box = make(
        "div",
        {
            class: `map${options.click ? " clickable" : ""}`,
            tabindex: 0,
            role: "application",
            "data-key": options.key,
            "aria-roledescription": "heat map",
            style: `width:${width}px;aspect-ratio:${width}/${height}`,
            "aria-label":
                `${options.name}, ${matrix.rows} by ${matrix.cols}. Arrow keys move` +
                (options.click ? ", Enter explains a cell." : "."),
        },
        canvas,
        layers.hover,
        layers.pick,
    );
    canvas.draw = () => drawMap(canvas, matrix, options, geometry);
    box.show = (layer, rects) => layers[layer].replaceChildren(...rects.map((rect) => makeMark(rect, geometry)));
    addMapPointer(box, canvas, options, geometry);
    addMapKeys(box, options, geometry);
    mapObserver.observe(canvas);
    return box;
}

/* Draws every map again that was drawn in another theme, and on request also those out of view. */
function redrawMaps(all) {
    for (const canvas of document.querySelectorAll("canvas.heat"))
        if (
            all
                ? canvas.dataset.drawn !== currentTheme()
                : canvas.dataset.drawn && canvas.dataset.drawn !== currentTheme()
        )
            canvas.draw();
}
