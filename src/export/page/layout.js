/* Places the nodes of a tape: recording order from top to bottom, columns by dependency, modules as boxes. It draws
 * nothing.
 *
 * A unit is a node, or a closed box with all its nodes. Each unit has one place. */
const NODE = { width: 132, height: 38, gapX: 16, gapY: 16 };
const LEAF = { width: 118, height: 17, gap: 3 };
const NUMBER_LINE = 14; /* the height of a line with a scalar's value or gradient */
const LONG_NAME = 17; /* characters of an operation that fit into a line of a node */
const BOX = { head: 26, foot: 8, inset: 6 };
const OPEN_NODES = 40; /* a longer tape shows boxes inside boxes closed at first */

/* Returns the tree of modules: boxes {title, path, key, level, children} and nodes, in recording order. */
function moduleTree(nodes) {
    const root = { children: [], level: 0, path: "" };
    const open = [root];
    for (const node of nodes) {
        const parts = (node.module || "").split(".").filter(Boolean);
        let depth = 1;
        while (depth < open.length && open[depth].title === parts[depth - 1]) depth++;
        open.length = depth;
        for (const title of parts.slice(depth - 1)) {
            const parent = open[open.length - 1];
            const path = parent.path ? `${parent.path}.${title}` : title;
            const box = { title, path, key: `${path}@${node.id}`, children: [], level: open.length };
            parent.children.push(box);
            open.push(box);
        }
        open[open.length - 1].children.push(node);
    }
    return mergeOnlyChildren(root);
}

/* Joins a box with its only child, if that is a box: "layers" and "0" become "layers.0". */
function mergeOnlyChildren(box) {
    box.children = box.children.map((child) => (child.children ? mergeOnlyChildren(child) : child));
    const only =
        box.children.length === 1 && box.children[0].children && box.title !== undefined ? box.children[0] : null;
    return only ? { ...only, title: `${box.title}.${only.title}`, key: box.key } : box;
}

/* Sets the level of each box in the merged tree. */
function setLevels(box, level) {
    box.level = level;
    box.children.filter((child) => child.children).forEach((child) => setLevels(child, level + 1));
    return box;
}

function nodesOfBox(box) {
    return box.children.flatMap((child) => (child.children ? nodesOfBox(child) : [child]));
}

function allBoxes(box) {
    return box.children.filter((child) => child.children).flatMap((child) => [child, ...allBoxes(child)]);
}

/* Returns the keys of the boxes that are closed at first. */
function initiallyClosed(tree, count) {
    return new Set(
        count <= OPEN_NODES
            ? []
            : allBoxes(tree)
                  .filter((box) => box.level > 1)
                  .map((box) => box.key),
    );
}

/* Lists what is visible, in order: {head: box}, {foot: box} and units. */
function visibleRows(box, closed) {
    return box.children.flatMap((child) => {
        if (!child.children) return [{ unit: { nodes: [child], node: child, level: box.level } }];
        if (closed.has(child.key)) return [{ unit: { nodes: nodesOfBox(child), box: child, level: box.level } }];
        return [{ head: child }, ...visibleRows(child, closed), { foot: child }];
    });
}

/* Connects units: unit.inputs are the units that compute its inputs, unit.leaves the leaves that it reads. */
function connectUnits(tape, units) {
    const unitOf = new Map();
    units.forEach((unit, row) => {
        Object.assign(unit, { row, lastUse: row, inputs: [], leaves: [] });
        unit.nodes.forEach((node) => unitOf.set(node.id, unit));
    });
    for (const unit of units)
        for (const id of unit.nodes.flatMap((node) => node.inputs)) connectInput(tape, unit, id, unitOf);
    return unitOf;
}

function connectInput(tape, unit, id, unitOf) {
    const tensor = tape.tensors[id];
    if (!tensor) return;
    const from = unitOf.get(tensor.node);
    if (!from) {
        if (!unit.leaves.includes(tensor)) unit.leaves.push(tensor);
    } else if (from !== unit && !unit.inputs.some((edge) => edge.from === from && edge.tensor === tensor)) {
        unit.inputs.push({ from, tensor });
        from.lastUse = Math.max(from.lastUse, unit.row);
    }
}

