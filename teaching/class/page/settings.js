/* The settings of a run: sliders, fields and a menu. */

const MASKS = ["mask.causal", "mask.none", "mask.window"]; /* keys of texts; with ".says" what they do */

/* live: the change holds from the next step on. Other changes start the training again. */
const SETTINGS = [
    { name: "rate", label: "setting.rate", option: "lr", live: true,
      values: [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5], start: 5e-3 },
    { name: "heads", label: "setting.heads", option: "heads", values: [1, 2, 4, 8, 16], start: 4 },
    { name: "width", label: "setting.width", option: "width", values: [16, 32, 48, 64, 96, 128], start: 64 },
    { name: "dropout", label: "setting.dropout", option: "dropout", live: true, values: [0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9], start: 0.1 },
    { name: "mask", label: "setting.mask", live: true, menu: MASKS, start: 0 },
    { name: "seed", label: "setting.seed", option: "seed", low: 0, high: 1e15, start: 1 },
    { name: "length", label: "setting.length", option: "length", low: 1, high: 120, start: 16, more: true },
    { name: "symbols", label: "setting.symbols", option: "vocab", low: 2, high: 62, start: 26, more: true },
    { name: "batch", label: "setting.batch", option: "batch", low: 1, high: 4096, start: 32, more: true },
    { name: "steps", label: "setting.steps", option: "steps", low: 1, high: 1e5, start: 400, more: true },
];

function startSettings() {
    return Object.fromEntries(SETTINGS.map((setting) => [setting.name, setting.start]));
}

/* Creates a slider through a list of values. */
function makeSlider(setting, changed) {
    const { values, name, start } = setting;
    const output = make("output", { class: "value" }, start);
    const slider = make("input", { type: "range", min: 0, max: values.length - 1, value: values.indexOf(start), name, "aria-valuetext": start });
    slider.addEventListener("input", () => {
        output.textContent = values[slider.value];
        slider.setAttribute("aria-valuetext", values[slider.value]);
    });
    slider.addEventListener("change", () => changed(setting, values[slider.value]));
    return make("label", { class: "setting" }, makeText("span", setting.label), slider, output);
}

/* Creates a field for an integer. */
function makeField(setting, changed) {
    const { name, low, high, start } = setting;
    const field = make("input", { type: "number", min: low, max: high, step: 1, value: start, name });
    field.addEventListener("change", () => {
        field.value = Math.min(Math.max(Math.round(Number(field.value)) || low, low), high);
        changed(setting, Number(field.value));
    });
    return make("label", { class: "setting" }, makeText("span", setting.label), field);
}

/* Creates the menu of masks. */
function makeChoice(setting, changed) {
    const note = makeText("span", `${MASKS[setting.start]}.says`, null, { class: "note" });
    const menu = make("select", { name: setting.name }, setting.menu.map((text, i) => makeText("option", text, null, { value: i })));
    menu.addEventListener("change", () => {
        say(note, `${MASKS[menu.value]}.says`);
        changed(setting, Number(menu.value));
    });
    return make("label", { class: "setting wide" }, makeText("span", setting.label), menu, note);
}

/* Creates all controls. changed(setting, value) runs when the reader changes one. */
function makeSettings(changed) {
    const controls = (list) => list.map((setting) =>
        (setting.menu ? makeChoice : setting.values ? makeSlider : makeField)(setting, changed));
    return [make("div", { class: "settings-grid" }, controls(SETTINGS.filter((setting) => !setting.more))),
            make("details", { class: "more" }, makeText("summary", "settings.more"),
                 make("div", { class: "settings-grid" }, controls(SETTINGS.filter((setting) => setting.more))))];
}

/* Returns the command that trains with the same settings in a terminal. */
function commandOf(settings) {
    const options = SETTINGS.filter((setting) => setting.option && settings[setting.name] !== setting.start)
        .map((setting) => ` --${setting.option} ${settings[setting.name]}`);
    return `TAPEHEAD_ISA=baseline TAPEHEAD_GEMM=native copy_task${options.join("") || ` --seed ${settings.seed}`}`;
}

/* Returns why no command gives the numbers of a run, as the key and the values of a text, or null. */
function whyNoCommand(run) {
    if (run.changed !== null)
        return ["terminal.changed", { step: run.changed }];
    return run.settings.mask !== 0 ? ["terminal.mask"] : null;
}
