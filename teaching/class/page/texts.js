/* The texts of the page in two languages: texts.json. An element with data-text shows the text with this key, and data-label is
 * the key of its name for screen readers. data-values has the numbers for the places {name} of a text. */

const LANGUAGES = ["en", "zh"];
const LANGUAGE_NAMES = ["English", "中文"];
const TEXTS = JSON.parse(document.getElementById("texts").textContent);
let language = "en";

/* Returns the text with a key in the present language. A value that is an object { key, values } is a text itself. */
function textOf(key, values) {
    const versions = TEXTS[key];
    if (!versions)
        throw new Error(`texts.json has no text ${key}`);
    const text = language === "marked" ? `⟦${versions[0]}⟧` : versions[LANGUAGES.indexOf(language)];
    return text.replace(/\{(\w+)\}/g, (place, name) => {
        const value = values?.[name];
        return value === undefined ? place : value?.key ? textOf(value.key, value.values) : value;
    });
}

/* Shows a text in an element, now and in another language later. */
function say(element, key, values) {
    element.dataset.text = key;
    if (values)
        element.dataset.values = JSON.stringify(values);
    else
        delete element.dataset.values;
    element.textContent = textOf(key, values);
    return element;
}

/* Shows several texts, one after the other. Each is a list [key, values]. */
function sayAll(element, texts) {
    delete element.dataset.text;
    element.replaceChildren(...texts.flatMap(([key, values], i) => [...(i ? [language === "zh" ? "" : " "] : []), say(make("span", {}), key, values)]));
}

/* Creates an element with a text. */
function makeText(tag, key, values, attributes) {
    return say(make(tag, attributes || {}), key, values);
}

function valuesOf(element) {
    return element.dataset.values ? JSON.parse(element.dataset.values) : {};
}

/* Gives an element a name for screen readers. */
function label(element, key, values) {
    element.dataset.label = key;
    element.dataset.values = JSON.stringify(values || {});
    element.setAttribute("aria-label", textOf(key, values));
    return element;
}

/* Shows all texts below an element in the present language. */
function showTexts(root) {
    for (const element of root.querySelectorAll("[data-text]"))
        element.textContent = textOf(element.dataset.text, valuesOf(element));
    for (const element of root.querySelectorAll("[data-label]"))
        element.setAttribute("aria-label", textOf(element.dataset.label, valuesOf(element)));
}

/* Remembers a value in this browser, or reads it. A browser may forbid both. */
function remember(name, value) {
    try {
        localStorage.setItem(`tapehead-class-${name}`, JSON.stringify(value));
    } catch {
        /* the page works without a memory */
    }
}

function remembered(name) {
    try {
        return JSON.parse(localStorage.getItem(`tapehead-class-${name}`));
    } catch {
        return null;
    }
}

const languageListeners = [];

/* Changes the language: "en", "zh", or "marked", in which a test sees what is not in texts.json. */
function setLanguage(name) {
    language = name;
    document.documentElement.lang = name === "zh" ? "zh-CN" : "en";
    document.title = textOf("title.page");
    document.querySelectorAll("select[name=language]").forEach((menu) => (menu.value = LANGUAGES.indexOf(name)));
    showTexts(document.body);
    languageListeners.forEach((listener) => listener());
}

/* Chooses the language of the last visit, or the browser's. */
function startLanguage() {
    const before = remembered("language");
    setLanguage(LANGUAGES.includes(before) ? before : navigator.language?.startsWith("zh") ? "zh" : "en");
}

/* Creates a menu with a label. names are the texts, or keys of texts. */
function makeTextMenu(key, names, selected, change) {
    const menu = make("select", { change: () => change(Number(menu.value)) },
                      names.map((name, i) => (TEXTS[name] ? makeText("option", name, null, { value: i }) : make("option", { value: i }, name))));
    menu.value = selected;
    return make("label", { class: "menu" }, makeText("span", key), " ", menu);
}

/* Creates the menus of the language and of the colors. */
function makePageMenus() {
    const languages = makeTextMenu("language", LANGUAGE_NAMES, LANGUAGES.indexOf(language), (i) => {
        remember("language", LANGUAGES[i]);
        setLanguage(LANGUAGES[i]);
    });
    languages.querySelector("select").name = "language";
    languages.querySelectorAll("option").forEach((option, i) => {
        option.lang = LANGUAGES[i] === "zh" ? "zh-CN" : "en";
        option.translate = false;
    });
    const colors = makeTextMenu("colors", THEMES.map((theme) => `colors.${theme || "system"}`),
                                THEMES.indexOf(document.documentElement.dataset.theme || ""), (i) => setTheme(THEMES[i]));
    colors.classList.add("theme");
    return [languages, colors];
}

startLanguage();
