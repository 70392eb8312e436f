/* The panel of the selected node or tensor: formulas, values, and what backward did. */

/* Values that are probabilities have the colors of weights. */
function valuePalette(view, tensor) {
    const node = view.tape.nodes[tensor.node];
    return node && /softmax/.test(node.op) && !/log/.test(node.op) ? "weight" : "value";
}

function valueFigure(view, tensor, title) {
    const name = title || nameOf(view.tape, tensor);
    if (!tensor.value) return makeAbsent(name, tensor.shape, tensor.axes, whyNoValue(tensor));
    return makeFigure(view, tensor.value, {
        name,
        figure: `value ${tensor.id}`,
        key: `value ${tensor.id}`,
        symbol: name,
        shape: tensor.shape,
        tensorAxes: tensor.axes,
        palette: valuePalette(view, tensor),
    });
}

/* Creates the figure of an array with the shape of a tensor's gradient. */
function gradientFigure(view, tensor, array, name, kind, notes) {
    return makeFigure(view, array, {
        name,
        figure: `${kind} ${tensor.id}`,
        key: `${kind} ${tensor.id}`,
        symbol: name,
        shape: tensor.shape,
        tensorAxes: tensor.axes,
        palette: "gradient",
        notes,
    });
}

/* Creates the figure of the central difference with its largest deviation; null if the page does not contain it. */
function differenceFigure(view, tensor) {
    if (!tensor.difference) return null;
    const worst = deviationText(tensor.gradient, tensor.difference);
    const note = worst
        ? make("p", { class: "note" }, "Largest deviation from the gradient: ", make("b", {}, worst), ".")
        : null;
    return gradientFigure(view, tensor, tensor.difference, "central difference", "difference", note);
}

/* Says what backward did with a contribution. */
function contributionText(contribution) {
    const words = {
        written: "written: the first contribution",
        added: "added to the earlier contributions",
        "passed on": "passed on: the incoming gradient itself, without a copy",
        view: "a view: it shares the gradient's memory",
    };
    const summed = contribution.summed?.length
        ? `; summed over the broadcast ${contribution.summed.length > 1 ? "axes" : "axis"} ${contribution.summed.join(", ")}`
        : "";
    return `${words[contribution.how] || contribution.how}${summed}`;
}

/* Creates the contribution of a node to one input. The node's last one to a tensor is followed by the sum so far, and
 * by the central difference of a complete gradient. */
function makeContribution(view, contribution, last) {
    const { tape, position } = view;
    const tensor = tape.tensors[contribution.node.inputs[contribution.input]];
    const name = gradientNameOf(tape, tensor),
        state = tape.gradientState(tensor, position);
    const received = tape.contributionsAt(tensor, position).length;
    const gradient = tape.gradientAt(tensor, position);
    const note = make(
        "p",
        { class: "note" },
        make("span", { class: `how ${contribution.how.replace(" ", "-")}` }, contributionText(contribution)),
    );
    const title = contribution.gradient === gradient ? name : `contribution to ${name}`;
    const own = contribution.gradient
        ? gradientFigure(view, tensor, contribution.gradient, title, "contribution", note)
        : make("figure", { class: "matrix" }, make("figcaption", {}, make("b", {}, name)), note);
    const total =
        last && gradient && gradient !== contribution.gradient
            ? gradientFigure(
                  view,
                  tensor,
                  gradient,
                  state === "complete" ? `${name}, complete` : `${name}, the sum so far`,
                  "gradient",
              )
            : null;
    const incomplete =
        state === "complete"
            ? null
            : make("p", { class: "note" }, `${name} is not complete: ${plural(received, "contribution")} so far.`);
    return make(
        "div",
        { class: "together", "data-contribution": contribution.input },
        own,
        total,
        last && state === "complete" ? differenceFigure(view, tensor) : null,
        last ? incomplete : null,
    );
}

/* Creates the part about backward of a node that backward has run. */
function makeBackward(view, node) {
    const { tape } = view;
    const incoming = node.outputs.map((id) => tape.tensors[id]).filter((tensor) => tensor.gradient);
    const contributions = node.contributions || [],
        targets = contributions.map((c) => node.inputs[c.input]);
    const released = (node.released || []).map((id) => nameOf(tape, tape.tensors[id]));
    return make(
        "section",
        { class: "backward" },
        make("h4", {}, "Backward"),
        node.gradient ? make("p", { class: "formula" }, node.gradient) : null,
        incoming.length
            ? make("h5", {}, "Incoming gradient")
            : make("p", { class: "absent" }, "The incoming gradient is not on the page."),
        make(
            "div",
            { class: "together" },
            incoming.map((tensor) =>
                gradientFigure(view, tensor, tensor.gradient, gradientNameOf(tape, tensor), "incoming"),
            ),
        ),
        make("h5", {}, "Result"),
        contributions.map((c, i) => makeContribution(view, c, targets.lastIndexOf(targets[i]) === i)),
        contributions.length ? null : make("p", { class: "absent" }, "No input requires a gradient."),
        released.length ? make("p", { class: "note" }, "Released after this step: ", joinNames(released), ".") : null,
    );
}

