/* Creates elements of HTML and SVG. */

/* Sets attributes. A function is a listener: its key is the event. null, undefined and false set nothing. */
function setAttributes(element, attributes) {
    for (const [key, value] of Object.entries(attributes || {})) {
        if (typeof value === "function") element.addEventListener(key, value);
        else if (value === true) element.setAttribute(key, "");
        else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
    }
    return element;
}

/* Returns the elements and texts of nested lists, without null and undefined. */
function listOfChildren(children) {
    return children.flat(Infinity).filter((child) => child !== null && child !== undefined);
}

/* Creates an element. Children are elements and texts, or lists of them; null is skipped. */
function make(tag, attributes, ...children) {
    const element = setAttributes(document.createElement(tag), attributes);
    element.append(...listOfChildren(children));
    return element;
}

function makeSvg(tag, attributes, ...children) {
    const element = setAttributes(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);
    element.append(...listOfChildren(children));
    return element;
}

/* Replaces the children. If a child had the keyboard's focus, the new child with the same data-key gets the focus. */
function replaceChildren(element, ...children) {
    const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    element.replaceChildren(...listOfChildren(children));
    if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

/* Creates a field for a number from 0 to size - 1. change(number) runs when the reader changes it. */
function makeIndexField(label, size, value, change, key) {
    const clamp = () => Math.min(Math.max(Math.trunc(Number(field.value)) || 0, 0), size - 1);
    const field = make("input", {
        type: "number",
        min: 0,
        max: size - 1,
        value,
        "data-key": key,
        change: () => change(clamp()),
    });
    return make("label", { class: "menu" }, label, " ", field);
}

/* Creates a menu of texts. change(index) runs when the reader selects one. */
function makeMenu(label, texts, selected, change, key) {
    const options = texts.map((text, i) => make("option", { value: i, selected: i === selected }, text));
    const menu = make("select", { "data-key": key, change: () => change(Number(menu.value)) }, options);
    return make("label", { class: "menu" }, label, " ", menu);
}
