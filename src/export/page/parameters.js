/* The table of parameters: value and gradient of each, as far as backward has come. */

const THUMBNAIL = 96; /* pixels */

/* Creates a small heat map of an array, its first matrix, or its number. */
function makeThumbnail(view, array, palette, name) {
    if (countOf(array.shape) === 1)
        return make(
            "span",
            { class: "number" },
            (view.allDigits ? fullNumber : shortNumber)(numbersOf(array)[0], array.type),
        );
    const matrix = matrixOf(array, []);
    const scale = scaleOf(palette, [array]);
    const geometry = mapGeometry(matrix, { size: THUMBNAIL });
    const canvas = make("canvas", {
        class: "heat thumbnail",
        role: "img",
        style: `width:${geometry.width}px;height:${geometry.height}px`,
        "aria-label": `${name}: from ${rangeOf(array).map(shortNumber).join(" to ")}`,
    });
    canvas.draw = () => drawMap(canvas, matrix, { scale }, geometry);
    mapObserver.observe(canvas);
    return canvas;
}

/* Creates the cell of a gradient: the sum so far, the final gradient, or the reason why it is missing. */
function gradientCell(view, tensor) {
    const { tape, position } = view;
    const state = tape.gradientState(tensor, position);
    const gradient = tape.gradientAt(tensor, position);
    if (!gradient) return make("td", { class: "absent" }, whyNoGradient(tape, tensor, position));
    const range = `${state === "partial" ? "so far " : ""}${rangeOf(gradient).map(shortNumber).join(" … ")}`;
    return make(
        "td",
        {},
        makeThumbnail(view, gradient, "gradient", `gradient of ${nameOf(tape, tensor)}`),
        countOf(gradient.shape) > 1 ? make("div", { class: "range" }, range) : null,
    );
}

/* Returns the largest deviation of a gradient from its central difference as text. */
function deviationText(gradient, difference) {
    const worst = gradient && difference ? largestDeviation(gradient, difference) : null;
    return worst ? `${shortNumber(worst.deviation)}${worst.index.length ? ` at ${indexText(worst.index)}` : ""}` : "";
}

function makeParameterRow(view, tensor) {
    const { tape, position } = view;
    const state = tape.gradientState(tensor, position);
    const name = nameOf(tape, tensor);
    const words = { none: "no gradient", waiting: "not yet", partial: "partial", complete: "complete" }[state];
    return make(
        "tr",
        { "data-state": state, "data-parameter": tensor.id },
        make(
            "th",
            { scope: "row" },
            make(
                "button",
                {
                    type: "button",
                    class: "link",
                    "data-key": `parameter ${tensor.id}`,
                    click: () => view.select({ tensor }, true),
                },
                name,
            ),
            make("div", { class: "shape" }, shapeText(tensor.shape, tensor.axes)),
        ),
        make(
            "td",
            {},
            tensor.value
                ? [
                      makeThumbnail(view, tensor.value, "value", name),
                      countOf(tensor.value.shape) > 1
                          ? make("div", { class: "range" }, rangeOf(tensor.value).map(shortNumber).join(" … "))
                          : null,
                  ]
                : make("span", { class: "absent" }, whyNoValue(tensor)),
        ),
        tape.backward ? make("td", {}, make("span", { class: `state ${state}` }, words)) : null,
        tape.backward ? gradientCell(view, tensor) : null,
        tape.backward
            ? make("td", { class: "deviation" }, state === "complete" ? deviationText(tensor.gradient, tensor.difference) : "")
            : null,
    );
}

/* Shows the table again. Rows whose gradient did not change stay. */
function refreshParameters(view) {
    const { tape, position } = view;
    const leaves = [...tape.parameters(), ...tape.otherLeaves()];
    const rows = leaves.map((tensor) => {
        const key = `${tape.gradientState(tensor, position)} ${tape.contributionsAt(tensor, position).length} ${view.allDigits} ${view.version}`;
        if (view.parameterRows.get(tensor)?.key !== key)
            view.parameterRows.set(tensor, { key, row: makeParameterRow(view, tensor) });
        return view.parameterRows.get(tensor).row;
    });
    const body = view.parts.parameters;
    rows.forEach((row, i) => body.rows[i] !== row && (body.rows[i] ? body.rows[i].replaceWith(row) : body.append(row)));
}

function makeParameters(view) {
    const { tape } = view;
    if (tape.parameters().length + tape.otherLeaves().length === 0) return null;
    const titles = tape.backward
        ? ["name", "value", "state", "gradient", "largest deviation from the central difference"]
        : ["name", "value"];
    view.parts.parameters = make("tbody", {});
    return make(
        "section",
        { class: "parameters" },
        make("h3", {}, tape.otherLeaves().length ? "Parameters and inputs with a gradient" : "Parameters"),
        make(
            "div",
            { class: "scroll" },
            make(
                "table",
                { "aria-label": "Values and gradients" },
                make(
                    "thead",
                    {},
                    make(
                        "tr",
                        {},
                        titles.map((title) => make("th", { scope: "col" }, title)),
                    ),
                ),
                view.parts.parameters,
            ),
        ),
    );
}
