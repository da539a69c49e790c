// The replay of a propagation: a slider over its steps, and what the step did. Also buttons that carry their own gesture.

const DIRECTIONS = { forward: "↓", backward: "↑", across: "↔" };
const ROUND = 450; // milliseconds between two steps of a replay that plays

function drawActs(wb, cell) {
  const act = (each) => h("button", { class: "btn small", type: "button", title: each.title ?? "", data: { focus: `act ${each.label}` }, onclick: (event) => {
    if (each.gesture.verb === "why") askWhy(wb, each.gesture.of, wb.asker?.focus ?? event.currentTarget);
    else wb.send(each.gesture);
  } }, each.label);
  return h("span", { class: "acts" }, cell.text ? h("span", {}, ...withCode(cell.text)) : null, ...cell.acts.map(act));
}

function paintReplay(wb, place, state) {
  if (state.waiting) {
    place.replay = null;
    const level = h("i");
    place.replaceChildren(h("div", { class: "waiting", role: "status" }, state.waiting, h("div", { class: "progress unknown" }, level)));
    return;
  }
  if (!place.replay) {
    place.replay = replayOf(wb);
    place.replaceChildren(place.replay.element);
  }
  place.replay.paint(state);
}

function replayOf(wb) {
  let state = null, wanted = null, sending = 0, playing = 0;
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const slider = h("input", { type: "range", min: "0", step: "1", class: "slider", ariaLabel: "Step of the propagation", data: { focus: "replay slider" }, oninput: () => { pause(); go(Number(slider.value)); } });
  const button = (name, text, does) => h("button", { class: "btn", type: "button", data: { focus: `replay ${name}` }, onclick: does }, text);
  const back = button("back", "‹", () => { pause(); go(at() - 1); }), on = button("on", "›", () => { pause(); go(at() + 1); });
  const play = button("play", "Play", () => { if (playing) pause(); else if (still()) go(state.last); else start(); });
  const count = h("span", { class: "mono count" }), lines = h("div", { class: "did" });
  const met = button("conflicts", "", () => heading("Conflicts")?.scrollIntoView({ block: "center" }));
  const heading = (text) => [...wb.root.querySelectorAll(".tables h3")].find((each) => each.textContent === text);
  const element = h("div", {}, h("div", { class: "controls", role: "group", ariaLabel: "Replay" }, back, slider, on, play, count, met), lines);
  back.ariaLabel = "Step back";
  on.ariaLabel = "Step on";

  const at = () => wanted ?? Number(slider.value);
  const go = (step) => {
    wanted = Math.max(0, Math.min(state.last, step));
    slider.value = String(wanted);
    mark(wanted);
    clearTimeout(sending);
    send();
  };
  const send = () => { // the newest alone, and never two on the way
    if (wanted === null || !slider.isConnected) return;
    if (wb.root.dataset.busy === "true") { sending = setTimeout(send, 20); return; }
    const step = wanted;
    wanted = null;
    wb.send({ verb: "step", step });
  };
  const mark = (step) => {
    count.textContent = `step ${step.toLocaleString("en")} of ${state.last.toLocaleString("en")}`;
    back.disabled = step <= 0;
    on.disabled = step >= state.last;
  };
  const start = () => {
    if (at() >= state.last) go(0);
    playing = setInterval(() => {
      if (!slider.isConnected || at() >= state.last) pause();
      else if (wb.root.dataset.busy !== "true") go(at() + state.stride);
    }, ROUND);
    label();
  };
  const pause = () => { clearInterval(playing); playing = 0; label(); };
  const label = () => { play.textContent = playing ? "Pause" : still() ? "To the end" : "Play"; };

  const drawLine = (line) => h("p", { data: { subject: line.subject || null } }, h("b", { class: "way" }, `${DIRECTIONS[line.direction]} ${line.direction}`), h("span", { class: "tag", data: { c: line.axis.colour } }, line.axis.name),
    " from ", h("span", { class: "mono" }, line.from), " to ", h("span", { class: "mono" }, line.to), h("span", { class: "muted" }, `  over ${line.over}`));
  const paint = painter((now) => {
    state = now;
    slider.max = String(now.last);
    slider.disabled = play.disabled = !now.last;
    slider.setAttribute("aria-valuetext", now.said);
    if (wanted === null && wb.root.dataset.busy !== "true") slider.value = String(now.step);
    mark(at());
    label();
    met.hidden = !now.conflicts;
    met.textContent = `${now.conflicts} ↓`;
    met.ariaLabel = `${now.conflicts}, below`;
    requestAnimationFrame(() => showArrived(wb));
    lines.replaceChildren(...(now.start ? [h("p", {}, ...withCode(now.start))] : []), ...now.lines.map(drawLine), now.more ? h("p", { class: "muted" }, now.more) : "");
  });
  return { element, paint };
}

// The graph follows the replay: a box that was just reached (its title begins with an arrow) comes into sight.
function showArrived(wb) {
  for (const image of wb.root.querySelectorAll(".tables[data-tab=propagation] .image")) {
    const title = [...image.querySelectorAll("title")].find((each) => each.textContent.startsWith("→ "));
    if (!title) continue;
    const box = title.parentElement.getBoundingClientRect(), frame = image.getBoundingClientRect();
    const off = (low, high, from, to) => (low < from || high > to ? (low + high) / 2 - (from + to) / 2 : 0);
    image.scrollBy({ left: off(box.left, box.right, frame.left, frame.right), top: off(box.top, box.bottom, frame.top, frame.bottom), behavior: "instant" });
  }
}
