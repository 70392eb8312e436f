/* The Worker: it holds the engine (teaching/class/engine.h) and answers the page's requests, one after the other. A request is
 * { id, name, values }, an answer { id, value } or { id, error }. An engine is a number. */

/* Returns the engine's sentence about an error. */
function sentenceOf(module, engine) {
    return module.UTF8ToString(module._class_error(engine)) || "The engine failed without a sentence.";
}

/* Returns a number of the engine, or throws its sentence. */
function numberOf(module, engine, number) {
    if (Number.isNaN(number))
        throw new Error(sentenceOf(module, engine));
    return number;
}

/* Returns an address, or throws the engine's sentence. */
function addressOf(module, engine, address) {
    if (address === 0)
        throw new Error(sentenceOf(module, engine));
    return address;
}

/* Calls a function that returns an address. */
function callOf(module, name, engine, types, values) {
    return addressOf(module, engine, module.ccall(`class_${name}`, "number", ["number", ...types], [engine, ...values]));
}

/* Calls a function that returns a text. */
function textOf(module, name, engine, types = [], values = []) {
    return module.UTF8ToString(callOf(module, name, engine, types, values));
}

/* Calls a function that returns an array, and copies it. */
function arrayOf(module, name, engine, count, types, values) {
    const begin = callOf(module, name, engine, types, values) / 4;
    return module.HEAPF32.slice(begin, begin + count);
}

/* Runs steps until `most` steps or `milliseconds` have passed. A loss may be NaN; it is an error only if the engine made
 * no step. */
function train(module, engine, most, milliseconds) {
    const begin = performance.now();
    const losses = [];
    while (losses.length < most && (losses.length === 0 || performance.now() - begin < milliseconds)) {
        const before = module._class_steps(engine);
        losses.push(module._class_step(engine));
        if (module._class_steps(engine) === before)
            throw new Error(sentenceOf(module, engine));
    }
    return { losses, steps: module._class_steps(engine), rate: module._class_rate(engine),
             seconds: (performance.now() - begin) / 1000 };
}

function measure(module, engine, sequences) {
    return { symbols: numberOf(module, engine, module._class_accuracy(engine, sequences)),
             sequences: numberOf(module, engine, module._class_sequence_accuracy(engine, sequences)) };
}

function listRules(module) {
    return Array.from({ length: module._class_rules() },
                      (_, rule) => JSON.parse(module.UTF8ToString(module._class_rule(rule))));
}

const SETTERS = ["rate", "dropout", "mask", "rule"];

function change(module, engine, name, value) {
    if (!SETTERS.includes(name))
        throw new Error(`The engine has no setting ${name}.`);
    return numberOf(module, engine, module[`_class_set_${name}`](engine, value));
}

const REQUESTS = {
    create(module, s) {
        return addressOf(module, 0, module._class_new(s.seed, s.length, s.symbols, s.width, s.heads, s.batch, s.steps, s.rate,
                                                      s.dropout, s.mask));
    },
    release: (module, engine) => module._class_free(engine),
    build: (module, engine) => textOf(module, "build", engine),
    train,
    measure,
    change,
    rules: listRules,
    parameters: (module, engine) => JSON.parse(textOf(module, "parameters", engine)),
    fingerprint: (module, engine) => numberOf(module, engine, module._class_crc32c(engine)),
    write: (module, engine, sequence) => textOf(module, "write", engine, ["string"], [sequence]),
    attention: (module, engine, sequence, count) => arrayOf(module, "attention", engine, count, ["string"], [sequence]),
    follow: (module, engine, sequence, position, element) =>
        JSON.parse(textOf(module, "follow", engine, ["string", "number", "number"], [sequence, position, element])),
    tape: (module, engine, sequence) => textOf(module, "tape", engine, ["string"], [sequence]),
    mark: (module, number, name, source) =>
        JSON.parse(module.UTF8ToString(addressOf(module, 0, module.ccall("class_mark", "number", ["number", "string", "string"], [number, name, source])))),
    check: (module, engine, rule) => textOf(module, "check", engine, ["number"], [rule]),
};

const loading = Tapehead(); /* class.js defines it */

addEventListener("message", async (event) => {
    const { id, name, values } = event.data;
    try {
        postMessage({ id, value: REQUESTS[name](await loading, ...values) });
    } catch (error) {
        postMessage({ id, error: error.message });
    }
});
