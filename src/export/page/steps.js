/* The bar with buttons and a slider that moves through the steps, and the sentence about the current step. */

const ICONS = {
    first: "M4 3v10M13 3L6 8l7 5z",
    back: "M12 3L4 8l8 5z",
    next: "M4 3l8 5-8 5z",
    last: "M12 3v10M3 3l7 5-7 5z",
};

/* Creates a button with an icon. */
function makeStepButton(key, label, action) {
    const icon = makeSvg(
        "svg",
        { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
        makeSvg("path", { d: ICONS[key] }),
    );
    return make("button", { type: "button", "aria-label": label, title: label, "data-key": key, click: action }, icon);
}

/* Returns the sentence about the step in which backward runs a node, and a button that moves there. */
function whenBackwardRuns(view, node, key) {
    return [
        `Backward runs this node in its step ${node.step + 1}. `,
        make(
            "button",
            { type: "button", "data-key": key, click: () => view.goTo(view.tape.positionOf(node)) },
            "Go there",
        ),
    ];
}

/* Creates the bar. */
function makeStepBar(view) {
    const { tape } = view;
    const move = (position) => () => view.goTo(typeof position === "function" ? position() : position);
    const slider = make("input", {
        type: "range",
        min: 0,
        max: tape.steps,
        value: view.position,
        "aria-label": "Step",
        input: () => view.goTo(Number(slider.value)),
    });
    const middle = tape.backward
        ? make(
              "button",
              { type: "button", class: "words", "data-key": "middle", click: move(tape.forwardSteps + 1) },
              "Start of backward",
          )
        : null;
    Object.assign(view.parts, {
        slider,
        count: make("span", { class: "count" }),
        first: makeStepButton("first", "First step (Home)", move(0)),
        back: makeStepButton(
            "back",
            "Previous step (left arrow)",
            move(() => view.position - 1),
        ),
        next: makeStepButton(
            "next",
            "Next step (right arrow)",
            move(() => view.position + 1),
        ),
        last: makeStepButton("last", "Last step (End)", move(tape.steps)),
    });
    const share = tape.steps ? (100 * tape.forwardSteps) / tape.steps : 100;
    return make(
        "div",
        { class: "steps", role: "group", "aria-label": "Steps" },
        view.parts.first,
        view.parts.back,
        view.parts.next,
        view.parts.last,
        middle,
        make(
            "div",
            { class: "track", style: `--share:${share}%` },
            slider,
            make(
                "div",
                { class: "phases", "aria-hidden": "true" },
                make("span", {}, "forward"),
                tape.backward ? make("span", {}, "backward") : null,
            ),
        ),
        view.parts.count,
    );
}

/* Returns the names of tensors as a list in words. */
function joinNames(names) {
    return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

function forwardSentence(tape, node) {
    const output = tape.tensors[node.outputs[0]];
    const saves = node.saved?.length ? ` It saves ${joinNames(node.saved)} for backward.` : "";
    return `Forward: node ${node.id}, ${node.op}, computes ${shapeText(output.shape, output.axes)}.${saves}`;
}

function backwardSentence(tape, node) {
    const targets = (node.contributions || []).map((c) => {
        const name = nameOf(tape, tape.tensors[node.inputs[c.input]]);
        return `${name} (${c.how})`;
    });
    const begin = node.step === 0 ? "Backward begins at the loss. " : "";
    const result = targets.length ? `gives a gradient to ${joinNames(targets)}` : "gives no gradient";
    return `${begin}Backward: node ${node.id}, ${node.op}, ${result}.`;
}

/* Returns the sentence about a position. */
function stepSentence(tape, position) {
    const node = tape.nodeAt(position);
    if (tape.steps === 0) return "The tape is empty.";
    if (!node) return "Nothing has run yet. The next step is the first operation.";
    if (tape.isBackward(position))
        return backwardSentence(tape, node) + (position === tape.steps ? " Backward is complete." : "");
    if (position < tape.forwardSteps) return forwardSentence(tape, node);
    return (
        `Forward is complete: ${plural(tape.forwardSteps, "node")}. ` +
        (tape.backward ? "The next step begins backward, at the loss." : "This page has no backward.")
    );
}

/* Shows the current position. */
function refreshSteps(view) {
    const { tape, position, parts } = view;
    const backward = tape.isBackward(position);
    const done = backward ? position - tape.forwardSteps : position;
    const total = backward ? tape.backwardNodes.length : tape.forwardSteps;
    parts.slider.value = position;
    parts.slider.setAttribute("aria-valuetext", `${backward ? "backward" : "forward"} step ${done} of ${total}`);
    parts.count.textContent = `${backward ? "backward" : "forward"} ${done} of ${total}`;
    parts.sentence.textContent = stepSentence(tape, position);
    for (const button of [parts.first, parts.back]) button.setAttribute("aria-disabled", position === 0);
    for (const button of [parts.last, parts.next]) button.setAttribute("aria-disabled", position === tape.steps);
    view.root.dataset.position = position;
}
