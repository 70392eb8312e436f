/* Starts the class's page. */

/* Connects the parts: only one of them trains at a time. */
async function startClass() {
    const part = (id) => document.getElementById(id);
    const state = document.querySelector("[data-place=build]");
    try {
        const engine = startEngine();
        const train = new TrainPart(engine, part("train"));
        const rules = new RulesPart(engine, part("rules"), () => ({ ...train.settings, mask: 0 }));
        const follow = new FollowPart(engine, part("follow"), train);
        train.started = () => rules.pause();
        rules.started = () => train.pause();
        new TapePart(engine, part("tape"), train, follow);
        const tour = new Tour(part("tour"), train, rules, follow);
        train.trained = () => follow.update();
        train.listeners.push(() => follow.restart(), () => rules.rules && rules.choose());
        await train.inTurn(() => train.reset());
        state.textContent = await engine.ask("build", train.run.number);
        await rules.open();
        languageListeners.push(() => train.run && train.draw(), () => rules.runs.length && rules.draw());
        tour.resume();
    } catch (error) {
        showProblem(document.querySelector("[data-place=failure]"), error);
    }
}

document.querySelector("[data-place=menus]").append(...makePageMenus());
document.addEventListener("DOMContentLoaded", () => { /* the engine and the exercises are behind this script */
    startExercises();
    startClass();
});
