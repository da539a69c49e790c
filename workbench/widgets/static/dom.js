// One ES module, no build and no imports: anywidget and Panel both host it. It draws what Python publishes
// (`board`, `table`, `live`) and sends gestures (`gesture`); it decides nothing.
// Of the model it uses get, set, save_changes, on and off alone: all that both hosts have.

// An element: `class`, `data`, `on*` handlers, then properties where there is one and attributes otherwise.
function h(tag, props = {}, ...kids) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "data") Object.entries(value).forEach(([k, v]) => v !== null && v !== undefined && (element.dataset[k] = v));
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...kids.filter((kid) => kid !== null && kid !== undefined && kid !== ""));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...kids) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...kids);
  return element;
}

// What stands between backticks, as code.
function withCode(text) {
  return text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece)).filter((piece) => piece !== "");
}

// What is wrong, and the ways out.
function drawProblem({ message, ways_out: ways }) {
  return [h("p", {}, ...withCode(message)), ways.length ? h("ul", {}, ...ways.map((way) => h("li", {}, ...withCode(way)))) : null];
}

// Draws only when the state differs from the one drawn last.
function painter(draw) {
  let seen = null;
  return (state, force = false) => {
    const text = JSON.stringify(state);
    if (text === seen && !force) return;
    seen = text;
    draw(state);
  };
}

// Children by key: a row whose state is unchanged keeps its element.
function patch(parent, states, draw) {
  const old = (parent.drawn ??= new Map());
  const drawn = new Map();
  const kids = states.map((state) => {
    let key = state.key;
    while (drawn.has(key)) key += "'";
    const text = JSON.stringify(state);
    const entry = old.get(key)?.text === text ? old.get(key) : { text, element: draw(state) };
    drawn.set(key, entry);
    return entry.element;
  });
  parent.drawn = drawn;
  if (kids.length !== parent.childElementCount || kids.some((kid, i) => parent.children[i] !== kid)) parent.replaceChildren(...kids);
}

// Repaint `draw` inside `parent` without losing the keyboard's place: elements are known by their `data-focus`.
function keepingFocus(root, parent, draw, wanted = null) {
  const active = root.getRootNode().activeElement;
  const place = wanted ?? (parent.contains(active) ? active.dataset?.focus : null);
  draw();
  if (!place) return;
  const all = [...parent.querySelectorAll("[data-focus]")];
  const found = all.find((e) => e.dataset.focus === place) ?? all.find((e) => e.dataset.focus.split("@")[0] === place.split("@")[0]);
  (found && !found.disabled ? found : root).focus({ preventScroll: true }); // never to the page: undo by key is heard in the card
}

// Gestures leave one at a time, each after the one before is answered: a host may merge writes of one trait. Those that were on their way when
// a page's connection was cut leave again once it is loaded anew and `begin`s; the first may have arrived, so it is asked about.
function outbox(model, root) {
  const kept = keptThroughCut();
  const view = kept?.view ?? Math.random().toString(36).slice(2);
  const queue = kept?.gestures ?? [];
  let seq = kept?.seq ?? 0, opened = { tab: kept?.tab, seq: 0 }, waiting = null, expected = null, timer = 0, asking = 0;
  const next = () => {
    root.dataset.busy = String(Boolean(waiting || queue.length));
    if (waiting) return;
    if (!queue.length) { if (expected) tell(expected); expected = null; return; }
    waiting = queue.shift();
    timer = setTimeout(() => { root.dataset.silent = "true"; }, 10000);
    tell(waiting);
    asking = setInterval(() => tell({ ...waiting, again: true }), 5000); // a host may lose a message; Python does nothing twice
  };
  const tell = (gesture) => { model.set("gesture", gesture); model.save_changes(); };
  const onCut = () => {
    clearTimeout(timer);
    clearInterval(asking);
    const gestures = [...(waiting ? [{ ...waiting, again: true }] : []), ...queue];
    const table = model.get("table");
    keepThroughCut({ view, seq, tab: table.seq < opened.seq ? opened.tab : table.tab, gestures }); // a tab may be asked for and not shown yet
  };
  window.addEventListener("workbench:cut", onCut);
  return {
    view,
    begin() {
      next();
      if (kept?.tab && kept.tab !== model.get("table").tab) this.send({ verb: "open", tab: kept.tab });
    },
    send(gesture) {
      expected = null;
      queue.push({ ...gesture, view, seq: ++seq });
      if (gesture.verb === "open") opened = { tab: gesture.tab, seq };
      next();
    },
    expect(gesture) { expected = { ...gesture, ahead: true }; next(); }, // it may be sent next; nothing answers this
    answered(answer) {
      if (!waiting || answer?.view !== view || answer.seq < waiting.seq) return;
      waiting = null;
      clearTimeout(timer);
      clearInterval(asking);
      delete root.dataset.silent;
      next();
    },
    refresh() { if (!waiting && !queue.length) this.send({ verb: "refresh" }); },
    close() { clearTimeout(timer); clearInterval(asking); window.removeEventListener("workbench:cut", onCut); },
  };
}
