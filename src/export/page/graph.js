/* Draws the graph as SVG: boxes, edges, leaves and nodes. A step changes classes only (graph_states.js). */

/* Returns the path of an edge: down its producer's column, and then to its place above the consumer. */
function edgePath(edge, unit, k) {
    const x0 = edge.from.x + NODE.width / 2,
        y0 = edge.from.y + edge.from.height;
    const x1 = unit.x + NODE.width / 2 + (k - (unit.inputs.length - 1) / 2) * 16,
        y1 = unit.y - 2;
    const bend = Math.max(y0, unit.rowY - 12);
    return `M${x0} ${y0}V${bend}C${x0} ${bend + 10},${x1} ${y1 - 10},${x1} ${y1}`;
}

function drawEdges(unit) {
    return unit.inputs.map((edge, k) =>
        makeSvg("path", {
            class: `edge${edge.tensor.requires_gradient ? "" : " constant"}`,
            d: edgePath(edge, unit, k),
            "data-tensor": edge.tensor.id,
            "data-to": unit.row,
            "marker-end": "url(#tapehead-arrow)",
        }),
    );
}

/* Returns a leaf's name without the path of the module around it. */
function leafText(view, tensor, unit) {
    const name = nameOf(view.tape, tensor),
        module = unit.nodes[0].module;
    return shorten(module && name.startsWith(`${module}.`) ? name.slice(module.length + 1) : name, 17);
}

/* Draws a leaf beside the node that reads it. The text is in italics if an earlier node reads the same leaf. */
function drawLeaf(view, graph, unit, tensor, k) {
    const count = unit.leaves.length,
        height = leafHeight(tensor);
    const y =
        unit.rowY + (unit.rowHeight - leavesHeight(unit.leaves)) / 2 + leavesHeight(unit.leaves.slice(0, k)) + LEAF.gap;
    const again = tensor.users[0].id < unit.nodes[0].id;
    const text = makeSvg("text", { x: graph.leafX + 7, y: y + 12.5 }, leafText(view, tensor, unit));
    const middle = y + height / 2,
        target = unit.y + unit.height / 2 + (k - (count - 1) / 2) * 6;
    const end = unit.x - 2,
        bend = graph.leafX + LEAF.width;
    return [
        makeSvg("path", {
            class: "edge leaf",
            d: `M${bend} ${middle}C${bend + 12} ${middle},${bend} ${target},${bend + 14} ${target}H${end}`,
            "data-tensor": tensor.id,
            "data-to": unit.row,
        }),
        makeSvg(
            "g",
            {
                class: `leaf ${tensor.kind}${again ? " again" : ""}`,
                role: "treeitem",
                tabindex: -1,
                "aria-level": unit.level + 2,
                "data-tensor": tensor.id,
                "data-key": `leaf ${tensor.id} ${unit.nodes[0].id}`,
                "data-name": nameOf(view.tape, tensor),
            },
            makeSvg(
                "title",
                {},
                `${nameOf(view.tape, tensor)} ${shapeText(tensor.shape, tensor.axes)}${again ? " (again)" : ""}`,
            ),
            makeSvg("rect", { x: graph.leafX, y, width: LEAF.width, height, rx: 8 }),
            text,
            isScalar(tensor) ? drawNumbers(graph.leafX + 7, y + 12.5) : null,
        ),
    ];
}

/* Draws the places of a scalar's value and gradient, below the line at y. */
function drawNumbers(x, y) {
    return ["value", "gradient"].map((kind, k) =>
        makeSvg("text", { class: `scalar ${kind}`, x, y: y + (k + 1) * NUMBER_LINE }),
    );
}

/* Draws the place of the sign that shows a node's state, at its upper right corner. */
function drawBadge() {
    return makeSvg(
        "g",
        { class: "badge", transform: `translate(${NODE.width - 3} 3)` },
        makeSvg("circle", { r: 8 }),
        makeSvg("text", { class: "state", y: 4 }),
    );
}

