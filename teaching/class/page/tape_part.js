/* Part 4: the tape of the typed sequence, in the viewer of pages (src/export/page). */

class TapePart {
    constructor(engine, root, train, follow) {
        Object.assign(this, { engine, root, train, follow });
        this.place = (name) => root.querySelector(`[data-place="${name}"]`);
        this.view = document.getElementById("tape-view");
        this.button = buttonOf(root, "show");
        this.button.addEventListener("click", () => this.show());
    }

    /* Replaces the viewer by one with the present tape. */
    async show() {
        this.button.disabled = true;
        say(this.place("status"), "tape.writing");
        try {
            const { number, step } = this.train.run;
            const json = await this.engine.ask("tape", number, this.follow.input.value.trim());
            const script = make("script", { type: "application/json" }, json);
            views.length = 0;
            this.view.replaceChildren(make("section", { class: "tape" }, script));
            openSection(script);
            say(this.place("status"), "tape.shown", { step });
            showProblem(this.place("problem"), null);
        } catch (error) {
            sayAll(this.place("status"), []);
            showProblem(this.place("problem"), error);
        }
        this.button.disabled = false;
    }
}
