// The Run panel: start, watch, cancel; then what was measured beside what was predicted.

function drawCurve(curve) {
  const points = curve.points.map(([x, y]) => `${x},${y}`).join(" ");
  const line = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `${curve.label}, last ${curve.last}` }, svg("polyline", { points }));
  return h("div", { class: "curve", data: { curve: curve.label } },
    h("div", { class: "caption" }, h("span", { class: "muted" }, curve.label), h("b", {}, curve.last)),
    h("div", { class: "plot" }, line, h("div", { class: "scale" }, h("span", {}, curve.high), h("span", {}, curve.low))));
}

function runSection(wb) {
  const steps = h("input", { class: "field", value: "20", inputMode: "numeric", ariaLabel: "steps to run" });
  const start = h("button", { class: "btn primary", type: "submit" }, "Run");
  const cancel = h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "cancel" }) }, "Cancel");
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); wb.send({ verb: "run", steps: steps.value }); } }, steps, h("span", { class: "muted" }, "steps"), start, cancel);
  const level = h("i");
  const progress = h("div", { class: "progress", role: "progressbar", ariaLabel: "run", ariaValueMin: "0", ariaValueMax: "100" }, level);
  const stage = h("div", { class: "stage", ariaLive: "polite" });
  const message = h("div", { class: "message" });
  const curves = h("div");
  const facts = h("dl", { class: "facts" });
  const of = h("div", { class: "mono of" });
  const section = h("section", { class: "run", ariaLabel: "Run" }, h("h2", {}, "Run on the attached devices"), form, progress, stage, message, curves, facts, of);
  const results = h("section", { class: "results", ariaLabel: "Predicted against compiled" });
  const paintCurves = painter((state) => curves.replaceChildren(...state.map(drawCurve)));
  const paintFacts = painter((state) => facts.replaceChildren(...state.flatMap((fact) => [h("dt", {}, fact.label), h("dd", {}, h("b", { class: fact.tone }, fact.text), h("span", {}, fact.note))])));
  const paintResults = painter((blocks) => { results.hidden = !blocks.length; patchBlocks(wb, results, blocks); });
  const paint = (live) => {
    const running = live.phase === "running";
    section.dataset.phase = live.phase;
    section.hidden = !live.can_run;
    start.disabled = steps.disabled = running;
    cancel.disabled = !running;
    progress.hidden = !running;
    level.style.width = `${live.fraction * 100}%`;
    progress.ariaValueNow = String(Math.round(live.fraction * 100));
    stage.hidden = !running;
    stage.textContent = live.stage;
    message.textContent = live.message;
    message.className = `message ${live.phase === "error" ? "bad" : "muted"}`;
    message.hidden = !live.message;
    of.textContent = live.of;
    of.hidden = !live.of;
    paintCurves(live.curves);
    paintFacts(live.facts);
    paintResults(live.blocks);
  };
  return { section, results, paint };
}