/* Gives each unit a column. A unit keeps its column until its last use, so that an edge never crosses a node. */
function chooseColumns(units) {
    const holders = [];
    for (const unit of units) {
        const freed = unit.inputs.map((edge) => edge.from).filter((from) => from.lastUse === unit.row);
        const isFree = (column) =>
            !holders[column] || holders[column].lastUse < unit.row || freed.includes(holders[column]);
        let column = freed.length ? freed[0].column : 0;
        while (!isFree(column)) column++;
        unit.column = column;
        holders[column] = unit;
    }
    return holders.length;
}

/* Divides the name of an operation into lines that fit into a node. */
function nameLines(op) {
    if (op.length <= LONG_NAME) return [op];
    const end = op.lastIndexOf("_", LONG_NAME) + 1 || LONG_NAME;
    return [op.slice(0, end), shorten(op.slice(end), LONG_NAME)];
}

/* Shortens a text to `length` characters. */
function shorten(text, length) {
    return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

/* Returns the lines of a node: "S = scale" if its result has a name, otherwise its operation. */
function titleLines(tape, node) {
    const name = tape.tensors[node.outputs[0]]?.name;
    if (!name) return nameLines(node.op);
    const title = `${name} = ${node.op}`;
    return title.length <= LONG_NAME ? [title] : [`${shorten(name, LONG_NAME - 2)} =`, shorten(node.op, LONG_NAME)];
}

/* Returns true if the graph shows a tensor's number and not its shape. */
function isScalar(tensor) {
    return Boolean(tensor) && countOf(tensor.shape) === 1;
}

/* Returns the height of a node: the lines of its name, and its shape or its two numbers. */
function nodeHeight(tape, unit) {
    if (!unit.node) return NODE.height;
    const number = isScalar(tape.tensors[unit.node.outputs[0]]) ? NUMBER_LINE : 0;
    return NODE.height + 14 * (titleLines(tape, unit.node).length - 1) + number;
}

function leafHeight(tensor) {
    return LEAF.height + (isScalar(tensor) ? 2 * NUMBER_LINE : 0);
}

/* Returns the height of a unit's leaves. */
function leavesHeight(leaves) {
    return leaves.reduce((sum, tensor) => sum + leafHeight(tensor) + LEAF.gap, -LEAF.gap);
}

/* Returns the height of a unit's row. */
function rowHeight(unit) {
    return Math.max(unit.height, unit.box ? 0 : leavesHeight(unit.leaves));
}

/* Returns {units, boxes, edges, width, height} with all places in pixels. */
function layoutGraph(tape, tree, closed) {
    const rows = visibleRows(tree, closed);
    const units = rows.filter((row) => row.unit).map((row) => row.unit);
    connectUnits(tape, units);
    const columns = chooseColumns(units);
    const depth = Math.max(0, ...rows.filter((row) => row.head).map((row) => row.head.level));
    const left = depth * BOX.inset + (units.some((unit) => !unit.box && unit.leaves.length) ? LEAF.width + 22 : 10);
    const width = left + columns * (NODE.width + NODE.gapX) + depth * BOX.inset;
    const boxes = [];
    let y = 8;
    for (const { head, foot, unit } of rows) {
        if (head) {
            const inset = (head.level - 1) * BOX.inset + 2;
            boxes.push(Object.assign(head, { x: inset, y, width: width - 2 * inset }));
            y += BOX.head + 4;
        } else if (foot) {
            foot.height = y - foot.y;
            y += BOX.foot;
        } else {
            unit.height = nodeHeight(tape, unit);
            const height = rowHeight(unit);
            Object.assign(unit, {
                x: left + unit.column * (NODE.width + NODE.gapX),
                y: y + (height - unit.height) / 2,
                rowY: y,
                rowHeight: height,
            });
            y += height + NODE.gapY;
        }
    }
    return { units, boxes, leafX: depth * BOX.inset + 6, width, height: y };
}
