/* The tape of a section: its nodes and tensors, and what is known of them at each step. A position counts steps: first
 * one for each node forward, then one for each node that backward runs. */
class Tape {
    constructor(json) {
        Object.assign(this, json);
        this.tensors.forEach((tensor, id) => Object.assign(tensor, { id, users: [], contributions: [] }));
        this.nodes.forEach((node, id) => Object.assign(node, { id }));
        for (const node of this.nodes)
            for (const input of new Set(node.inputs.filter((id) => id >= 0))) this.tensors[input].users.push(node);
        this.backwardNodes = this.nodes.filter((node) => node.order >= 0).sort((a, b) => a.order - b.order);
        this.backwardNodes.forEach((node, step) => (node.step = step));
        this.backwardNodes.forEach((node) => this.collectContributions(node));
        this.nodes.forEach((node) => computeAttention(this, node));
        this.forwardSteps = this.nodes.length;
        this.steps = this.forwardSteps + (this.backward ? this.backwardNodes.length : 0);
    }

    /* Enters the contributions of a node into the tensors that receive them, in the order of backward. A contribution
     * without an array is the whole gradient. */
    collectContributions(node) {
        for (const contribution of node.contributions || []) {
            const tensor = this.tensors[node.inputs[contribution.input]];
            contribution.node = node;
            contribution.gradient ??= tensor.gradient;
            tensor.contributions.push(contribution);
        }
    }

    /* Returns the node of the step that led to a position; undefined before the first step. */
    nodeAt(position) {
        return this.isBackward(position)
            ? this.backwardNodes[position - this.forwardSteps - 1]
            : this.nodes[position - 1];
    }

    isBackward(position) {
        return position > this.forwardSteps;
    }

    /* Returns true if the node has run forward. */
    hasRun(node, position) {
        return node.id < position;
    }

    /* Returns true if backward has run the node. */
    hasRunBackward(node, position) {
        return node.step !== undefined && node.step < position - this.forwardSteps;
    }

    /* Returns the position at which backward has just run the node. */
    positionOf(node) {
        return this.forwardSteps + node.step + 1;
    }

    /* Returns how far a tensor's gradient is: "none" (never), "waiting", "partial" or "complete". */
    gradientState(tensor, position) {
        if (!this.backward || !tensor.requires_gradient) return "none";
        if (tensor.id === this.loss) return position >= this.forwardSteps ? "complete" : "waiting";
        const users = tensor.users.filter((node) => node.step !== undefined);
        if (users.length === 0) return "none";
        const run = users.filter((node) => this.hasRunBackward(node, position)).length;
        return run === 0 ? "waiting" : run < users.length ? "partial" : "complete";
    }

    /* Returns the contributions that a tensor has received. */
    contributionsAt(tensor, position) {
        return tensor.contributions.filter((contribution) => this.hasRunBackward(contribution.node, position));
    }

    /* Returns the gradient at a position: the final one, the sum so far, or null. */
    gradientAt(tensor, position) {
        const state = this.gradientState(tensor, position);
        if (state === "complete") return tensor.gradient;
        return state === "partial" ? addArrays(this.contributionsAt(tensor, position).map((c) => c.gradient)) : null;
    }

    isLeaf(tensor) {
        return tensor.node < 0;
    }

    parameters() {
        return this.tensors.filter((tensor) => this.isLeaf(tensor) && tensor.kind === "parameter");
    }

    /* Returns the leaves with a gradient that are not parameters. */
    otherLeaves() {
        return this.tensors.filter((t) => this.isLeaf(t) && t.kind !== "parameter" && t.requires_gradient);
    }
}

/* Returns the name of a tensor: its own, or its place in the node that computes it. */
function nameOf(tape, tensor) {
    if (tensor.name) return tensor.name;
    const node = tape.nodes[tensor.node];
    if (!node) return tensor.kind || "input";
    const output = node.outputs.indexOf(tensor.id);
    return `${node.op}${output > 0 ? ` output ${output}` : ""} #${node.id}`;
}

/* Returns the name of a tensor's gradient: "dx", "d(head.weight)". */
function gradientNameOf(tape, tensor) {
    const name = nameOf(tape, tensor);
    return /^\w+$/.test(name) ? `d${name}` : `d(${name})`;
}

/* Says why a tensor's value is not on the page. */
function whyNoValue(tensor) {
    if (countOf(tensor.shape) === 0) return "This tensor has no elements.";
    return tensor.kind === "result"
        ? "The tape did not keep this value. Call th_keep_values before the forward."
        : "This value is not on the page.";
}

/* Says why a tensor has no gradient at a position. */
function whyNoGradient(tape, tensor, position) {
    if (!tape.backward) return "No backward has run on this tape.";
    if (!tensor.requires_gradient) return "This tensor does not require a gradient.";
    const state = tape.gradientState(tensor, position);
    if (state === "none") return "The loss does not depend on this tensor.";
    if (state === "complete")
        return countOf(tensor.shape) === 0
            ? "This tensor has no elements."
            : "The tape did not keep this gradient. Call th_keep_values before the forward.";
    const first = tensor.users.filter((node) => node.step !== undefined).sort((a, b) => a.step - b.step)[0];
    return state === "waiting" && first
        ? `No gradient yet. The first contribution comes from node ${first.id} (${first.op}).`
        : "The gradient is not complete.";
}
