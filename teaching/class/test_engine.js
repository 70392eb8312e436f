/* node test_engine.js CLASS_JS: runs the class's engine (engine.h) under node. Trains the copy task and compares the checksum with that of
 * tests/checksums.txt. Marks each exercise with its solution, which must pass, and without lines, which must not. */
const { execFileSync } = require("child_process");
const fs = require("fs");
const path = require("path");

const start = require(path.resolve(process.argv[2]));
const root = path.join(__dirname, "../..");
const exercises = path.join(root, "teaching/exercises");
const fill = path.join(root, "teaching/exercises/tests/fill.sh");

process.setMaxListeners(0); /* each instance of the engine adds some */

function requireEqual(what, value, expected) {
    if (value !== expected)
        throw new Error(`${what} is ${value}, not ${expected}`);
}

/* Returns the checksum of a line "unfused  CHECKSUM  copy_task --quiet --steps 20 ...". */
function expectedChecksum() {
    const lines = fs.readFileSync(path.join(root, "tests/checksums.txt"), "utf8");
    return lines.match(/^unfused +([0-9a-f]{8}) +copy_task --quiet --steps 20 --length 4 --width 32 --batch 16$/m)[1];
}

async function train() {
    const module = await start();
    const engine = module._class_new(1, 4, 26, 32, 4, 16, 20, 5e-3, 0.1, 0);
    for (let step = 0; step < 20; step++)
        module._class_step(engine);
    requireEqual("the checksum of the parameters", module._class_crc32c(engine).toString(16).padStart(8, "0"), expectedChecksum());
    module._class_free(engine);
}

/* Marks in an instance of its own, as the page does. */
async function mark(number, name, source) {
    const module = await start();
    const report = module.ccall("class_mark", "string", ["number", "string", "string"], [number, name, source]);
    return JSON.parse(report).passed;
}

async function markExercises() {
    const names = fs.readdirSync(exercises).filter((name) => /^\d+_.*\.c$/.test(name));
    requireEqual("the number of exercises", names.length, 11);
    for (const name of names) {
        const file = path.join(exercises, name), solution = path.join(exercises, "tests/solutions", name.replace(/c$/, "txt"));
        const filled = execFileSync("sh", [fill, file, solution], { encoding: "utf8" });
        requireEqual(`the mark of the solution of ${name}`, await mark(parseInt(name), name, filled), true);
        requireEqual(`the mark of ${name} without lines`, await mark(parseInt(name), name, fs.readFileSync(file, "utf8")), false);
    }
}

train().then(markExercises).catch((error) => {
    console.error(`test_engine.js: ${error.message}`);
    process.exit(1);
});
