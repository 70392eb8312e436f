/* Starts the viewer: each section that contains a script element of type application/json shows its tape. Sections
 * share the theme and the keyboard only. */

/* The state of a section, and what changes it. */
class View {
    constructor(root, tape) {
        Object.assign(this, {
            root,
            tape,
            position: tape.forwardSteps,
            selected: {},
            index: {},
            matrices: [],
            parts: {},
            units: [],
            allDigits: false,
            ownScales: false,
            mapSize: 240,
            version: 0,
            parameterRows: new Map(),
            attentionBoxes: {},
        });
        this.tree = setLevels(moduleTree(tape.nodes), 0);
        this.closed = initiallyClosed(this.tree, tape.nodes.length);
        this.selected = { node: tape.nodes.find((node) => node.attention) || tape.nodeAt(this.position) };
    }

    /* Moves to a position, and selects its node. */
    goTo(position) {
        const target = Math.min(Math.max(position, 0), this.tape.steps);
        if (target === this.position) return;
        this.position = target;
        const node = this.tape.nodeAt(target);
        this.selected = node ? { node } : {};
        this.refresh();
        scrollToUnit(this);
    }

    /* Selects a node or a tensor. */
    select(selected, scroll) {
        this.selected = selected;
        this.refresh();
        if (scroll) this.parts.details.scrollIntoView({ block: "nearest" });
    }

    refresh() {
        refreshSteps(this);
        refreshGraph(this);
        refreshDetails(this);
        refreshAttention(this);
        refreshParameters(this);
    }

    /* Draws everything again, in the colors of the present theme. */
    repaint() {
        this.version++;
        this.refresh();
    }
}

const views = [];

/* "" is the system's theme. */
const THEMES = ["", "light", "dark"];

/* Sets one of THEMES. */
function setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    for (const menu of document.querySelectorAll(".tapehead .theme select"))
        menu.value = THEMES.indexOf(theme);
    repaintAll();
}

/* Draws all views again, and the heat maps outside of them. */
function repaintAll() {
    views.forEach((view) => view.repaint());
    redrawMaps(false);
}

/* Creates a menu of the themes. */
function makeThemeMenu() {
    const present = THEMES.indexOf(document.documentElement.dataset.theme || "");
    const menu = makeMenu("Colors", ["system", "light", "dark"], present, (i) => setTheme(THEMES[i]), "theme");
    menu.classList.add("theme");
    return menu;
}

/* Creates the line with the title and the settings. */
function makeHeader(view) {
    const { tape } = view;
    const loss = tape.tensors[tape.loss];
    const digits = make("input", {
        type: "checkbox",
        "data-key": "digits",
        change: () => {
            view.allDigits = digits.checked;
            view.refresh();
        },
    });
    const value =
        loss?.value && countOf(loss.value.shape) === 1 ? `, loss ${shortNumber(numbersOf(loss.value)[0])}` : "";
    return make(
        "header",
        {},
        make("h2", {}, tape.title || "Tape"),
        make("p", { class: "about" }, `${plural(tape.nodes.length, "node")}${value}. Tapehead ${tape.library || ""}`),
        make("div", { class: "settings" }, make("label", { class: "menu" }, digits, " all digits"), makeThemeMenu()),
    );
}

/* Creates the list of tokens. Hovering one marks its row and its column everywhere. */
function makeTokens(view) {
    const { tokens } = view.tape;
    if (!tokens?.length) return null;
    const chips = tokens.map((token, t) =>
        make("li", { tabindex: t ? -1 : 0, "data-token": t, title: `token ${t}` }, token),
    );
    const list = make("ol", { class: "tokens", "aria-label": "Tokens" }, chips);
    const mark = (event) =>
        event.target.dataset.token &&
        markTokens(view, Number(event.target.dataset.token), Number(event.target.dataset.token));
    const clear = () => markTokens(view, null, null);
    for (const [name, action] of [
        ["pointerover", mark],
        ["focusin", mark],
        ["pointerleave", clear],
        ["focusout", clear],
    ])
        list.addEventListener(name, action);
    list.addEventListener("keydown", (event) => {
        const next = chips[Number(event.target.dataset.token) + { ArrowRight: 1, ArrowLeft: -1 }[event.key]];
        if (!next) return;
        event.target.setAttribute("tabindex", -1);
        next.setAttribute("tabindex", 0);
        next.focus();
        event.preventDefault();
    });
    return list;
}

/* Moves what readers without JavaScript see into a closed element at the end, without its title. */
function foldStaticContent(root) {
    const parts = root.querySelectorAll(":scope > .static");
    root.querySelector(":scope > h2")?.remove();
    return parts.length
        ? make("details", { class: "plain" }, make("summary", {}, "Picture and table without steps"), [...parts])
        : null;
}

/* Decodes the arrays of attention while the page is idle, one at a time, so that no step waits for them. */
function decodeWhileIdle(tape) {
    const arrays = tape.nodes.flatMap((node) => Object.values(node.attention || {})).filter((part) => part?.shape);
    const decodeNext = () => {
        if (arrays.length) rangeOf(arrays.shift());
        if (arrays.length) setTimeout(decodeNext, 50);
    };
    setTimeout(decodeNext, 500);
}

/* Builds the viewer in a section. */
function buildView(root, tape) {
    const view = new View(root, tape);
    const { parts } = view;
    root.classList.add("tapehead");
    const plain = foldStaticContent(root);
    parts.graph = make("div", { class: "graph" });
    parts.details = make("div", { class: "details", "aria-label": "Selected node or tensor", role: "region" });
    parts.attention = make("section", { class: "attention-panel", hidden: true });
    parts.sentence = make("p", { class: "sentence", role: "status", "aria-live": "polite" });
    const viewer = make(
        "div",
        { class: "viewer" },
        makeHeader(view),
        make("div", { class: "control" }, makeStepBar(view), parts.sentence),
        makeTokens(view),
        parts.attention,
        make("div", { class: "panes" }, parts.graph, parts.details),
        makeParameters(view) || "",
        makeKeyHelp(),
    );
    if (!parts.parameters) parts.parameters = make("tbody", {});
    root.append(viewer, ...(plain ? [plain] : []));
    addGraphEvents(view);
    drawGraph(view);
    view.refresh();
    scrollToUnit(view);
    decodeWhileIdle(tape);
    return view;
}

/* Shows the tape of a script element, or says why it cannot. */
function openSection(script) {
    const root = script.parentElement;
    if (root.dataset.opened) return;
    root.dataset.opened = "yes";
    let json;
    try {
        json = JSON.parse(script.textContent);
        if (json.version !== 2)
            throw new Error(`the data has version ${json.version}, and this viewer reads version 2`);
    } catch (error) {
        root.append(
            make("p", { class: "tapehead-error", role: "alert" }, `This tape cannot be shown: ${error.message}.`),
        );
        return;
    }
    views.push(buildView(root, new Tape(json)));
}

/* Prints in light colors, with every heat map drawn. */
function listenToPrinting() {
    let before = "";
    addEventListener("beforeprint", () => {
        before = document.documentElement.dataset.theme || "";
        setTheme("light");
        redrawMaps(true);
    });
    addEventListener("afterprint", () => setTheme(before));
}

function startViewer() {
    document.querySelectorAll('section > script[type="application/json"]').forEach(openSection);
    listenToKeys(views);
    listenToPrinting();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startViewer);
else startViewer();
