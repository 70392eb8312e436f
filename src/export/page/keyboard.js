/* The keyboard: arrow keys step, in the section that has the focus, or in the one that fills most of the window. */

const KEY_HELP = [
    ["← →", "previous step, next step"],
    ["Home, End", "first step, last step"],
    ["↑ ↓", "in the graph: previous item, next item"],
    ["Enter", "in the graph: select a node, open or close a module; in a heat map: explain a cell"],
    ["Escape", "close the explanation of a cell"],
    ["arrow keys", "in a heat map: move the cursor (with Shift by 8); Tab leaves it"],
];

function makeKeyHelp() {
    const rows = KEY_HELP.map(([keys, effect]) =>
        make("tr", {}, make("th", { scope: "row" }, make("kbd", {}, keys)), make("td", {}, effect)),
    );
    return make(
        "details",
        { class: "keys" },
        make("summary", {}, "Keys"),
        make("table", { "aria-label": "Keys" }, make("tbody", {}, rows)),
    );
}

/* Returns the section that keys concern. */
function activeView(views) {
    const focused = views.find((view) => view.root.contains(document.activeElement));
    const visible = (view) => {
        const box = view.root.getBoundingClientRect();
        return Math.min(box.bottom, innerHeight) - Math.max(box.top, 0);
    };
    return focused || [...views].sort((a, b) => visible(b) - visible(a))[0];
}

/* Returns the position that a key leads to, or null. */
function positionAfter(view, key) {
    const positions = { ArrowRight: view.position + 1, ArrowLeft: view.position - 1, Home: 0, End: view.tape.steps };
    return key in positions ? positions[key] : null;
}

function listenToKeys(views) {
    document.addEventListener("keydown", (event) => {
        if (
            event.defaultPrevented ||
            event.ctrlKey ||
            event.altKey ||
            event.metaKey ||
            event.target.closest("input, select, textarea")
        )
            return;
        const view = activeView(views);
        if (event.key === "Escape" && view?.pick) closePick(view);
        const position = view && positionAfter(view, event.key);
        if (position === null || position === undefined) return;
        event.preventDefault();
        view.goTo(position);
    });
}
