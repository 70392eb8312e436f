/* The gradient norms by layer, as a chart, and by parameter, as a table. */

const NORM_LOW = 1e-6, NORM_HIGH = 10; /* of the bars */

/* Returns the lines of the chart: the norm of each layer's gradient. */
function layerLines(norms) {
    const layers = norms.length ? [...norms[0].layers.keys()] : [];
    return layers.map((name, i) => ({ name, code: true, style: i % 6, x: norms.map((entry) => entry.step), y: norms.map((entry) => entry.layers.get(name)) }));
}

/* Creates a bar for a norm, on a logarithmic scale. */
function makeNormBar(norm) {
    const share = norm > 0 ? Math.log(norm / NORM_LOW) / Math.log(NORM_HIGH / NORM_LOW) : 0;
    return make("span", { class: "norm-bar", "aria-hidden": "true" }, make("i", { style: `width:${100 * Math.min(Math.max(share, 0), 1)}%` }));
}

function normText(norm) {
    return norm === null ? "NaN" : shortNumber(norm);
}

/* Fills the table of parameters. */
function showParameters(body, parameters) {
    body.replaceChildren(...parameters.map(({ name, shape, norm, gradient, update }) => make("tr", {},
        make("th", { scope: "row", translate: "no" }, name), make("td", {}, shape.join(" × ")), make("td", {}, normText(norm)),
        make("td", { class: "with-bar" }, normText(gradient), makeNormBar(gradient)), make("td", {}, normText(update)))));
}
