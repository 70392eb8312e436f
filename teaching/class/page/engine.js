/* The page's side of the engine: it starts the Worker from the texts in this file, and sends requests to it. */

class Engine {
    constructor(texts) {
        this.waiting = new Map();
        this.count = 0;
        this.worker = new Worker(URL.createObjectURL(new Blob(texts, { type: "text/javascript" })));
        this.worker.addEventListener("message", (event) => this.answer(event.data));
        this.worker.addEventListener("error", (event) => this.fail(`The engine stopped: ${event.message || "no reason given"}.`));
    }

    /* Sends a request. Returns a promise of the value. */
    ask(name, ...values) {
        if (this.failure)
            return Promise.reject(new Error(this.failure));
        const id = ++this.count;
        this.worker.postMessage({ id, name, values });
        return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    }

    answer({ id, value, error }) {
        const { resolve, reject } = this.waiting.get(id);
        this.waiting.delete(id);
        error === undefined ? resolve(value) : reject(new Error(error));
    }

    /* Rejects every request, now and later. */
    fail(sentence) {
        this.failure = sentence;
        this.waiting.forEach(({ reject }) => reject(new Error(sentence)));
        this.waiting.clear();
    }
}

/* Starts the engine that this file contains. */
function startEngine() {
    return new Engine(["engine", "worker"].map((id) => document.getElementById(id).textContent + "\n"));
}

/* Shows the sentence of an error in an element, or hides the element. */
function showProblem(element, error) {
    element.hidden = !error;
    element.textContent = error ? error.message : "";
}
