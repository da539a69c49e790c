// The panels of long work: Compile and Run. Start, watch, cancel; then what was found beside what was predicted.

function drawCurve(curve) {
  const points = curve.points.map(([x, y]) => `${x},${y}`).join(" ");
  const line = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `${curve.label}, last ${curve.last}` }, svg("polyline", { points }));
  return h("div", { class: "curve", data: { curve: curve.label } },
    h("div", { class: "caption" }, h("span", { class: "muted" }, curve.label), h("b", {}, curve.last)),
    h("div", { class: "plot" }, line, h("div", { class: "scale" }, h("span", {}, curve.high), h("span", {}, curve.low))));
}

// A bar and a line of text that are there while work is under way.
function progressOf(label) {
  const level = h("i");
  const bar = h("div", { class: "progress", role: "progressbar", ariaLabel: label, ariaValueMin: "0", ariaValueMax: "100" }, level);
  const stage = h("div", { class: "stage", ariaLive: "polite" });
  const paint = (state) => {
    bar.hidden = stage.hidden = state.phase !== "running";
    level.style.width = `${state.fraction * 100}%`;
    bar.ariaValueNow = String(Math.round(state.fraction * 100));
    stage.textContent = state.stage;
  };
  return { bar, stage, paint };
}

function factsOf() {
  const facts = h("dl", { class: "facts" });
  const paint = painter((state) => facts.replaceChildren(...state.flatMap((fact) => [h("dt", {}, fact.label), h("dd", {}, h("b", { class: fact.tone }, fact.text), h("span", {}, fact.note))])));
  return { facts, paint };
}

function paintWords(message, of, state) {
  message.textContent = state.message;
  message.className = `message ${state.phase === "error" ? "bad" : "muted"}`;
  message.hidden = !state.message;
  of.textContent = state.of;
  of.hidden = !state.of;
}

function compileSection(wb) {
  const target = h("span", { class: "muted target" });
  const start = h("button", { class: "btn primary", type: "button", onclick: () => wb.send({ verb: "compile" }) }, "Compile");
  const cancel = h("button", { class: "btn", type: "button", ariaLabel: "Cancel the compilation", onclick: () => wb.send({ verb: "cancel_compilation" }) }, "Cancel");
  const compare = h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "open", tab: "compared" }) }, "Compare");
  const progress = progressOf("compilation"), facts = factsOf();
  const message = h("div", { class: "message" }), of = h("div", { class: "mono of" });
  const section = h("section", { class: "compile", ariaLabel: "Compile" }, h("h2", {}, "Compile ahead of time"), h("div", { class: "buttons" }, start, cancel, compare, target), progress.bar, progress.stage, message, facts.facts, of);
  const paint = (live) => {
    const state = live.compile, running = state.phase === "running";
    section.dataset.phase = state.phase;
    section.hidden = !live.can_run;
    section.classList.toggle("stale", state.stale);
    target.textContent = state.target;
    start.disabled = running;
    cancel.hidden = !running;
    compare.hidden = running || !state.facts.length;
    progress.paint(state);
    paintWords(message, of, state);
    facts.paint(state.facts);
  };
  return { section, paint };
}

function runSection(wb) {
  const steps = h("input", { class: "field", value: "20", inputMode: "numeric", ariaLabel: "steps to run" });
  const start = h("button", { class: "btn primary", type: "submit" }, "Run");
  const cancel = h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "cancel" }) }, "Cancel");
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); wb.send({ verb: "run", steps: steps.value }); } }, steps, h("span", { class: "muted" }, "steps"), start, cancel);
  const progress = progressOf("run"), facts = factsOf();
  const message = h("div", { class: "message" }), of = h("div", { class: "mono of" });
  const curves = h("div");
  const section = h("section", { class: "run", ariaLabel: "Run" }, h("h2", {}, "Run on the attached devices"), form, progress.bar, progress.stage, message, curves, facts.facts, of);
  const results = h("section", { class: "results", ariaLabel: "Predicted against compiled" });
  const paintCurves = painter((state) => curves.replaceChildren(...state.map(drawCurve)));
  const paintResults = painter((blocks) => { results.hidden = !blocks.length; patchBlocks(wb, results, blocks); });
  const paint = (live) => {
    const running = live.phase === "running";
    section.dataset.phase = live.phase;
    section.hidden = !live.can_run;
    start.disabled = steps.disabled = running;
    cancel.disabled = !running;
    progress.paint(live);
    paintWords(message, of, live);
    paintCurves(live.curves);
    facts.paint(live.facts);
    paintResults(live.blocks);
  };
  return { section, results, paint };
}