function drawNode(view, unit) {
    const { node } = unit;
    const output = view.tape.tensors[node.outputs[0]];
    const lines = titleLines(view.tape, node),
        bottom = unit.height - 7;
    return makeSvg(
        "g",
        {
            class: `node${node.attention ? " attention" : ""}`,
            role: "treeitem",
            tabindex: -1,
            "aria-level": unit.level + 1,
            "data-node": node.id,
            "data-key": `node ${node.id}`,
            transform: `translate(${unit.x} ${unit.y})`,
        },
        makeSvg("title", {}, `${node.op}, node ${node.id}, ${node.file || "?"}:${node.line}`),
        makeSvg("rect", { width: NODE.width, height: unit.height, rx: 7 }),
        lines.map((line, k) => makeSvg("text", { class: "op", x: 8, y: 16 + 14 * k }, line)),
        isScalar(output)
            ? drawNumbers(8, 16 + 14 * (lines.length - 1))
            : makeSvg(
                  "text",
                  { class: "shape", x: 8, y: bottom },
                  shorten(output ? shapeText(output.shape, output.axes).replaceAll(" × ", " ") : "", 19),
              ),
        drawBadge(),
    );
}

function drawClosedBox(unit) {
    const { box } = unit;
    return makeSvg(
        "g",
        {
            class: "node box",
            role: "treeitem",
            tabindex: -1,
            "aria-level": unit.level + 1,
            "aria-expanded": "false",
            "data-box": box.key,
            "data-key": `box ${box.key}`,
            transform: `translate(${unit.x} ${unit.y})`,
        },
        makeSvg("title", {}, `${box.path}: open`),
        makeSvg("rect", { width: NODE.width, height: NODE.height, rx: 7 }),
        makeSvg("text", { class: "op", x: 8, y: 16 }, `▸ ${shorten(box.title, 15)}`),
        makeSvg("text", { class: "shape", x: 8, y: 31 }, plural(unit.nodes.length, "node")),
        drawBadge(),
    );
}

function drawOpenBox(box) {
    return makeSvg(
        "g",
        {
            class: "module",
            role: "treeitem",
            tabindex: -1,
            "aria-level": box.level,
            "aria-expanded": "true",
            "aria-label": `module ${box.path}`,
            "data-box": box.key,
            "data-key": `box ${box.key}`,
        },
        makeSvg("title", {}, `${box.path}: close`),
        makeSvg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 9 }),
        makeSvg("text", { x: box.x + 10, y: box.y + 17 }, `▾ ${box.title}`),
    );
}

function drawArrow() {
    return makeSvg(
        "defs",
        {},
        makeSvg(
            "marker",
            {
                id: "tapehead-arrow",
                viewBox: "0 0 8 8",
                refX: 6,
                refY: 4,
                markerWidth: 7,
                markerHeight: 7,
                markerUnits: "userSpaceOnUse",
                orient: "auto",
            },
            makeSvg("path", { d: "M0 0L8 4L0 8z" }),
        ),
    );
}

/* Draws the whole graph. The order of the elements is the order for the keyboard. */
function drawGraph(view) {
    const graph = layoutGraph(view.tape, view.tree, view.closed);
    view.units = graph.units;
    view.graphWidth = graph.width;
    const items = [
        ...graph.boxes.map((box) => [box.y, drawOpenBox(box)]),
        ...graph.units.map((unit) => [
            unit.y,
            [
                unit.box ? null : unit.leaves.map((tensor, k) => drawLeaf(view, graph, unit, tensor, k)),
                (unit.element = unit.box ? drawClosedBox(unit) : drawNode(view, unit)),
            ],
        ]),
    ];
    items.sort((a, b) => a[0] - b[0]);
    const svg = makeSvg(
        "svg",
        {
            viewBox: `0 0 ${graph.width} ${graph.height}`,
            width: graph.width,
            role: "tree",
            style: `min-width:${0.7 * graph.width}px`,
            "aria-label": "Graph of the tape, in recording order",
        },
        drawArrow(),
        items.map((item) => item[1]),
    );
    const firstItem = svg.querySelector("[role=treeitem]");
    svg.insertBefore(makeSvg("g", { "aria-hidden": "true", class: "edges" }, graph.units.map(drawEdges)), null);
    firstItem?.setAttribute("tabindex", 0);
    replaceChildren(view.parts.graph, svg);
    refreshGraph(view);
}