/* Creates the part about backward of a node that backward has not run, or never runs. */
function makeNoBackward(view, node) {
    const formula = node.gradient ? make("p", { class: "formula" }, node.gradient) : null;
    if (!view.tape.backward)
        return formula ? make("section", { class: "backward" }, make("h4", {}, "Backward"), formula) : null;
    const text =
        node.step === undefined
            ? "Backward does not run this node: the loss does not depend on it, or no input requires a gradient."
            : whenBackwardRuns(view, node, "jump");
    return make(
        "section",
        { class: "backward" },
        make("h4", {}, "Backward"),
        formula,
        make("p", { class: "absent" }, text),
    );
}

function makeForward(view, node) {
    const { tape, position } = view;
    const inputs = node.inputs.filter((id) => id >= 0).map((id) => tape.tensors[id]);
    const outputs = node.outputs.filter((id) => id >= 0).map((id) => tape.tensors[id]);
    return make(
        "section",
        { class: "forward" },
        make("h4", {}, "Forward"),
        node.value ? make("p", { class: "formula" }, node.value) : null,
        make("h5", {}, "Inputs"),
        make(
            "div",
            { class: "together" },
            inputs.map((tensor) => valueFigure(view, tensor)),
        ),
        make("h5", {}, outputs.length > 1 ? "Results" : "Result"),
        make(
            "div",
            { class: "together" },
            tape.hasRun(node, position)
                ? outputs.map((tensor) => valueFigure(view, tensor))
                : make("p", { class: "absent" }, "This node has not run yet at this step."),
        ),
    );
}

/* Creates the lines of facts about a node. */
function makeFacts(node) {
    const facts = [
        ["module", node.module || "none"],
        ["source", node.file ? `${node.file}:${node.line}` : "unknown"],
        ["options", node.attributes],
        [
            "saves",
            node.saved?.length ? `${node.saved.join(", ")} (${bytesText(node.saved_bytes)} of its own)` : "nothing",
        ],
        ["multiply-adds", node.multiply_adds ? node.multiply_adds.toLocaleString("en") : ""],
        ["fused", node.fused ? `equals ${node.fused}` : ""],
        [
            "recomputed",
            node.recomputed ? "without th_keep_values, backward computes its results again instead of saving them" : "",
        ],
    ];
    return make(
        "dl",
        { class: "facts" },
        facts
            .filter(([, text]) => text)
            .map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text))),
    );
}

function makeNodeDetails(view, node) {
    const { tape, position } = view;
    const backward = tape.hasRunBackward(node, position) ? makeBackward(view, node) : makeNoBackward(view, node);
    const forward = makeForward(view, node);
    return [
        make("h3", {}, node.op, " ", make("span", { class: "number" }, `node ${node.id}`)),
        makeFacts(node),
        tape.hasRunBackward(node, position) ? [backward, forward] : [forward, backward],
    ];
}

function nodeLink(view, node) {
    return make(
        "button",
        { type: "button", class: "link", "data-key": `link ${node.id}`, click: () => view.select({ node }) },
        `${node.op} #${node.id}`,
    );
}

function makeTensorDetails(view, tensor) {
    const { tape, position } = view;
    const name = nameOf(tape, tensor);
    const gradient = tape.gradientAt(tensor, position),
        state = tape.gradientState(tensor, position);
    const from = tape.contributionsAt(tensor, position).map((contribution) => contribution.node);
    const facts = [
        ["kind", tensor.kind],
        ["type", tensor.type],
        ["shape", shapeText(tensor.shape, tensor.axes)],
        ["read by", tensor.users.length ? tensor.users.map((node) => [nodeLink(view, node), " "]) : "no node"],
        from.length ? ["gradient from", from.map((node) => [nodeLink(view, node), " "])] : null,
    ].filter(Boolean);
    return [
        make("h3", {}, name),
        make(
            "dl",
            { class: "facts" },
            facts.map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text))),
        ),
        make(
            "div",
            { class: "together" },
            valueFigure(view, tensor, "value"),
            gradient
                ? gradientFigure(
                      view,
                      tensor,
                      gradient,
                      state === "partial" ? "gradient so far" : "gradient",
                      "gradient",
                  )
                : makeAbsent("gradient", tensor.shape, tensor.axes, whyNoGradient(tape, tensor, position)),
            state === "complete" ? differenceFigure(view, tensor) : null,
        ),
    ];
}

/* Shows the selection. */
function refreshDetails(view) {
    const { node, tensor } = view.selected;
    const content = node
        ? makeNodeDetails(view, node)
        : tensor
          ? makeTensorDetails(view, tensor)
          : [make("p", { class: "absent" }, "Select a node or a tensor in the graph.")];
    replaceChildren(view.parts.details, ...content);
}
