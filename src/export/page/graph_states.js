/* What the graph shows at a position, and how it reacts to the mouse and the keyboard. */

/* Returns a unit's state as a class and a word. */
function unitState(view, unit) {
    const { tape, position } = view;
    const current = tape.nodeAt(position);
    if (current && unit.nodes.includes(current))
        return ["current", tape.isBackward(position) ? "backward runs now" : "forward runs now"];
    if (unit.nodes.every((node) => !tape.hasRun(node, position))) return ["future", "not yet recorded"];
    if (
        unit.nodes.some((node) => node.step !== undefined) &&
        unit.nodes.every((node) => node.step === undefined || tape.hasRunBackward(node, position))
    )
        return ["done", "backward has run"];
    return ["", ""];
}

/* Shows the value and the gradient of a scalar at a position, as far as they are known. Returns them in words. */
function refreshNumbers(view, element, tensor) {
    const { tape, position } = view;
    const node = tape.nodes[tensor.node];
    const value = tensor.value && (!node || tape.hasRun(node, position)) ? numbersOf(tensor.value)[0] : null;
    const gradient = tape.gradientAt(tensor, position);
    const texts = {
        value: value === null ? "" : `value ${shortNumber(value)}`,
        gradient: gradient ? `grad ${shortNumber(numbersOf(gradient)[0])}` : "",
    };
    for (const [kind, text] of Object.entries(texts)) element.querySelector(`.${kind}`).textContent = text;
    return Object.values(texts).filter(Boolean);
}

function refreshUnit(view, unit) {
    const { element } = unit;
    const [state, words] = unitState(view, unit);
    const selected = unit.node ? view.selected.node === unit.node : false;
    element.classList.remove("current", "future", "done");
    if (state) element.classList.add(state);
    element.setAttribute("aria-selected", selected);
    const output = unit.node && view.tape.tensors[unit.node.outputs[0]];
    const numbers = isScalar(output) ? refreshNumbers(view, element, output) : [];
    const name = unit.box ? `module ${unit.box.path}` : `node ${unit.node.id}, ${titleLines(view.tape, unit.node).join(" ")}`;
    element.setAttribute("aria-label", [name, words, ...numbers].filter(Boolean).join(", "));
    element.querySelector(".state").textContent =
        state === "done" ? "✓" : state === "current" ? (view.tape.isBackward(view.position) ? "▲" : "▼") : "";
}

/* Marks what has run, the current node, the selection, and the edges along which the current step works. */
function refreshGraph(view) {
    view.units.forEach((unit) => refreshUnit(view, unit));
    const { tape, position } = view;
    const current = tape.nodeAt(position),
        backward = tape.isBackward(position);
    for (const edge of view.parts.graph.querySelectorAll(".edge")) {
        const tensor = tape.tensors[edge.dataset.tensor],
            unit = view.units[edge.dataset.to];
        edge.classList.toggle(
            "active",
            Boolean(current) && unit.nodes.includes(current) && (!backward || tensor.requires_gradient),
        );
        edge.classList.toggle("back", backward);
        edge.classList.toggle(
            "future",
            unit.nodes.every((node) => !tape.hasRun(node, position)),
        );
    }
    for (const leaf of view.parts.graph.querySelectorAll("g.leaf")) {
        const tensor = tape.tensors[leaf.dataset.tensor],
            state = tape.gradientState(tensor, position);
        leaf.classList.toggle("done", state === "complete");
        leaf.setAttribute("aria-selected", view.selected.tensor === tensor);
        const numbers = isScalar(tensor) ? refreshNumbers(view, leaf, tensor) : [];
        leaf.setAttribute("aria-label", [leaf.dataset.name, `gradient: ${state}`, ...numbers].join(", "));
    }
}

/* Scrolls the graph, and nothing else, so that the current node is in view. */
function scrollToUnit(view) {
    const node = view.selected.node;
    const unit = node && view.units.find((candidate) => candidate.nodes.includes(node));
    if (!unit) return;
    const pane = view.parts.graph,
        scale = pane.firstChild.clientWidth / view.graphWidth;
    const top = scale * unit.y - 60,
        bottom = scale * (unit.y + unit.height) + 60;
    if (top < pane.scrollTop) pane.scrollTop = top;
    else if (bottom > pane.scrollTop + pane.clientHeight) pane.scrollTop = bottom - pane.clientHeight;
    if (scale * unit.x < pane.scrollLeft || scale * (unit.x + NODE.width) > pane.scrollLeft + pane.clientWidth)
        pane.scrollLeft = scale * unit.x - 40;
}

/* Opens or closes a box. */
function toggleBox(view, key) {
    view.closed.has(key) ? view.closed.delete(key) : view.closed.add(key);
    drawGraph(view);
    view.parts.graph.querySelector(`[data-box="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/* Activates an item of the graph: opens or closes a box, or selects a node or a leaf. */
function activateItem(view, item) {
    if (item.dataset.box) toggleBox(view, item.dataset.box);
    else if (item.dataset.node) view.select({ node: view.tape.nodes[item.dataset.node] });
    else view.select({ tensor: view.tape.tensors[item.dataset.tensor] });
}

/* Moves the keyboard's focus to the next or the previous item. */
function moveFocus(view, item, direction) {
    const items = [...view.parts.graph.querySelectorAll("[role=treeitem]")];
    const next = items[items.indexOf(item) + direction];
    if (!next) return;
    item.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
}

function addGraphEvents(view) {
    const itemOf = (event) => event.target.closest("[role=treeitem]");
    view.parts.graph.addEventListener("click", (event) => itemOf(event) && activateItem(view, itemOf(event)));
    view.parts.graph.addEventListener("keydown", (event) => {
        const item = itemOf(event);
        if (!item) return;
        if (event.key === "ArrowDown" || event.key === "ArrowUp")
            moveFocus(view, item, event.key === "ArrowDown" ? 1 : -1);
        else if (event.key === "Enter" || event.key === " ") activateItem(view, item);
        else return;
        event.preventDefault();
        event.stopPropagation();
    });
}
