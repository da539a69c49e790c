// workbench/widgets/static/dom.js
function h(tag, props = {}, ...kids) {
  const element = document.createElement(tag);
  const properties = (
    /** @type {Record<string, unknown>} */
    /** @type {unknown} */
    element
  );
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === void 0 || value === false) continue;
    if (key === "class") element.className = String(value);
    else if (key === "data") setData(
      element,
      /** @type {object} */
      value
    );
    else if (key.startsWith("on")) element.addEventListener(
      key.slice(2),
      /** @type {EventListener} */
      value
    );
    else if (key in element && key !== "list") properties[key] = value;
    else element.setAttribute(key, String(value));
  }
  element.append(...kids.filter(isShown));
  return element;
}
function setData(element, data) {
  for (const [key, value] of Object.entries(data)) if (value !== null && value !== void 0) element.dataset[key] = value;
}
var isShown = (kid) => kid !== null && kid !== void 0 && kid !== "";
var all = (within, selector) => [
  .../** @type {NodeListOf<E>} */
  within.querySelectorAll(selector)
];
var one = (within, selector) => (
  /** @type {E | null} */
  within.querySelector(selector)
);
var the = (within, selector) => (
  /** @type {E} */
  within.querySelector(selector)
);
var targetOf = (event) => (
  /** @type {HTMLElement} */
  event.target
);
var around = (element, selector) => (
  /** @type {E | null} */
  element.closest(selector)
);
var focusedBy = (element) => (
  /** @type {Document | ShadowRoot} */
  element.getRootNode().activeElement
);
var SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...kids) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...kids);
  return element;
}
function withCode(text) {
  return text.split("`").map((piece, i) => i % 2 ? h("code", {}, piece) : piece).filter((piece) => piece !== "");
}
function drawProblem({ message, ways_out: ways }) {
  return [
    h("p", {}, ...withCode(message)),
    ways.length ? h("ul", {}, ...ways.map((way) => h("li", {}, ...withCode(way)))) : null
  ];
}
function painter(draw) {
  let seen = null;
  return (state, force = false) => {
    const text = JSON.stringify(state);
    if (text === seen && !force) return;
    seen = text;
    draw(state);
  };
}
var drawnIn = /* @__PURE__ */ new WeakMap();
function patch(parent, states, draw) {
  const old = drawnIn.get(parent);
  const drawn = /* @__PURE__ */ new Map();
  const kids = states.map((state) => {
    let key = state.key;
    while (drawn.has(key)) key += "'";
    const text = JSON.stringify(state);
    const before = old?.get(key);
    const entry = before?.text === text ? before : {
      text,
      element: draw(state)
    };
    drawn.set(key, entry);
    return entry.element;
  });
  drawnIn.set(parent, drawn);
  keepKids(parent, kids);
}
function keepKids(parent, kids) {
  if (kids.length !== parent.childElementCount || kids.some((kid, i) => parent.children[i] !== kid)) parent.replaceChildren(...kids);
}
function keepingFocus(root, parent, draw, wanted = null) {
  const active = (
    /** @type {HTMLElement | null} */
    focusedBy(root)
  );
  const place = wanted ?? (parent.contains(active) ? active?.dataset?.focus : null);
  draw();
  if (!place) return;
  const marked = all(parent, "[data-focus]");
  const [dim] = place.split("@");
  const target = marked.find((item) => item.dataset.focus === place) ?? marked.find((item) => item.dataset.focus?.split("@")[0] === dim);
  (target && !("disabled" in target && target.disabled) ? target : root).focus({
    preventScroll: true
  });
}
function download(wb, name, content) {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([
    content
  ], {
    type: "text/plain"
  }) : content);
  const link = h("a", {
    href: url,
    download: name,
    hidden: true
  });
  wb.root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
}

// workbench/widgets/static/board_context.js
function makeEvents() {
  const listeners = {
    dropped: [],
    selected: [],
    opened: [],
    picked: []
  };
  return {
    publish: (event, what) => listeners[event].map((listener) => listener(what)).includes(true),
    subscribe: (event, listener) => {
      listeners[event].push(listener);
    }
  };
}
function makeWb(root, card, live, box, library, drawers = null) {
  return {
    ...makeEvents(),
    root,
    card,
    view: box.view,
    send: box.send,
    expect: box.expect,
    library,
    drawers,
    say: (words) => {
      live.textContent = words;
    },
    paint: () => {
    },
    turnTheme: () => {
    },
    toggleHelp: () => {
    },
    theme: "auto",
    held: null,
    dragging: false,
    whileDragging: null,
    optimistic: false,
    placed: false,
    only: false,
    foreseeing: void 0,
    previews: null,
    board: card,
    chips: /* @__PURE__ */ new Map(),
    axes: [],
    wanted: null,
    menu: null,
    asked: null,
    asker: null,
    tour: null,
    layout: void 0,
    selected: "",
    linked: /* @__PURE__ */ new Set(),
    sorts: /* @__PURE__ */ new Map(),
    wholeLayout: false,
    focusTab: ""
  };
}
function onShortcut(wb, event) {
  const command = event.ctrlKey || event.metaKey;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (command && event.key.toLowerCase() === "z" && !typing) {
    event.preventDefault();
    event.stopPropagation();
    wb.send({
      verb: event.shiftKey ? "redo" : "undo"
    });
  } else if (event.key === "?" && !typing) {
    event.preventDefault();
    event.stopPropagation();
    wb.toggleHelp();
  } else if (!command && !event.altKey) event.stopPropagation();
}
var PRESSABLE = "a, button, label, summary, [data-opens], [data-subject]";
var TAP_DELAY = 50;
function paintAfterPress(root, paint, signal) {
  let pressed2 = false, waiting = false;
  const act = () => {
    waiting = pressed2;
    if (!pressed2) paint();
  };
  const press = (event) => {
    const [target] = event.composedPath();
    pressed2 = target instanceof Element && !/** @type {PointerEvent} */
    event.button && target.closest(PRESSABLE) !== null;
  };
  const release2 = (event) => {
    if (!pressed2) return;
    const delay = (
      /** @type {PointerEvent} */
      event.pointerType === "touch" ? TAP_DELAY : 0
    );
    setTimeout(() => {
      pressed2 = false;
      if (waiting) act();
    }, delay);
  };
  root.addEventListener("pointerdown", press, {
    capture: true,
    signal
  });
  for (const end of [
    "pointerup",
    "pointercancel"
  ]) addEventListener(end, release2, {
    capture: true,
    signal
  });
  return act;
}

// workbench/widgets/static/curves.js
var nearest = (points, x) => points.reduce((best, point, i) => Math.abs(point[0] - x) < Math.abs(points[best][0] - x) ? i : best, 0);
function curveOf(wb, curve) {
  const { label } = curve;
  const last = h("b"), reading = h("span", {
    class: "muted atstep"
  });
  const across = svg("line", {
    class: "across",
    x1: 0,
    x2: 100
  }), line = svg("polyline", {});
  const grid = [
    0,
    50,
    100
  ].map((y) => svg("line", {
    class: "grid",
    x1: 0,
    x2: 100,
    y1: y,
    y2: y
  }));
  const drawing = svg("svg", {
    viewBox: "0 0 100 100",
    preserveAspectRatio: "none",
    "aria-hidden": "true"
  }, ...grid, across, line);
  const dot = h("i", {
    class: "dot",
    hidden: true
  });
  const plot = h("div", {
    class: "plot",
    tabIndex: 0,
    role: "img"
  }, drawing, dot);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span");
  const element = h("div", {
    class: "curve",
    data: {
      curve: label
    }
  }, h("div", {
    class: "caption"
  }, h("span", {}, label), reading, last), h("div", {
    class: "scale"
  }, high, low), plot, h("div", {
    class: "steps"
  }, first, end));
  let state = curve;
  let at = null;
  const show = () => {
    const place = at === null ? null : Math.min(at, state.points.length - 1);
    const point2 = place === null ? void 0 : state.points[place];
    dot.hidden = !point2;
    if (point2) {
      dot.style.left = `${point2[0]}%`;
      dot.style.top = `${point2[1]}%`;
    }
    reading.textContent = point2 && place !== null ? state.told[place] : state.across?.text ?? "";
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect(), x = 100 * (event.clientX - box.left) / box.width;
    at = nearest(state.points, x);
    show();
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerleave", () => {
    at = null;
    show();
  });
  plot.addEventListener("blur", () => {
    at = null;
    show();
  });
  plot.addEventListener("keydown", (event) => {
    const step = {
      ArrowRight: 1,
      ArrowLeft: -1,
      Home: -Infinity,
      End: Infinity
    }[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.max(0, Math.min(state.points.length - 1, (at ?? (step > 0 ? -1 : state.points.length)) + step));
    show();
    wb.say(reading.textContent);
  });
  const paint = painter((now) => {
    state = now;
    line.setAttribute("points", now.points.map(([x, y]) => `${x},${y}`).join(" "));
    across.setAttribute("visibility", now.across ? "visible" : "hidden");
    if (now.across) {
      across.setAttribute("y1", `${now.across.y}`);
      across.setAttribute("y2", `${now.across.y}`);
    }
    last.textContent = now.last;
    setScales({
      high,
      low,
      first,
      end
    }, now);
    plot.ariaLabel = `${now.label} from ${now.first} to ${now.end}: between ${now.low} and ${now.high}, last ${now.last}. Arrow keys read each step.`;
    show();
  });
  return {
    element,
    paint
  };
}
function setScales(places, { high, low, first, end }) {
  places.high.textContent = high;
  places.low.textContent = low;
  places.first.textContent = first;
  places.end.textContent = end;
}
function curvesOf(wb) {
  const place = h("div", {
    class: "curves"
  });
  const drawn = /* @__PURE__ */ new Map();
  const paint = (states) => {
    keepKids(place, states.map((state) => {
      const curve = drawn.get(state.label) ?? curveOf(wb, state);
      drawn.set(state.label, curve);
      curve.paint(state);
      return curve.element;
    }));
  };
  return {
    place,
    paint
  };
}
var batchAt = (lines, at) => Math.max(0, ...lines.filter((line) => line.points.length).map((line) => line.at[nearest(line.points, at)]));
function lossAt(line, at) {
  const last = line.points.at(-1);
  return last && last[0] >= at - 1 ? line.told[nearest(line.points, at)] : "\u2013";
}
function lossesOf(wb) {
  const across = svg("line", {
    class: "at",
    y1: 0,
    y2: 100,
    visibility: "hidden"
  });
  const grid = [
    0,
    50,
    100
  ].map((y) => svg("line", {
    class: "grid",
    x1: 0,
    x2: 100,
    y1: y,
    y2: y
  }));
  const drawing = svg("svg", {
    viewBox: "0 0 100 100",
    preserveAspectRatio: "none",
    "aria-hidden": "true"
  }, ...grid, across);
  const plot = h("div", {
    class: "plot",
    tabIndex: 0,
    role: "img",
    data: {
      focus: "losses"
    }
  }, drawing);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span"), reading = h("span", {
    class: "muted atstep"
  });
  const legend = h("ul", {
    class: "losslegend"
  });
  const element = h("div", {
    class: "curve losses",
    hidden: true
  }, h("div", {
    class: "caption"
  }, h("span", {}, "loss"), reading), h("div", {
    class: "scale"
  }, high, low), plot, h("div", {
    class: "steps"
  }, first, end), legend);
  const lines = /* @__PURE__ */ new Map();
  let shown = [];
  let at = null;
  const show = () => {
    across.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) {
      across.setAttribute("x1", `${at}`);
      across.setAttribute("x2", `${at}`);
    }
    reading.textContent = at === null ? "" : `mini-batch ${batchAt(shown, at).toLocaleString("en")}`;
    for (const line of shown) {
      const drawn = lines.get(line.key);
      if (drawn) drawn.value.textContent = at === null ? line.last : lossAt(line, at);
    }
  };
  const read = (event) => {
    const box = plot.getBoundingClientRect();
    at = Math.min(100, Math.max(0, 100 * (event.clientX - box.left) / box.width));
    show();
  };
  const leave = () => {
    at = null;
    show();
  };
  plot.addEventListener("pointermove", read);
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", (event) => {
    const to = {
      ArrowRight: (at ?? -2) + 2,
      ArrowLeft: (at ?? 102) - 2,
      Home: 0,
      End: 100
    }[event.key];
    if (to === void 0) return;
    event.preventDefault();
    at = Math.min(100, Math.max(0, to));
    show();
    wb.say(`${reading.textContent}: ${shown.map((line) => `${line.key} ${lines.get(line.key)?.value.textContent}`).join(", ")}`);
  });
  const lineOf = (line) => {
    const path = svg("polyline", {
      class: line.again ? "lossline again" : "lossline",
      "data-c": line.colour
    }), value = h("b");
    const entry = h("li", {
      data: {
        c: line.colour
      }
    }, h("i", {
      class: "modelmark"
    }, line.number), h("span", {
      class: "path",
      title: line.key
    }, h("bdi", {}, line.key)), value);
    const emphasise = (on) => {
      element.classList.toggle("one", on);
      path.classList.toggle("on", on);
    };
    entry.addEventListener("pointerenter", () => emphasise(true));
    entry.addEventListener("pointerleave", () => emphasise(false));
    drawing.append(path);
    legend.append(entry);
    return {
      path,
      value,
      entry
    };
  };
  const paint = painter((now) => {
    shown = now?.lines ?? [];
    element.hidden = !now;
    if (!now) return;
    for (const [key, line] of lines) {
      if (!now.lines.some((line2) => line2.key === key)) {
        line.path.remove();
        line.entry.remove();
        lines.delete(key);
      }
    }
    for (const line of now.lines) {
      const drawn = lines.get(line.key) ?? lineOf(line);
      lines.set(line.key, drawn);
      drawn.path.setAttribute("points", line.points.map(([x, y]) => `${x},${y}`).join(" "));
    }
    setScales({
      high,
      low,
      first,
      end
    }, now);
    plot.ariaLabel = `Losses of ${now.lines.length} models from ${now.first} to ${now.end}, between ${now.low} and ${now.high}. Arrow keys read them.`;
    show();
  });
  return {
    element,
    paint
  };
}

// workbench/widgets/static/drag.js
var HOVER_MS = 15;
var KEYS_HELP = "Arrows choose the zone, space drops, shift and space adds the axis, escape cancels.";
function zoneElements(wb) {
  return all(wb.root, ".zone[data-axis], .droptarget[data-axis]");
}
function reasonAt(held, axis) {
  if (!held || axis === null || axis === held.chip.source) return null;
  const illegal = held.chip.lazy ? held.chip.illegal[held.only ? "only" : "rule"] : held.chip.illegal;
  return illegal[axis]?.[held.add ? "add" : "move"] ?? null;
}
var pressed = (wb, event) => ({
  add: event.shiftKey,
  only: wb.only !== event.altKey
});
function aim(wb) {
  const held = wb.held;
  wb.board.classList.toggle("aiming", Boolean(held));
  wb.root.classList.toggle("aiming", Boolean(held));
  if (held?.by === "keyboard") wb.board.setAttribute("role", "application");
  else wb.board.removeAttribute("role");
  for (const zone of zoneElements(wb)) {
    const axis = zone.dataset.axis ?? null;
    const reason = reasonAt(held, axis);
    zone.classList.toggle("barred", Boolean(reason));
    zone.classList.toggle("over", held !== null && held.target === axis);
    zone.querySelector(".why")?.remove();
    if (reason) zone.append(h("div", {
      class: "why",
      title: reason
    }, reason));
  }
  showPreviews(wb);
  for (const chip of all(wb.root, ".chip:not(.ghost), .dim:not(.ghost)")) {
    const by = held?.chip.key === chip.dataset.chip ? held?.by : void 0;
    chip.classList.toggle("picked", by !== void 0 && by !== "pointer");
    chip.classList.toggle("lifted", by === "pointer");
    the(chip, ".grip").ariaPressed = String(by !== void 0);
  }
  clearTimeout(wb.foreseeing);
  if (held) wb.foreseeing = setTimeout(() => requestPreviews(wb, held), HOVER_MS);
}
var previewKey = (held) => held ? `${held.chip.key} ${held.chip.source} ${held.add} ${held.only}` : "";
function requestPreviews(wb, held) {
  if (held.chip.lazy && !Object.keys(held.chip.illegal).length) return;
  const targets = wb.axes.filter((target2) => !isNowhere({
    ...held,
    target: target2
  }) && !reasonAt(held, target2));
  const { verb, target, zone, ...drop2 } = dropOf(held);
  wb.expect({
    verb: "preview",
    key: previewKey(held),
    targets,
    target,
    only: verb === "own",
    ...drop2,
    ...zone ? {
      zone
    } : {}
  });
}
function showPreviews(wb) {
  const zones = wb.held && wb.previews?.key === previewKey(wb.held) ? wb.previews.zones : {};
  for (const zone of zoneElements(wb)) {
    const preview = zones[zone.dataset.axis ?? ""];
    const tone = preview && !zone.classList.contains("barred") ? preview.tone : "";
    for (const name of [
      "good",
      "bad",
      "unsure"
    ]) zone.classList.toggle(`leads-${name}`, tone === name);
    zone.querySelector(".preview")?.remove();
    if (!preview || zone.classList.contains("barred") || !(preview.note || preview.changes.length)) continue;
    const parts = preview.changes.map(({ label, text, tone: tone2 }) => h("span", {
      class: tone2
    }, `${label} ${text}`));
    zone.append(h("div", {
      class: "preview"
    }, ...parts, preview.note && h("span", {}, preview.note)));
  }
}
function previewWords(wb, axis) {
  const preview = wb.previews?.key === previewKey(wb.held) ? wb.previews.zones[axis ?? ""] : void 0;
  return preview ? [
    preview.note,
    ...preview.changes.map(({ label, text, note }) => `${label} ${text} ${note}`.trim())
  ].filter(Boolean).join(", ") : "";
}
var isNowhere = ({ chip, target, add }) => target === null || target === chip.source && !add;
function dropOf({ chip, target, add, only }) {
  if (!chip.lazy) return {
    verb: "drop",
    dim: chip.dim,
    source: chip.source,
    target,
    add
  };
  const { of, path, rank, place, source } = chip;
  if (only || chip.nameless) return {
    verb: "own",
    of,
    path,
    rank,
    place,
    source,
    target,
    add,
    zone: "tables"
  };
  return {
    verb: "drop",
    dim: chip.rule,
    source,
    target,
    add,
    zone: "tables"
  };
}
var takes = (chip, menu) => ({
  verb: "take",
  menu,
  key: chip.key,
  of: chip.of,
  path: chip.path,
  rank: chip.rank,
  place: chip.place,
  source: chip.source
});
function hold(wb, chip, by) {
  wb.held = {
    chip,
    by,
    target: by === "keyboard" ? chip.source : null,
    add: false,
    only: wb.only || Boolean(chip.nameless)
  };
  if (chip.lazy) wb.send(takes(chip, false));
  wb.say(`${chip.dim} taken. ${by === "keyboard" ? KEYS_HELP : "Click a zone to drop it."}${chip.lazy && by === "keyboard" ? " O: only this tensor, or the rule." : ""}`);
  aim(wb);
}
function release(wb, words = "Cancelled.") {
  if (!wb.held) return;
  wb.held = null;
  wb.say(words);
  aim(wb);
}
function drop(wb, axis, add) {
  if (!wb.held) return;
  const held = {
    ...wb.held,
    target: axis,
    add
  }, { chip } = held;
  wb.held = null;
  aim(wb);
  if (axis === null || isNowhere(held)) return;
  if (chip.lazy) {
    for (const dim of all(wb.root, ".dim")) if (dim.dataset.chip === chip.key) dim.classList.add("pending");
  } else wb.publish("dropped", {
    chip,
    axis,
    add
  });
  wb.send(dropOf(held));
}

// workbench/widgets/static/popup.js
function closeMenu(wb, refocus = true) {
  if (!wb.menu) return;
  const { element, anchor } = wb.menu;
  wb.menu = null;
  element.remove();
  anchor.setAttribute("aria-expanded", "false");
  if (refocus) (around(anchor, ".image") ?? anchor).focus({
    preventScroll: true
  });
}
function placeMenu(card, element, anchor) {
  const frame = card.getBoundingClientRect(), at = anchor.getBoundingClientRect();
  element.style.left = `${Math.max(4, Math.min(at.left - frame.left, frame.width - element.offsetWidth - 4))}px`;
  const height = element.offsetHeight, room = window.innerHeight - 8;
  const above = at.top - height - 4;
  const top = at.bottom + 4 + height <= room ? at.bottom + 4 : above >= 8 ? above : Math.max(8, room - height);
  element.style.top = `${top - frame.top}px`;
  if (top < at.bottom && top + height > at.top && at.right + 4 + element.offsetWidth < frame.right) {
    element.style.left = `${at.right + 4 - frame.left}px`;
  }
}
function drawRefusal(wb, refusal) {
  return h("div", {
    class: "refusal",
    role: "alert"
  }, ...drawProblem(refusal), refusal.edits?.length ? h("div", {
    class: "ways"
  }, ...refusal.edits.map((edit) => h("button", {
    class: "btn small",
    type: "button",
    onclick: () => wb.send({
      verb: "mend",
      edit,
      zone: refusal.zone
    })
  }, edit))) : null, h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Dismiss",
    onclick: () => wb.send({
      verb: "dismiss"
    })
  }, "\xD7"));
}

// workbench/widgets/static/python_constants.js
var { style: STYLE, glossary: GLOSSARY } = GIVEN;

// workbench/widgets/static/terms.js
var TERMS = new Map(GLOSSARY.groups.flatMap((group) => group.terms.flatMap((term) => [
  term.name.toLowerCase(),
  ...term.on
].map((label) => [
  label,
  term
]))));
function explained(term) {
  return [
    h("p", {}, ...withCode(term.says)),
    h("p", {
      class: "sources"
    }, term.lesson && drawLesson(term.lesson), term.notebook && h("span", {}, `Notebook ${term.number}, `, h("i", {}, `\u201C${term.notebook}\u201D`)), term.page && drawLink(term.page, "In the docs \u2197"), drawLink(term.link, "Read more \u2197"))
  ];
}
var drawLink = (address, text) => h("a", {
  href: address,
  target: "_blank",
  rel: "noopener noreferrer",
  title: address
}, text);
var drawLesson = ({ title, link }) => h("span", {}, "Lesson ", link ? drawLink(link, `\u201C${title}\u201D \u2197`) : h("i", {}, `\u201C${title}\u201D`));
function termLabel(wb, text, key = text) {
  const term = TERMS.get(key.toLowerCase());
  if (!term) return text;
  const label = h("button", {
    class: "term",
    type: "button",
    ariaHasPopup: "dialog",
    data: {
      focus: `term ${key}`
    },
    onclick: () => openTerm(wb, label, term)
  }, text);
  return label;
}
function openTerm(wb, anchor, term) {
  const again = wb.menu?.anchor === anchor;
  closeMenu(wb, false);
  if (again) return;
  const title = h("h3", {
    tabIndex: -1
  }, term.name);
  const element = h("div", {
    class: "menu meaning",
    role: "dialog",
    ariaLabel: term.name
  }, title, ...explained(term));
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      closeMenu(wb);
    }
  });
  wb.card.append(element);
  placeMenu(wb.card, element, anchor);
  wb.menu = {
    element,
    anchor
  };
  anchor.setAttribute("aria-expanded", "true");
  title.focus({
    preventScroll: true
  });
}
function askWhy(wb, of, asker) {
  wb.asker = {
    of,
    focus: asker
  };
  wb.send({
    verb: "why",
    of
  });
}
function drawAsk(wb, of, about) {
  const ask = h("button", {
    class: "ask quiet",
    type: "button",
    ariaLabel: `Why? ${about}`,
    title: "Show the breakdown",
    data: {
      focus: `why ${of}`
    },
    onclick: () => askWhy(wb, of, ask)
  }, "Why?");
  return ask;
}
function drawAsked(wb, cell) {
  const ask = h("button", {
    class: "ask number",
    type: "button",
    tabIndex: -1,
    title: `${cell.title ?? ""} \xB7 Why?`.replace(/^ · /, ""),
    ariaLabel: `${cell.text}. Why?`,
    data: {
      focus: `why ${cell.why}`
    },
    onclick: () => askWhy(wb, cell.why, ask)
  }, cell.text);
  return ask;
}

// workbench/widgets/static/menus.js
function openMenu(wb, anchor, items, fields = {}) {
  const again = wb.menu?.anchor === anchor;
  closeMenu(wb, false);
  if (again) return;
  release(wb);
  const choose2 = (gesture) => {
    closeMenu(wb, true);
    if (gesture.verb === "why") askWhy(wb, String(gesture.of), anchor);
    else wb.send({
      ...gesture,
      ...fields
    });
  };
  const element = h("div", {
    class: "menu",
    role: "menu"
  }, ...items.map((item) => {
    if (item.heading !== void 0) return h("div", {
      class: "heading",
      role: "presentation"
    }, item.heading);
    if (item.choices !== void 0) return drawChoices(item, choose2);
    return drawItem(item, () => item.ask ? askName(wb, element, item, item.ask, choose2) : choose2(item.gesture));
  }));
  element.addEventListener("keydown", (event) => walkMenu(wb, element, event));
  wb.card.append(element);
  placeMenu(wb.card, element, anchor);
  wb.menu = {
    element,
    anchor
  };
  anchor.setAttribute("aria-expanded", "true");
  element.querySelector("button")?.focus({
    preventScroll: true
  });
}
function drawItem(item, onclick) {
  const title = TERMS.get(item.label.toLowerCase())?.says ?? "";
  return h("button", {
    type: "button",
    role: "menuitem",
    class: item.reason ? "barred" : "",
    title,
    onclick
  }, item.label, item.note && h("small", {
    class: "note"
  }, item.note), item.reason && h("small", {}, item.reason));
}
function drawChoices(item, choose2) {
  return h("div", {
    class: "optionrow",
    role: "group",
    ariaLabel: item.choices
  }, h("span", {
    ariaHidden: "true",
    title: TERMS.get(item.choices.toLowerCase())?.says ?? ""
  }, item.choices), ...item.options.map((option) => h("button", {
    type: "button",
    role: item.many ? "menuitemcheckbox" : "menuitemradio",
    ariaChecked: String(option.checked),
    class: option.reason ? "barred" : "",
    title: option.reason ?? "",
    onclick: () => choose2(option.gesture)
  }, option.label)));
}
function walkMenu(wb, element, event) {
  if (event.key === "Escape") {
    event.preventDefault();
    closeMenu(wb);
    return;
  }
  const at = targetOf(event), inRow = at.closest(".optionrow");
  const step = {
    ArrowDown: 1,
    ArrowUp: -1,
    ...inRow ? {
      ArrowRight: 1,
      ArrowLeft: -1
    } : {}
  }[event.key];
  if (!step || at.matches("input")) return;
  event.preventDefault();
  const buttons = all(element, "button");
  const now = buttons.findIndex((button) => button === focusedBy(element));
  buttons[(now + step + buttons.length) % buttons.length]?.focus();
}
function askName(wb, element, item, ask, choose2) {
  const offered = ask.options ? h("datalist", {
    id: `offered-${wb.view}`
  }, ...ask.options.map((value) => h("option", {
    value
  }))) : null;
  const input = h("input", {
    class: "field",
    value: ask.value,
    ariaLabel: ask.label,
    maxLength: 400,
    list: offered?.id,
    placeholder: ask.options ? `${ask.label} \u2026` : ""
  });
  element.setAttribute("role", "dialog");
  element.ariaLabel = item.label;
  element.replaceChildren(h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      choose2({
        ...item.gesture,
        name: input.value
      });
    }
  }, input, offered, h("button", {
    class: "btn primary",
    type: "submit",
    style: "width:auto;display:inline-block"
  }, ask.verb)));
  input.focus();
  input.select();
}
function askMenu(wb, chip, anchor) {
  if (wb.menu?.anchor === anchor) {
    closeMenu(wb);
    return;
  }
  wb.asked = {
    key: chip.key,
    anchor
  };
  wb.send(takes(chip, true));
}
function takenUp(wb, answer) {
  if (!answer) return;
  const held = wb.held;
  if (held?.chip.lazy && held.chip.key === answer.key) {
    held.chip.illegal = /** @type {Reasons} */
    answer.illegal;
    aim(wb);
  }
  if (wb.asked?.key === answer.key) {
    const { anchor, find } = wb.asked;
    wb.asked = null;
    const now = anchor.isConnected ? anchor : find ? find() : all(wb.card, ".grip").find((grip) => grip.dataset.focus === answer.key);
    if (now) openMenu(wb, now, answer.menu, {
      zone: "tables"
    });
  }
}

// workbench/widgets/static/fleet_controls.js
function drawFleetControls(wb, parent, state) {
  const control = (key, label, ...kids) => h("div", {
    class: `control by-${key}`,
    data: {
      control: key
    }
  }, h("span", {
    class: "label",
    id: `fleet-${key}-${wb.view}`
  }, termLabel(wb, label)), ...kids);
  const now = state.policies.find((policy2) => policy2.name === state.policy);
  const items = state.policies.map((policy2) => ({
    label: policy2.name,
    note: policy2.text ? `${policy2.about}: ${policy2.text}` : policy2.about,
    gesture: {
      verb: "policy",
      value: policy2.name
    }
  }));
  const policy = h("button", {
    class: "field open",
    type: "button",
    disabled: state.locked,
    ariaHasPopup: "menu",
    ariaLabel: `Policy: ${state.policy}`,
    data: {
      focus: "policy"
    },
    onclick: () => {
      openMenu(wb, policy, items);
      wb.menu?.element.classList.add("sentences");
    }
  }, state.policy, h("span", {
    ariaHidden: "true"
  }, "\u25BE"));
  const field = (verb, value, name, more) => {
    const input = h("input", {
      class: "field",
      value,
      disabled: state.locked,
      ariaLabel: name,
      ariaInvalid: state.wrong.includes(verb) ? "true" : null,
      spellcheck: false,
      autocomplete: "off",
      data: {
        focus: verb
      },
      onchange: () => wb.send({
        verb,
        value: input.value
      }),
      onkeydown: (event) => {
        if (event.key === "Escape") {
          input.value = value;
          input.blur();
        }
      },
      ...more
    });
    return input;
  };
  const button = (sign, name, gesture, off = false) => h("button", {
    class: "btn icon",
    type: "button",
    disabled: state.locked || off,
    ariaLabel: name,
    title: name,
    data: {
      focus: `${gesture.verb}${sign}`
    },
    onclick: () => wb.send(gesture)
  }, sign);
  const memory = h("span", {
    class: "stepper"
  }, button("\u2212", "Half the budget", {
    verb: "budget",
    value: "less"
  }), field("memory", state.memory, "memory budget per device", {
    placeholder: "all",
    maxLength: 40
  }), button("+", "Twice the budget", {
    verb: "budget",
    value: "more"
  }));
  const count = Number(state.devices);
  const devices = h("span", {
    class: "stepper"
  }, button("\u2212", "One device less", {
    verb: "devices",
    value: String(count - 1)
  }, !state.fewer), field("devices", state.devices, "devices", {
    inputMode: "numeric",
    maxLength: 6
  }), button("+", "One device more", {
    verb: "devices",
    value: String(count + 1)
  }, !state.more));
  const hardware = field("fleet_hardware", state.hardware, "hardware of the fleet", {
    placeholder: "8 H100",
    maxLength: 200
  });
  parent.replaceChildren(control("policy", "Policy", policy, h("span", {
    class: "muted says"
  }, now?.about)), control("memory", "Memory of a device", memory, h("span", {
    class: "muted says"
  }, state.room)), control("devices", "Devices", devices), control("hardware", "Hardware", hardware, h("span", {
    class: "muted says"
  }, state.planned_for)));
}

// workbench/widgets/static/wait_line.js
function waitLine(wb, verb) {
  const bar = h("div", {
    class: "progress unknown"
  }, h("i")), phase = h("span", {
    role: "status"
  });
  const seconds = h("span", {
    class: "seconds",
    ariaHidden: "true"
  });
  const cancel = h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: verb
    },
    onclick: () => wb.send({
      verb
    })
  }, "Cancel");
  const element = h("div", {
    class: "wait",
    hidden: true
  }, bar, phase, seconds, cancel);
  const counter = countSeconds(element, (passed) => seconds.textContent = passed ? `${passed} s` : "");
  const paint = (state) => {
    element.hidden = !state;
    if (!state) return counter.stop();
    if (phase.textContent !== state.phase) phase.textContent = state.phase;
    counter.start(state.seconds);
  };
  return {
    element,
    paint
  };
}
function countSeconds(element, show) {
  let begun = 0, timer = 0;
  const count = () => {
    show(Math.floor((performance.now() - begun) / 1e3));
    if (!element.isConnected) clearInterval(timer);
  };
  const start = (seconds) => {
    clearInterval(timer);
    begun = performance.now() - 1e3 * seconds;
    count();
    timer = setInterval(count, 250);
  };
  return {
    start,
    stop: () => clearInterval(timer)
  };
}

// workbench/widgets/static/figures.js
function drawShare(part2) {
  const slice = h("i", {
    title: part2.title,
    data: {
      shade: part2.shade
    }
  });
  slice.style.width = `${part2.share * 100}%`;
  return slice;
}
function drawLimit({ share, text }) {
  const line = h("i", {
    class: "limit",
    title: text
  });
  line.style.left = `${share * 100}%`;
  return line;
}
function drawBar(figure) {
  const limit = figure.limit && drawLimit(figure.limit);
  const all2 = figure.apart ? [
    ...figure.parts,
    figure.apart
  ] : figure.parts;
  return [
    h("div", {
      class: "bars",
      role: "img",
      ariaLabel: all2.map((part2) => part2.title).join("; ")
    }, h("div", {
      class: `bar ${figure.tone}`
    }, ...figure.parts.map(drawShare)), limit, figure.apart ? h("div", {
      class: "bar apart"
    }, drawShare(figure.apart)) : null),
    h("div", {
      class: "legend"
    }, ...all2.map((part2) => h("span", {
      title: part2.title
    }, h("i", {
      data: {
        shade: part2.shade
      }
    }), `${part2.role} `, h("b", {}, part2.text))))
  ];
}
function drawMark(mark) {
  return mark?.key ? h("span", {
    class: "origin",
    role: "img",
    ariaLabel: mark.label,
    title: mark.title,
    data: {
      tier: mark.key,
      settles: mark.settles || null
    }
  }) : null;
}
function drawStanding(wb, standing) {
  const sign = drawMark(standing.mark) ?? h("span");
  sign.ariaHidden = "true";
  return [
    sign,
    h("span", {
      title: standing.mark.title
    }, termLabel(wb, standing.mark.label ?? "")),
    h("span", {
      class: "how"
    }, standing.text)
  ];
}
var drawDelta = ({ text, tone, note, title }) => h("span", {
  class: "change",
  title
}, h("span", {
  class: `delta ${tone}`
}, text), note && h("span", {
  class: "doubt"
}, ` ${note}`));
function drawFigure(wb, figure) {
  const delta = figure.delta && drawDelta(figure.delta);
  const wide = figure.parts.length > 0;
  const range = figure.range && h("span", {
    class: "range",
    title: "90 % prediction interval, measured on third-party programs."
  }, figure.range);
  return h("div", {
    class: wide ? "figure wide" : "figure",
    title: wide ? "" : figure.title,
    data: {
      figure: figure.key
    }
  }, h("div", {
    class: "label",
    title: figure.title
  }, termLabel(wb, figure.label, figure.key), drawAsk(wb, `figure ${figure.key}`, figure.label)), h("div", {
    class: `value ${figure.tone}`,
    title: figure.title
  }, h("span", {
    class: "marked"
  }, figure.text, drawMark(figure.tier)), wide ? range : null, wide ? delta : null, wide && figure.note ? h("span", {
    class: `beside ${figure.tone}`
  }, figure.note) : null), wide ? null : h("div", {
    class: "sub"
  }, range, range && h("br"), delta, delta && " ", figure.note), figure.counted ? h("div", {
    class: "changes"
  }, ...figure.changes.map((change) => h("span", {
    class: change.tone
  }, change.text))) : null, ...wide ? drawBar(figure) : [], ...figure.tiers.map((tier) => h("div", {
    class: tier.stale ? "tier stale" : "tier",
    title: tier.stale
  }, drawMark(tier.mark), `${tier.label} `, h("b", {}, tier.text), tier.note ? h("span", {}, ` ${tier.note}`) : null)));
}
function drawAlarm(wb, alarm) {
  return h("div", {
    class: "alarm",
    role: "alert"
  }, h("b", {
    class: "bad"
  }, `${alarm.kind} `), h("span", {}, ...withCode(alarm.message)), " ", ...alarm.edits.map((edit) => h("button", {
    class: "btn small",
    type: "button",
    onclick: () => wb.send({
      verb: "mend",
      edit
    })
  }, edit)));
}

// workbench/widgets/static/work.js
function progressOf(label) {
  const level = h("i");
  const bar = h("div", {
    class: "progress",
    role: "progressbar",
    ariaLabel: label,
    ariaValueMin: "0",
    ariaValueMax: "100"
  }, level);
  const stage = h("div", {
    class: "stage"
  });
  const paint = (state) => {
    stage.hidden = state.phase !== "running";
    bar.hidden = Boolean(stage.hidden || state.waits);
    const known = state.fraction > 0 && !state.stage.startsWith("compiling");
    bar.classList.toggle("unknown", !known);
    level.style.width = known ? `${state.fraction * 100}%` : "";
    bar.ariaValueNow = known ? String(Math.round(state.fraction * 100)) : null;
    stage.textContent = state.stage;
  };
  return {
    bar,
    stage,
    paint
  };
}
function factsOf() {
  const facts = h("dl", {
    class: "facts"
  });
  const paint = painter((state) => {
    facts.hidden = !state.length;
    facts.replaceChildren(...state.flatMap((fact) => [
      h("dt", {}, fact.label),
      h("dd", {}, h("b", {
        class: fact.tone
      }, fact.text), drawMark(fact.mark), " ", h("span", {}, fact.note))
    ]));
  });
  return {
    facts,
    paint
  };
}
function logOf(label) {
  const count = h("span", {
    class: "badge"
  });
  const lines = h("ol", {
    tabIndex: 0,
    ariaLabel: `Messages of the ${label}`
  });
  const element = h("details", {
    class: "log"
  }, h("summary", {}, "Worker's messages ", count), lines);
  const paint = painter((state) => {
    element.hidden = !state.length;
    count.textContent = String(state.length);
    const follows = element.open && lines.scrollHeight - lines.scrollTop - lines.clientHeight < 8;
    patch(lines, state, (line) => h("li", {
      class: line.tone
    }, h("span", {
      class: "at"
    }, line.at), h("span", {}, line.text)));
    if (follows) lines.scrollTop = lines.scrollHeight;
  });
  return {
    element,
    paint
  };
}
function paintWords(message, of, state) {
  message.textContent = state.message;
  message.className = `message ${state.phase === "error" && !state.stale ? "bad" : "muted"}`;
  message.hidden = !state.message;
  of.textContent = state.of;
  of.hidden = !state.of;
}
function speaker(wb) {
  let announced = null;
  return (words) => {
    if (words && announced !== null && words !== announced) wb.say(words);
    announced = words;
  };
}

// workbench/widgets/static/fleet_parts.js
function fleetTiming(wb) {
  const words = h("span", {
    class: "muted",
    role: "status"
  });
  const start = h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: "time"
    },
    title: "Split the models into shard units and time each unit on one device, in a worker process",
    onclick: () => wb.send({
      verb: "time"
    })
  }, "Time the units");
  const cancel = h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: "cancel_timing"
    },
    onclick: () => wb.send({
      verb: "cancel_timing"
    })
  }, "Cancel timing");
  const spinner = h("i", {
    class: "spin",
    ariaHidden: "true"
  });
  const element = h("div", {
    class: "fleettiming"
  }, spinner, words, start, cancel);
  const paint = painter((state) => {
    const running = state.phase === "running";
    spinner.hidden = !running && !state.waits;
    words.textContent = state.waits ? "Simulating the schedule \u2026" : running ? `Timing the units: ${state.stage} \u2026` : state.message;
    words.className = state.phase === "error" ? "bad" : "muted";
    start.hidden = !state.can_time;
    cancel.hidden = !running;
    element.hidden = !words.textContent && start.hidden;
  });
  return {
    element,
    paint
  };
}
function fleetRun(wb) {
  const start = h("button", {
    class: "btn primary",
    type: "button",
    data: {
      focus: "run"
    },
    onclick: () => wb.send({
      verb: "run"
    })
  }, "Run");
  const cancel = h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: "cancel"
    },
    ariaLabel: "Cancel the run",
    onclick: () => wb.send({
      verb: "cancel"
    })
  }, "Cancel");
  const progress = progressOf("training"), facts = factsOf(), log = logOf("training"), speak = speaker(wb);
  const message = h("div", {
    class: "message"
  }), command = h("div", {
    class: "mono of"
  });
  const results = h("div", {
    class: "fleetfacts"
  }, facts.facts, command, log.element);
  let now = {
    stage: "",
    left: ""
  };
  const counter = countSeconds(progress.stage, (passed) => {
    progress.stage.textContent = [
      now.stage,
      `${passed} s`,
      now.left
    ].filter(Boolean).join(" \xB7 ");
  });
  const paint = (live, state) => {
    const running = live.phase === "running";
    start.disabled = running;
    start.hidden = !live.can_run;
    cancel.hidden = !running;
    progress.paint(live);
    now = live;
    if (running) counter.start(live.seconds);
    else counter.stop();
    message.textContent = live.message;
    message.className = `message ${live.phase === "error" ? "bad" : "muted"}`;
    message.hidden = !live.message;
    facts.paint(live.facts);
    command.textContent = state.command ? `$ ${state.command}` : "";
    command.hidden = !state.command;
    log.paint(live.log);
    speak(live.said);
  };
  return {
    buttons: h("div", {
      class: "fleetbuttons"
    }, start, cancel),
    progress: h("div", {
      class: "fleetprogress"
    }, progress.bar, progress.stage, message),
    results,
    paint
  };
}
function fleetModels(wb) {
  const head = h("tr"), body = h("tbody");
  const rows = /* @__PURE__ */ new Map();
  const section = h("section", {
    class: "fleetmodels",
    ariaLabel: "Models"
  }, h("div", {
    class: "scroll",
    tabIndex: 0,
    role: "group",
    ariaLabel: "Models"
  }, h("table", {}, h("thead", {}, head), body)));
  const titles = (columns) => {
    const configured = columns.map((name) => [
      name,
      "n arg"
    ]);
    return [
      [
        "Model"
      ],
      ...configured,
      [
        "Epochs",
        "n arg"
      ],
      [
        "Shards",
        "cut"
      ],
      [
        "Alone",
        "n arg"
      ],
      [
        "State"
      ],
      [
        "Loss",
        "n"
      ],
      [
        ""
      ]
    ];
  };
  const paintHead = painter((columns) => head.replaceChildren(...titles(columns).map(([name, kind]) => h("th", {
    class: kind ?? "",
    scope: "col"
  }, name ? termLabel(wb, name, `fleet ${name}`) : ""))));
  const paint = (models, columns, live) => {
    paintHead(columns);
    patch(body, models, (model) => {
      const row = fleetRow(wb, model);
      rows.set(model.key, row);
      return row.element;
    });
    for (const model of models) rows.get(model.key)?.paint(live[model.key] ?? null);
  };
  return {
    section,
    paint
  };
}
function fleetRow(wb, model) {
  const bar = h("i"), state = h("span", {
    class: "word"
  }), batches = h("span", {
    class: "muted"
  }), loss = h("td", {
    class: "n loss"
  });
  const stop = h("button", {
    class: "btn small",
    type: "button",
    hidden: true,
    ariaLabel: `Stop ${model.name}`,
    title: "Stop after the current mini-batch; the other models get its devices",
    data: {
      focus: `stop-${model.key}`
    },
    onclick: () => wb.send({
      verb: "stop",
      value: model.key
    })
  }, "Stop");
  const shards = h("span", {
    class: "shards",
    role: "img",
    ariaLabel: model.shards.map((shard) => shard.title).join("; ")
  }, ...model.shards.map((shard, i) => {
    const part2 = h("i", {
      title: shard.title
    });
    part2.style.width = `${Math.max(2, shard.share * 76)}px`;
    part2.dataset.shard = String(i % 2);
    return part2;
  }));
  const element = h("tr", {
    data: {
      model: model.key,
      c: model.colour
    }
  }, h("td", {
    title: model.program
  }, h("i", {
    class: "modelmark"
  }, model.number), h("span", {
    class: "modelname",
    title: model.name
  }, model.name), model.stops ? h("span", {
    class: "muted stops"
  }, model.stops) : null), ...model.arguments.map((value) => h("td", {
    class: "n arg"
  }, value)), h("td", {
    class: "n arg",
    title: model.epochs_title
  }, model.epochs), h("td", {
    class: "cut"
  }, shards, h("span", {
    class: "sizes"
  }, model.shards_text)), h("td", {
    class: "n arg",
    title: model.seconds_title
  }, model.seconds), h("td", {
    class: "state"
  }, h("span", {
    class: "done"
  }, bar), state, " ", batches), loss, h("td", {
    class: "act"
  }, stop));
  const paint = painter((now) => {
    element.dataset.state = now?.state ?? "";
    bar.style.width = `${(now?.share ?? 0) * 100}%`;
    state.textContent = now?.state ?? "waiting";
    batches.textContent = now?.batches ?? "";
    loss.textContent = now?.loss ?? "";
    loss.title = now?.loss_title ?? "";
    stop.hidden = !now?.can_stop;
  });
  return {
    element,
    paint
  };
}

// workbench/widgets/static/bokeh.js
var page = (
  /** @type {Record<symbol, Map<string, Promise<BokehModule | null>>>} */
  /** @type {unknown} */
  globalThis
);
var loading = page[Symbol.for("sharding-workbench.bokeh")] ??= /* @__PURE__ */ new Map();
function presentBokeh(version) {
  const bokeh = (
    /** @type {any} */
    globalThis.Bokeh
  );
  return bokeh?.[version] ?? (bokeh?.version === version ? bokeh : null);
}
function loadBokeh(wb, version) {
  const present = presentBokeh(version);
  if (present) return Promise.resolve(present);
  const ask = wb.library;
  if (!ask) return Promise.resolve(null);
  const known = loading.get(version) ?? ask().then(runScript).then(() => presentBokeh(version)).catch(() => null);
  loading.set(version, known);
  return known;
}
function runScript(text) {
  const address = URL.createObjectURL(new Blob([
    text
  ], {
    type: "text/javascript"
  }));
  const script = Object.assign(document.createElement("script"), {
    src: address
  });
  return new Promise((done, failed) => {
    script.onload = () => done();
    script.onerror = () => failed(new Error("The BokehJS script could not be run."));
    document.head.append(script);
  }).then(() => {
    URL.revokeObjectURL(address);
    script.remove();
  });
}

// workbench/widgets/static/chart_look.js
var BRIGHT = (
  /** @type {Record<string, string>} */
  {
    "#3B5A8C": "#8FB0EA",
    "#3B5ED1": "#7391F2"
  }
);
var colourOf = (colour, dark) => (dark ? BRIGHT[colour] : void 0) ?? colour;
function fillSources(wb, doc, state) {
  const dark = isDark(wb);
  for (const [name, columns] of Object.entries(state.sources)) {
    const colours = (
      /** @type {string[] | undefined} */
      columns.color
    );
    modelOf(doc, name).data = dark && colours ? {
      ...columns,
      color: colours.map((colour) => colourOf(colour, true))
    } : columns;
  }
}
var isDark = (wb) => wb.root.dataset.theme === "dark";
var modelOf = (doc, name) => (
  /** @type {BokehModel} */
  doc.get_model_by_name(name)
);
function propertiesOf(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [
    name,
    name === "major_label_overrides" ? new Map(Object.entries(
      /** @type {object} */
      value
    ).map(([at, text]) => [
      Number(at),
      text
    ])) : value
  ]));
}
function dressChart(wb, { doc }) {
  if (!doc) return;
  const style = getComputedStyle(wb.root), colour = (name) => style.getPropertyValue(name).trim();
  const text = colour("--muted"), dark = isDark(wb), hover = doc.get_model_by_name("hover");
  if (hover) hover.tooltips = String(hover.tooltips).replace(/background:[^"]*/, `background:${colour("--bg")};color:${colour("--fg")}`);
  for (const name of [
    "x axis",
    "y axis"
  ]) modelOf(doc, name).setv({
    major_label_text_color: text,
    axis_label_text_color: text
  });
  for (const model of doc._all_models.values()) {
    for (const property of [
      "fill_color",
      "line_color"
    ]) {
      const value = property in model.properties ? (
        /** @type {string | { value?: string } | null} */
        model[property]
      ) : null;
      const colour2 = typeof value === "string" ? value : value?.value;
      const next = typeof colour2 === "string" ? dark ? BRIGHT[colour2] : darkOf(colour2) : void 0;
      if (next) model[property] = next;
    }
  }
}
var darkOf = (colour) => Object.keys(BRIGHT).find((dark) => BRIGHT[dark] === colour);
function paintKey(wb, element, state) {
  the(element, ".key").replaceChildren(...state.key.map(([colour, name, hatched]) => {
    if (!colour) return h("span", {}, name);
    const swatch = h("i", {
      class: hatched ? "swatch hatched" : "swatch"
    });
    swatch.style.backgroundColor = colourOf(colour, isDark(wb));
    return h("span", {}, swatch, name);
  }));
}
function marksOf({ doc, spans }) {
  const slices = spans?.starts.length === 0 ? doc?.get_model_by_name("slices") : null;
  return doc && (slices ?? doc.get_model_by_name("marks") ?? doc.get_model_by_name("blocks"));
}

// workbench/widgets/static/chart_spans.js
var MIN_PX = 2;
var MAX_PX = 3;
var LABEL_PX = 38;
var CHARACTER = 6.65;
var PADDING = 8;
var CLOSE = 3;
function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}
function join(kind, parts) {
  if (parts.length === 1) return parts[0];
  const all2 = new kind(parts.reduce((sum2, { length }) => sum2 + length, 0));
  let at = 0;
  for (const part2 of parts) {
    all2.set(part2, at);
    at += part2.length;
  }
  return all2;
}
function unpackSpans(sent) {
  if (!sent.length) return null;
  const [first] = sent, starts = join(Float64Array, sent.map((part2) => new Float64Array(bytesOf(part2.starts))));
  const numbered = sent.some(({ numbers }) => numbers);
  const lengthOf = (part2) => part2.firsts.at(-1) ?? 0;
  return {
    ...first,
    lanes: sent.flatMap(({ lanes }) => lanes),
    firsts: sent.reduce((all2, { firsts }) => [
      ...all2,
      ...firsts.slice(1).map((i) => i + (all2.at(-1) ?? 0))
    ], [
      0
    ]),
    starts,
    seconds: join(Float32Array, sent.map((part2) => new Float32Array(bytesOf(part2.seconds)))),
    kinds: join(Uint32Array, sent.map((part2) => new Uint32Array(bytesOf(part2.kinds)))),
    numbers: numbered ? join(Int32Array, sent.map((part2) => part2.numbers ? new Int32Array(bytesOf(part2.numbers)) : new Int32Array(lengthOf(part2)).fill(-1))) : null,
    shares: numbered ? join(Float32Array, sent.map((part2) => part2.shares ? new Float32Array(bytesOf(part2.shares)) : new Float32Array(lengthOf(part2)))) : null,
    own: false
  };
}
var unitOf = ({ lanes, own, unit }, lane) => own && lanes[lane].own || unit;
var laneOf = ({ firsts }, span) => firsts.findIndex((first) => first > span) - 1;
function groupOf({ styles, kinds, numbers }, span) {
  const number = numbers?.[span] ?? -1;
  return styles[kinds[span]][5] || (number < 0 ? "" : `${number}`);
}
function textOf({ styles, kinds, numbers }, span, part2) {
  const text = styles[kinds[span]][part2], number = numbers?.[span] ?? -1;
  return number < 0 ? text : text.replaceAll("{number}", `${number}`);
}
function sameSpan(before, at, after) {
  const { name, tier, top } = before.lanes[laneOf(before, at)], text = textOf(before, at, 1);
  const lane = after.lanes.findIndex((candidate) => candidate.name === name && candidate.tier === tier && candidate.top === top);
  for (let span = after.firsts[lane]; span < after.firsts[lane + 1]; span++) {
    if (textOf(after, span, 1) === text) return span;
  }
  return -1;
}
function placeAfter(values, value, low, high) {
  while (low < high) {
    const middle = low + high >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
function visibleBlocks(spans, { from, to, width }) {
  const { lanes, starts, seconds, kinds, styles, firsts } = spans;
  const blocks = {
    left: [],
    right: [],
    lane: [],
    span: [],
    count: [],
    seconds: [],
    weight: []
  };
  for (let lane = 0; lane < lanes.length; lane++) {
    const unit = unitOf(spans, lane), pixel = (to - from) / Math.max(width, 1) * unit, narrow = MIN_PX * pixel, column = MAX_PX * pixel;
    const last = placeAfter(starts, to * unit, firsts[lane], firsts[lane + 1]);
    let i = Math.max(firsts[lane], placeAfter(starts, from * unit, firsts[lane], last) - 1);
    if (i < last && starts[i] + seconds[i] < from * unit) i++;
    let now = -1, left = 0, right = 0, busy = 0, weighed = 0, longest = 0, count = 0;
    const end = () => {
      if (now < 0) return;
      blocks.left.push(left / unit);
      blocks.right.push(Math.max(right, left + pixel) / unit);
      blocks.lane.push(lane);
      blocks.span.push(longest);
      blocks.count.push(count);
      blocks.seconds.push(busy);
      blocks.weight.push(busy ? weighed / busy : lanes[lane].weight);
    };
    for (; i < last; i++) {
      const start = starts[i], length = seconds[i], stop = start + length;
      const joins = now >= 0 && start - right < narrow && Math.min(length, right - left) < narrow && right - left < column && length < column;
      if (!joins) {
        end();
        now = longest = i;
        left = start;
        right = stop;
        busy = weighed = count = 0;
      } else {
        right = Math.max(right, stop);
        if (length > seconds[longest]) longest = i;
      }
      busy += length;
      weighed += length * styles[kinds[i]][3] * lanes[lane].weight;
      count++;
    }
    end();
  }
  return blocks;
}
function visibleNames(spans, blocks, { from, to, width }) {
  const pixels = width / (to - from), names = [];
  for (let i = 0; i < blocks.left.length; i++) {
    if (blocks.count[i] > 1) continue;
    const span = blocks.span[i], share = spans.shares?.[span] ?? 0;
    const begin = blocks.left[i] + share * (blocks.right[i] - blocks.left[i]), left = Math.max(begin, from), right = Math.min(blocks.right[i], to);
    const wide = (right - left) * pixels, label = textOf(spans, span, 0);
    if (spans.numbers) {
      if (label && wide > label.length * CHARACTER + 2 * CLOSE) names.push({
        block: i,
        x: (left + right) / 2,
        text: label
      });
    } else if (wide >= LABEL_PX) {
      const room = Math.floor((wide - PADDING) / CHARACTER);
      names.push({
        block: i,
        x: left,
        text: label.length > room ? `${label.slice(0, room - 1)}\u2026` : label
      });
    }
  }
  return names;
}

// workbench/widgets/static/chart_scale.js
var RESCALE_RATIO = 4;
function ratioOf({ spans }) {
  const lane = spans.flatMap(({ lanes }) => lanes).find(({ own }) => own);
  return lane ? lane.own / spans[0].unit : 0;
}
function scaledState(shown) {
  const { sent } = shown, ratio = ratioOf(sent);
  if (!ratio) shown.own = null;
  if (!ratio || !isOwn(shown)) return sent;
  const [start, end] = sent.ranges.x, axis = sent.properties["x axis"];
  const properties = {
    ...sent.properties,
    "x axis": {
      ...axis,
      axis_label: `${axis?.axis_label}, as predicted`
    }
  };
  const { idle } = sent.sources, sources = idle?.own ? {
    ...sent.sources,
    idle: {
      ...idle,
      right: idle.own
    }
  } : sent.sources;
  return {
    ...sent,
    properties,
    sources,
    across: `${sent.across}, own`,
    ranges: {
      ...sent.ranges,
      x: [
        start,
        ratio > 1 ? end / ratio : end
      ]
    }
  };
}
function isOwn({ own, sent }) {
  const ratio = ratioOf(sent);
  return Boolean(ratio) && (own ?? (sent.rescales && (ratio > RESCALE_RATIO || ratio < 1 / RESCALE_RATIO)));
}
function scaleTool(shown, again) {
  const box = h("input", {
    type: "checkbox",
    data: {
      focus: "own-scale"
    },
    onchange: () => {
      shown.own = box.checked;
      again();
    }
  });
  const title = "Scale the measurement to the length of the prediction, to compare order";
  return h("label", {
    class: "scaling",
    title,
    hidden: true
  }, box, " measured to its own scale");
}
function paintScale(shown) {
  const label = (
    /** @type {HTMLElement} */
    shown.element.querySelector(".scaling")
  ), box = label.querySelector("input");
  label.hidden = !ratioOf(shown.sent);
  if (box) box.checked = isOwn(shown);
}

// workbench/widgets/static/chart_titles.js
var spanIndexes = /* @__PURE__ */ new WeakMap();
function titleOf(spans, blocks, i) {
  const span = blocks.span[i], lane = spans.lanes[blocks.lane[i]], share = spans.shares?.[span] ?? 0;
  const one2 = `${clock(spans.seconds[span])}: ${textOf(spans, span, 1)}`;
  const text = blocks.count[i] === 1 ? one2 : `${blocks.count[i]} in ${clock(blocks.seconds[i])}, the longest ${one2}`;
  const repeated = share ? `, ${clock(spans.seconds[span] * share)} of it ${spans.hatched}` : "";
  return `${lane.name} \xB7 ${text}
${lane.tier && `${lane.tier} `}from ${clock(spans.starts[span])}${repeated}${otherTierText(spans, blocks.lane[i], span)}`;
}
function otherTierText(spans, lane, span) {
  const { lanes, starts, seconds } = spans, { tier, other: of } = lanes[lane];
  const other = of && !isLost(spans, span) ? spanIndex(spans).get(keyOf(spans, of, span)) : void 0;
  if (other === void 0) return "";
  const ratio = tier === "measured" ? seconds[span] / seconds[other] : seconds[other] / seconds[span];
  const times = Number.isFinite(ratio) && [
    tier,
    of
  ].includes("measured") ? `: measured is ${ratio.toFixed(2)}\xD7 of the prediction` : "";
  return `
${of} ${clock(seconds[other])} from ${clock(starts[other])}${times}`;
}
var isLost = ({ shares }, span) => shares?.[span] === 1;
function spanIndex(spans) {
  const known = spanIndexes.get(spans);
  if (known) return known;
  const places = /* @__PURE__ */ new Map();
  for (let lane = 0; lane < spans.lanes.length; lane++) {
    const { tier, other } = spans.lanes[lane];
    for (let span = spans.firsts[lane]; other && span < spans.firsts[lane + 1]; span++) {
      if (!isLost(spans, span)) places.set(keyOf(spans, tier, span), span);
    }
  }
  spanIndexes.set(spans, places);
  return places;
}
var keyOf = ({ kinds, numbers }, tier, span) => `${tier} ${kinds[span]} ${numbers?.[span] ?? -1}`;
function clock(seconds) {
  for (const [unit, scale] of [
    [
      "s",
      1
    ],
    [
      "ms",
      1e3
    ],
    [
      "\xB5s",
      1e6
    ]
  ]) {
    const value = seconds * scale;
    if (value >= 1 || unit === "\xB5s") return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  }
  return "";
}

// workbench/widgets/static/select.js
var subjectPatterns = /* @__PURE__ */ new Map();
function namesPath(subject, path) {
  if (subject === path) return true;
  if (!subject.includes("*")) return false;
  const pattern = subjectPatterns.get(subject) ?? patternOf(subject);
  subjectPatterns.set(subject, pattern);
  return pattern.test(path);
}
function patternOf(subject) {
  const parts = subject.split("*").map((part2) => part2.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("\\d+")}$`);
}
function isChosen(wb, subject) {
  if (!wb.selected || !subject) return false;
  const selected = wb.selected;
  return namesPath(subject, selected) || namesPath(selected, subject) || subject.startsWith(`${selected}/`) || wb.linked.has(subject);
}
function markChosen(wb, selected, relinked = false) {
  const moved = wb.selected !== selected || relinked;
  wb.selected = selected;
  for (const element of all(wb.root, "[data-subject]")) {
    const chosen = isChosen(wb, element.dataset.subject);
    if (chosen === element.classList.contains("chosen")) continue;
    element.classList.toggle("chosen", chosen);
    if (chosen) element.setAttribute("aria-current", "true");
    else element.removeAttribute("aria-current");
  }
  for (const element of all(wb.root, ".image [data-opens]")) {
    element.classList.toggle("holds", Boolean(selected) && selected.startsWith(`${element.dataset.opens}/`));
  }
  if (moved) wb.publish("selected", selected);
  for (const body of all(wb.root, "tbody")) {
    const rows = all(body, ":scope > [data-subject]");
    if (!rows.length || !moved && rows.some((row) => row.tabIndex === 0)) continue;
    const stop = rows.find((row) => row.classList.contains("chosen")) ?? rows[0];
    for (const row of rows) row.tabIndex = row === stop ? 0 : -1;
  }
}
function selectSubject(wb, element) {
  const subject = element.dataset.subject;
  wb.say(isChosen(wb, subject) ? "Nothing selected." : `${subject} selected.`);
  wb.send({
    verb: "select",
    path: isChosen(wb, subject) ? wb.selected : subject
  });
}
function pick(wb, element) {
  if (!wb.publish("picked", element)) selectSubject(wb, element);
}
function walkMarks(wb, image, event) {
  const marks = all(image, "[data-subject], [data-opens]");
  if (!marks.length) return;
  const now = marks.findIndex((mark) => mark.classList.contains("at"));
  const step = {
    ArrowRight: 1,
    ArrowDown: 1,
    ArrowLeft: -1,
    ArrowUp: -1
  }[event.key];
  if (event.key === "Enter" && now >= 0) {
    if (marks[now].dataset.opens) wb.publish("opened", marks[now]);
    else pick(wb, marks[now]);
  } else if (step) {
    const next = marks[(now + step + (now < 0 && step < 0 ? 1 : 0) + marks.length) % marks.length];
    marks[now]?.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({
      block: "nearest",
      inline: "nearest"
    });
    wb.say(next.querySelector("title")?.textContent || next.dataset.subject || next.dataset.opens || "");
  } else return;
  event.preventDefault();
}
function walkRows(wb, row, event) {
  const step = {
    ArrowDown: 1,
    ArrowUp: -1
  }[event.key];
  if (event.key === "Enter") selectSubject(wb, row);
  else if (step) {
    const rows = row.parentElement ? all(row.parentElement, ":scope > [data-subject]") : [];
    const next = rows[rows.indexOf(row) + step];
    if (!next) return;
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  } else return;
  event.preventDefault();
}
function walkRow(wb, event) {
  const at = targetOf(event), row = around(at, "tbody > tr");
  if (!row || wb.held) return false;
  const buttons = (tr) => all(tr, ".fold, .grip, .own, .ask");
  const mine = buttons(row), now = mine.indexOf(at);
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const next2 = now + (event.key === "ArrowRight" ? 1 : -1);
    if (next2 === -1 && now === 0 && row.dataset.subject) row.focus();
    else mine[next2]?.focus();
    return next2 >= -1 && mine.length > 0;
  }
  const next = (
    /** @type {HTMLElement | null | undefined} */
    {
      ArrowDown: row.nextElementSibling,
      ArrowUp: row.previousElementSibling
    }[event.key]
  );
  if (!next || now < 0) return false;
  const targets = buttons(next);
  (targets[Math.min(now, targets.length - 1)] ?? next).focus();
  return true;
}
function makeSelectable(wb) {
  wb.root.addEventListener("click", (event) => {
    const at = targetOf(event);
    if (at.closest("button, input, select, a, summary, label, [data-no-select]")) return;
    const subject = around(at, "[data-subject]");
    if (subject && String(getSelection?.() ?? "") === "") pick(wb, subject);
  });
  wb.root.addEventListener("keydown", (event) => {
    const at = targetOf(event);
    if (at.closest("tbody") && walkRow(wb, event)) event.preventDefault();
    else if (at.matches("[data-subject]")) walkRows(wb, at, event);
    else if (at.matches(".image")) walkMarks(wb, at, event);
  });
}
function markColleagues(wb, colleagues) {
  if (!colleagues.length && !wb.root.querySelector(".theirs")) return;
  for (const element of all(wb.root, "[data-subject], .chip[data-chip]")) {
    const theirs = colleagues.find((colleague) => isTheirs(colleague, element));
    if (element.dataset.theirs === (theirs?.name ?? void 0)) continue;
    element.classList.toggle("theirs", Boolean(theirs));
    if (theirs) {
      element.dataset.theirs = theirs.name;
      element.style.setProperty("--theirs", theirs.colour);
      element.style.setProperty("--their-name", JSON.stringify(theirs.name));
    } else {
      delete element.dataset.theirs;
      element.style.removeProperty("--theirs");
      element.style.removeProperty("--their-name");
    }
  }
}
function isTheirs({ selected, hand, moved }, element) {
  const { subject, chip } = element.dataset;
  if (chip) return [
    hand,
    moved
  ].some((dim) => dim !== "" && chip.startsWith(`${dim}@`));
  return Boolean(subject && selected) && (namesPath(subject ?? "", selected) || namesPath(selected, subject ?? ""));
}

// workbench/widgets/static/chart_timeline.js
var MARGIN = 0.2;
var GAP_PX = 4;
var SCALE_TOLERANCE = 1.6;
var SETTLE_MS = 120;
var LABELS_MS = 60;
function fillSpans(wb, shown) {
  const before = shown.spans, spans = shown.spans = unpackSpans(shown.state.spans);
  shown.drawn = shown.blocks = null;
  if (!spans) return;
  spans.own = isOwn(shown);
  shown.at = before && shown.at >= 0 ? sameSpan(before, shown.at, spans) : -1;
  if (shown.group && !spans.starts.some((_, span) => groupOf(spans, span) === shown.group)) shown.group = "";
  if (shown.doc) drawSpansNow(wb, shown);
}
function drawSpansNow(wb, shown) {
  drawBlocks(wb, shown, true);
  drawNames(wb, shown);
}
function drawSpansSoon(wb, shown) {
  if (!shown.spans) return;
  const { doc } = shown, hover = doc?.get_model_by_name("hover");
  shown.frame ||= requestAnimationFrame((now) => {
    shown.frame = 0;
    if (!shown.doc) return;
    if (!isDrawn(shown)) drawBlocks(wb, shown, false);
    if (now - (shown.named ?? 0) < LABELS_MS) return;
    shown.named = now;
    drawNames(wb, shown);
  });
  if (hover?.active) hover.active = false;
  clearTimeout(shown.timer);
  shown.timer = setTimeout(() => {
    if (!shown.doc) return;
    drawSpansNow(wb, shown);
    if (hover) hover.active = !shown.keyed;
  }, SETTLE_MS);
}
function isDrawn(shown) {
  const drawn = shown.drawn, seen = visibleRange(shown);
  if (!drawn || seen.from < drawn.from || seen.to > drawn.to) return false;
  const finer = (seen.to - seen.from) / seen.width * drawn.width / (drawn.to - drawn.from);
  return finer > 1 / SCALE_TOLERANCE && finer < SCALE_TOLERANCE;
}
function visibleRange({ doc, view, element }) {
  const range = (
    /** @type {BokehModel} */
    doc?.get_model_by_name("x")
  );
  return {
    from: range.start,
    to: range.end,
    width: view?.model.inner_width || element.clientWidth || 800
  };
}
function drawBlocks(wb, shown, named) {
  const { doc, spans } = shown;
  if (!doc || !spans) return;
  const { from, to, width } = visibleRange(shown), more = MARGIN * (to - from);
  shown.drawn = {
    from: from - more,
    to: to + more,
    width: width * (1 + 2 * MARGIN)
  };
  const blocks = shown.blocks = visibleBlocks(spans, shown.drawn);
  const source = (
    /** @type {BokehModel} */
    doc.get_model_by_name("blocks")
  );
  shown.marking = true;
  source.data = columnsOf(spans, blocks, shown.drawn, named, isDark(wb));
  source.selected.indices = selectedBlocks(wb, shown);
  const at = shown.at < 0 ? -1 : blockOf(spans, blocks, shown.at);
  if (at >= 0) source.inspected.indices = [
    at
  ];
  shown.marking = false;
}
function selectedBlocks(wb, { spans, blocks, group }) {
  if (!spans || !blocks) return [];
  if (group) return blocks.span.flatMap((span, i) => isDimmed({
    spans,
    group
  }, span) ? [] : [
    i
  ]);
  const chosen = chosenStyles(wb, spans);
  return chosen.size ? blocks.span.flatMap((span, i) => chosen.has(spans.kinds[span]) ? [
    i
  ] : []) : [];
}
var isDimmed = ({ spans, group }, span) => group !== "" && spans !== null && groupOf(spans, span) !== group;
function dimOthers(wb, shown, block) {
  const { spans, blocks, doc } = shown;
  const group = spans && blocks && block >= 0 && block < blocks.span.length ? groupOf(spans, blocks.span[block]) : "";
  if (group === shown.group || !doc) return;
  shown.group = group;
  shown.marking = true;
  doc.get_model_by_name("blocks").selected.indices = selectedBlocks(wb, shown);
  shown.marking = false;
  drawNames(wb, shown);
}
function blockOf(spans, blocks, span) {
  const lane = laneOf(spans, span), x = spans.starts[span] / unitOf(spans, lane);
  let best = -1;
  for (let i = 0; i < blocks.lane.length; i++) {
    if (blocks.lane[i] === lane && (best < 0 || blocks.left[i] <= x + 1e-9 * Math.abs(x))) best = i;
  }
  return best;
}
function drawNames(wb, shown) {
  const { doc, spans, blocks } = shown;
  if (doc && spans && blocks) {
    const names = visibleNames(spans, blocks, visibleRange(shown)).filter(({ block }) => !isDimmed(shown, blocks.span[block]));
    doc.get_model_by_name("names").data = namesOf(spans, blocks, names, isDark(wb));
  }
}
function chosenStyles(wb, spans) {
  const chosen = /* @__PURE__ */ new Set();
  if (wb.selected) spans.styles.forEach(([, , subject], place) => isChosen(wb, subject) && chosen.add(place));
  return chosen;
}
function columnsOf(spans, blocks, drawn, named, dark) {
  const { lanes, styles, kinds, shares } = spans, pixel = spans.numbers ? (drawn.to - drawn.from) / drawn.width : 0;
  return {
    left: Float64Array.from(blocks.left),
    right: Float64Array.from(blocks.right, (right, i) => right - (right - blocks.left[i] > GAP_PX * pixel ? pixel : 0)),
    shared: Float64Array.from(blocks.left, (left, i) => left + (shares?.[blocks.span[i]] ?? 0) * (blocks.right[i] - left)),
    bottom: Float64Array.from(blocks.lane, (lane) => lanes[lane].bottom),
    top: Float64Array.from(blocks.lane, (lane) => lanes[lane].top),
    color: blocks.span.map((_, i) => blockColour(spans, blocks, i, dark)),
    alpha: Float32Array.from(blocks.weight),
    title: named ? blocks.span.map((_, i) => titleOf(spans, blocks, i)) : new Array(blocks.span.length).fill(""),
    subject: blocks.span.map((span) => styles[kinds[span]][2])
  };
}
var blockColour = ({ lanes, styles, kinds }, blocks, i, dark) => colourOf(styles[kinds[blocks.span[i]]][4] || lanes[blocks.lane[i]].colour, dark);
function namesOf(spans, blocks, names, dark) {
  return {
    x: names.map(({ x }) => x),
    y: names.map(({ block }) => (spans.lanes[blocks.lane[block]].bottom + spans.lanes[blocks.lane[block]].top) / 2),
    text: names.map(({ text }) => text),
    color: names.map(({ block }) => inkOn(blockColour(spans, blocks, block, dark), blocks.weight[block], dark))
  };
}
function inkOn(colour, weight, dark) {
  const ground = dark ? 0.06 : 1;
  const mixed = [
    1,
    3,
    5
  ].map((at) => weight * Number.parseInt(colour.slice(at, at + 2), 16) / 255 + (1 - weight) * ground);
  const [red, green, blue] = mixed.map((channel) => channel ** 2.2);
  return 0.21 * red + 0.72 * green + 0.07 * blue > 0.2 ? "#1B1F24" : "#FFFFFF";
}

// workbench/widgets/static/chart_keys.js
function walk(wb, shown, by, down = 0) {
  const marks = marksOf(shown);
  if (!marks?.data.title?.length) return;
  disableHover(shown);
  const at = shown.spans?.starts.length ? walkSpans(wb, shown, by, down) : walkMarks2(shown, marks.data.title.length, by || down);
  const title = shown.spans?.starts.length && shown.blocks ? titleOf(shown.spans, shown.blocks, at) : marks.data.title[at];
  const text = `${title}`.replaceAll("\n", " \xB7 ");
  const line = shown.element.querySelector(".tasktold");
  if (line) line.textContent = text;
  marks.inspected.indices = [
    at
  ];
  dimOthers(wb, shown, at);
  marks.change.emit();
  wb.say(text);
}
function disableHover(shown) {
  const hover = shown.doc?.get_model_by_name("hover");
  shown.keyed = true;
  if (hover) hover.active = false;
}
function leaveKeys(wb, shown) {
  if (!shown.keyed) return;
  const hover = shown.doc?.get_model_by_name("hover");
  shown.keyed = false;
  if (hover) hover.active = true;
  leaveMarks(wb, shown);
}
function leaveMarks(wb, shown) {
  const marks = marksOf(shown), line = shown.element.querySelector(".tasktold");
  shown.at = -1;
  if (line) line.textContent = "";
  dimOthers(wb, shown, -1);
  if (!marks) return;
  marks.inspected.indices = [];
  marks.change.emit();
}
var markAt = ({ at, spans, blocks }) => spans?.starts.length && blocks && at >= 0 ? blockOf(spans, blocks, at) : at;
function walkMarks2(shown, count, by) {
  shown.at = shown.at < 0 ? by > 0 ? 0 : count - 1 : (shown.at + by + count) % count;
  return shown.at;
}
function walkSpans(wb, shown, by, down) {
  const spans = (
    /** @type {Spans} */
    shown.spans
  ), next = nextSpan(
    spans,
    /** @type {Blocks} */
    shown.blocks,
    shown.at,
    by,
    down
  );
  if (follow(shown, spans, next)) drawSpansNow(wb, shown);
  const block = Math.max(blockOf(
    spans,
    /** @type {Blocks} */
    shown.blocks,
    next
  ), 0);
  shown.at = /** @type {Blocks} */
  shown.blocks.span[block];
  return block;
}
function nextSpan(spans, blocks, at, by, down) {
  if (at < 0 || !spans.starts.length) return blocks.span[0] ?? 0;
  const lane = laneOf(spans, at);
  if (down) return nearestSpan(spans, spans.starts[at] / unitOf(spans, lane), nextLane(spans, lane, down));
  const block = blockOf(spans, blocks, at), beside = block + by;
  if (block < 0) return at;
  if (blocks.lane[beside] === lane) return blocks.span[beside];
  const unit = unitOf(spans, lane), first = spans.firsts[lane], last = spans.firsts[lane + 1];
  const edge = (by > 0 ? blocks.right[block] : blocks.left[block]) * unit;
  const neighbour = by > 0 ? Math.max(placeAfter(spans.starts, edge * (1 - 1e-9), first, last), at + 1) : Math.min(placeAfter(spans.starts, edge, first, last), at) - 1;
  return Math.min(Math.max(neighbour, first), last - 1);
}
function nextLane({ firsts, lanes }, lane, down) {
  let next = lane;
  do
    next = (next + down + lanes.length) % lanes.length;
  while (firsts[next] === firsts[next + 1]);
  return next;
}
function nearestSpan(spans, x, lane) {
  const time = x * unitOf(spans, lane), { starts, firsts } = spans, after = placeAfter(starts, time, firsts[lane], firsts[lane + 1]);
  const before = Math.max(after - 1, firsts[lane]);
  return after < firsts[lane + 1] && starts[after] - time < time - starts[before] ? after : before;
}
function follow({ doc, state }, spans, span) {
  const range = (
    /** @type {BokehModel} */
    doc?.get_model_by_name("x")
  ), unit = unitOf(spans, laneOf(spans, span));
  const start = spans.starts[span] / unit, end = start + spans.seconds[span] / unit, wide = range.end - range.start;
  if (start >= range.start && (end <= range.end + 1e-6 * wide || start < range.start + wide / 2)) return false;
  const [low, high] = state.ranges.x, from = Math.min(Math.max((start + end - wide) / 2, low), high - wide);
  range.setv({
    start: from,
    end: from + wide
  });
  return true;
}
var ZOOM_IN = 0.625;
var ZOOM_OUT = 1.6;
var PAN = 0.2;
function movedRange(range, bounds, { factor = 1, by = 0, log = false }) {
  const to = log ? Math.log : (value) => value, from = log ? Math.exp : (value) => value;
  const [start, end] = range.map(to), [low, high] = bounds.map(to), width = Math.min((end - start) * factor, high - low);
  const begin = Math.min(Math.max((start + end) / 2 - width / 2 + by * width, low), high - width);
  return [
    from(begin),
    from(begin + width)
  ];
}
function zoomBy(shown, how) {
  const { doc, state, view } = shown;
  if (!doc || !view) return;
  const both = view.model.toolbar.tools.some((tool) => tool.name === "pan" && tool.dimensions === "both");
  for (const name of both && how.factor ? [
    "x",
    "y"
  ] : [
    "x"
  ]) {
    const range = (
      /** @type {BokehModel} */
      doc.get_model_by_name(name)
    );
    const log = /log/i.test(view.model[`${name}_scale`]?.type ?? "");
    const [start, end] = movedRange([
      range.start,
      range.end
    ], state.ranges[name], {
      ...how,
      log
    });
    range.setv({
      start,
      end
    });
  }
}
function showAll({ doc, state }) {
  for (const name of [
    "x",
    "y"
  ]) {
    const [start, end] = state.ranges[name];
    doc?.get_model_by_name(name)?.setv({
      start,
      end
    });
  }
}
function zoomTools(wb, shown) {
  const zoom = (sign, name, act) => h("button", {
    class: "btn icon",
    type: "button",
    ariaLabel: name,
    title: name,
    data: {
      focus: `chart${sign}`
    },
    onclick: act
  }, sign);
  const zoomIn = () => zoomBy(shown, {
    factor: ZOOM_IN
  }), zoomOut = () => zoomBy(shown, {
    factor: ZOOM_OUT
  });
  const acts = {
    "+": zoomIn,
    "=": zoomIn,
    w: zoomIn,
    "-": zoomOut,
    s: zoomOut,
    0: () => showAll(shown),
    a: () => zoomBy(shown, {
      by: -PAN
    }),
    d: () => zoomBy(shown, {
      by: PAN
    }),
    ArrowRight: () => walk(wb, shown, 1),
    ArrowDown: () => walk(wb, shown, 0, 1),
    ArrowLeft: () => walk(wb, shown, -1),
    ArrowUp: () => walk(wb, shown, 0, -1),
    Escape: () => leaveMarks(wb, shown),
    Enter: () => shown.act(markAt(shown))
  };
  shown.element.addEventListener("keydown", (event) => {
    const act = acts[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof Element && event.target.matches(".plot"))) {
      return;
    }
    event.preventDefault();
    act();
  });
  shown.element.addEventListener("pointerdown", (event) => {
    shown.doc?.get_model_by_name("box")?.setv({
      active: event.shiftKey
    });
    shown.doc?.get_model_by_name("pan")?.setv({
      active: !event.shiftKey
    });
  }, true);
  return h("span", {
    class: "zooms"
  }, zoom("\u2212", "Zoom out", zoomOut), zoom("+", "Zoom in", zoomIn), zoom("\u2194", "Reset zoom", () => showAll(shown)));
}

// workbench/widgets/static/chart.js
var CHART_HINT = "Plus and minus zoom, A and D pan, 0 shows all; arrow keys move between marks, Enter selects one, Escape exits.";
var chartIn = /* @__PURE__ */ new WeakMap();
function paintCharts(wb, image, picture, act, again) {
  const charts = picture.charts ?? [];
  if (!charts.length) return false;
  const bokeh = presentBokeh(charts[0].version);
  if (!bokeh) {
    loadBokeh(wb, charts[0].version).then((module) => again(module !== null));
    return false;
  }
  const before = [
    ...image.children
  ];
  const same = before.length === charts.length && before.every((element, i) => chartIn.get(element)?.state.id === charts[i].id);
  if (!same) {
    removeCharts(image);
    image.replaceChildren(...charts.map((state) => createChart(wb, bokeh, state, act)));
  }
  charts.forEach((state, i) => {
    const shown = (
      /** @type {ShownChart} */
      chartIn.get(image.children[i])
    );
    the(shown.element, ".plot").ariaLabel = `${(picture.about ?? picture.name).replace(/\.$/, "")}. ${CHART_HINT}`;
    paintKey(wb, shown.element, state);
    fillChart(wb, shown, state);
  });
  return true;
}
function removeCharts(image) {
  for (const element of all(image, ".chart")) {
    const shown = chartIn.get(element);
    if (!shown) continue;
    chartIn.delete(element);
    shown.view?.remove();
    const place = shown.doc ? shown.bokeh.documents.indexOf(shown.doc) : -1;
    if (place >= 0) shown.bokeh.documents.splice(place, 1);
    shown.doc = null;
  }
}
function createChart(wb, bokeh, state, act) {
  const plot = h("div", {
    class: "plot",
    tabIndex: 0,
    role: "application",
    data: {
      focus: `chart ${state.across}`
    }
  });
  const status = h("div", {
    class: "tasktold",
    role: "status"
  });
  const element = h("div", {
    class: "chart"
  }, h("div", {
    class: "charttools"
  }, h("div", {
    class: "key"
  })), plot, status);
  const shown = {
    element,
    sent: state,
    state,
    own: null,
    bokeh,
    view: null,
    doc: null,
    spans: null,
    drawn: null,
    blocks: null,
    at: -1,
    group: "",
    keyed: false,
    marking: false,
    room: 0,
    height: 0,
    frame: 0,
    timer: 0,
    act: () => {
    }
  };
  shown.act = (index) => {
    const columns = marksOf(shown)?.data;
    if (columns && index >= 0) act(`${columns.subject?.[index] ?? ""}`, `${columns.opens?.[index] ?? ""}`);
  };
  the(element, ".charttools").append(scaleTool(shown, () => fillChart(wb, shown, shown.sent)), zoomTools(wb, shown));
  chartIn.set(element, shown);
  embed(wb, shown, plot);
  return element;
}
async function embed(wb, shown, plot) {
  const { roots } = await shown.bokeh.embed.embed_item(shown.state.item, plot);
  const [view] = roots;
  const doc = view.model.document;
  if (!chartIn.has(shown.element)) {
    view.remove();
    return;
  }
  Object.assign(shown, {
    view,
    doc,
    height: view.model.height
  });
  const marks = (
    /** @type {BokehModel} */
    marksOf(shown)
  );
  marks.selected.change.connect(() => onTap(wb, shown, marks.selected.indices));
  marks.inspect?.connect(() => {
    if (!shown.keyed) dimOthers(wb, shown, marks.inspected.indices[0] ?? -1);
  });
  plot.addEventListener("pointermove", (event) => {
    if (event.movementX || event.movementY) leaveKeys(wb, shown);
  });
  plot.addEventListener("pointerup", () => {
    clearMarks(shown);
    setTimeout(() => shown.doc && markChart(wb, shown));
  }, true);
  doc.get_model_by_name("x").change.connect(() => drawSpansSoon(wb, shown));
  new ResizeObserver(() => drawSpansSoon(wb, shown)).observe(plot);
  fillChart(wb, shown, shown.sent, true);
  shown.element.dataset.drawn = "true";
}
function clearMarks(shown) {
  const marks = marksOf(shown);
  shown.marking = true;
  if (marks?.selected.indices.length) marks.selected.indices = [];
  shown.marking = false;
}
function onTap(wb, shown, indices) {
  if (shown.marking) return;
  markChart(wb, shown);
  if (indices.length) shown.act(indices[0]);
}
function fillChart(wb, shown, sent, first = false) {
  const before = shown.state, zoomed = (
    /** @type {const} */
    [
      "x",
      "y"
    ].filter((name) => !first && isZoomed(shown, name))
  );
  shown.sent = sent;
  const state = shown.state = scaledState(shown), { doc } = shown;
  paintScale(shown);
  if (!doc) return;
  shown.marking = true;
  fillSources(wb, doc, state);
  for (const [name, values] of Object.entries(state.properties)) modelOf(doc, name).setv(propertiesOf(values));
  for (const name of [
    "x",
    "y"
  ]) {
    const [start, end] = state.ranges[name], range = modelOf(doc, name), bounds = [
      Math.min(start, end),
      Math.max(start, end)
    ];
    const low = Math.min(range.start, range.end), high = Math.max(range.start, range.end);
    const kept = zoomed.includes(name) && before.across === state.across && low >= bounds[0] && high <= bounds[1];
    range.setv({
      bounds
    });
    if (!kept) range.setv({
      start,
      end
    });
  }
  shown.marking = false;
  if (typeof state.properties.figure?.height === "number") shown.height = state.properties.figure.height;
  setHeight(shown);
  dressChart(wb, shown);
  fillSpans(wb, shown);
  markChart(wb, shown);
}
function isZoomed({ doc, state }, name) {
  const range = doc && modelOf(doc, name);
  return Boolean(range) && (range?.start !== state.ranges[name][0] || range.end !== state.ranges[name][1]);
}
function markChart(wb, shown) {
  if (shown.spans) return drawSpansSoon(wb, shown);
  const marks = marksOf(shown);
  if (!marks) return;
  const subjects = (
    /** @type {string[]} */
    marks.data.subject ?? []
  );
  const indices = wb.selected ? subjects.flatMap((subject, i) => isChosen(wb, subject) ? [
    i
  ] : []) : [];
  shown.marking = true;
  if (`${marks.selected.indices}` !== `${indices}`) marks.selected.indices = indices;
  shown.marking = false;
}
function markCharts(wb) {
  for (const element of all(wb.root, ".chart")) {
    const shown = chartIn.get(element);
    if (shown?.doc) markChart(wb, shown);
  }
}
function dressCharts(wb) {
  for (const element of all(wb.root, ".chart")) {
    const shown = chartIn.get(element);
    if (!shown?.doc) continue;
    dressChart(wb, shown);
    shown.marking = true;
    fillSources(wb, shown.doc, shown.state);
    shown.marking = false;
    paintKey(wb, element, shown.state);
    markChart(wb, shown);
  }
}
function fitCharts(frame, room) {
  const elements = all(frame, ".chart");
  for (const element of elements) {
    const shown = chartIn.get(element);
    if (!shown) continue;
    shown.room = room && Math.max(room / elements.length - 34, 160);
    setHeight(shown);
  }
}
function setHeight({ view, room, height }) {
  if (view) view.model.height = room || height;
}

// workbench/widgets/static/browser_storage.js
var STORAGE_KEY = "workbench.cut";
var MAX_AGE_MS = 36e5;
function keepThroughCut(kept) {
  const board = document.documentElement.dataset.board;
  if (!board) return;
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify({
      ...kept,
      board,
      at: Date.now()
    }));
  } catch {
  }
}
function keptThroughCut() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
    if (!kept || kept.board !== document.documentElement.dataset.asked) return null;
    sessionStorage.removeItem(STORAGE_KEY);
    return Date.now() - kept.at < MAX_AGE_MS ? kept : null;
  } catch {
    return null;
  }
}
function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
  }
}
function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

// workbench/widgets/static/theme.js
var THEMES = [
  "auto",
  "light",
  "dark"
];
var STORAGE_KEY2 = "workbench.theme";
function hostTheme() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== void 0) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind !== void 0) return vscodeThemeKind.endsWith("light") ? "light" : "dark";
  return document.documentElement.getAttribute("theme") ?? void 0;
}
var HOST_ATTRIBUTES = [
  "data-jp-theme-light",
  "data-vscode-theme-kind",
  "theme"
];
var ownPage = () => "theme" in document.documentElement.dataset;
function themeOf(chosen, dark) {
  const stated = [
    chosen,
    hostTheme()
  ].find((theme) => theme === "light" || theme === "dark");
  return stated === "light" || stated === "dark" ? stated : dark.matches ? "dark" : "light";
}
function themeButton(wb) {
  return h("button", {
    class: "btn icon theme",
    type: "button",
    title: `Theme: ${wb.theme}`,
    ariaLabel: `Theme: ${wb.theme}. Change it.`,
    data: {
      focus: "theme"
    },
    onclick: () => wb.turnTheme()
  }, {
    auto: "\u25D0",
    light: "\u2600",
    dark: "\u263E"
  }[wb.theme]);
}
function makeTheme(wb, model, signal) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = ownPage() && model.get("theme") === "auto" ? remembered(STORAGE_KEY2) : null;
  let own = kept !== null && THEMES.includes(kept) ? kept : null;
  const applyTheme = () => {
    wb.theme = own ?? (THEMES.includes(model.get("theme")) ? model.get("theme") : "auto");
    const theme = themeOf(wb.theme, dark);
    wb.root.dataset.theme = theme;
    if (ownPage() && window.parent === window) document.documentElement.dataset.theme = theme;
    dressCharts(wb);
    const button = one(wb.root, "[data-focus=theme]");
    if (button) {
      const fresh = themeButton(wb);
      Object.assign(button, {
        title: fresh.title,
        ariaLabel: fresh.ariaLabel,
        textContent: fresh.textContent
      });
    }
  };
  wb.turnTheme = () => {
    own = null;
    const next = THEMES[(THEMES.indexOf(wb.theme) + 1) % THEMES.length];
    if (ownPage()) remember(STORAGE_KEY2, next);
    model.set("theme", next);
    model.save_changes();
    applyTheme();
    wb.say(`Theme: ${next}.`);
  };
  dark.addEventListener("change", applyTheme, {
    signal
  });
  const host = new MutationObserver(applyTheme);
  for (const node of [
    document.documentElement,
    document.body
  ]) host.observe(node, {
    attributes: true,
    attributeFilter: HOST_ATTRIBUTES
  });
  signal.addEventListener("abort", () => host.disconnect());
  return applyTheme;
}

// workbench/widgets/static/tour.js
var STORAGE_KEY3 = "workbench.toured";
var TOUR = [
  {
    at: ".figures",
    title: "Cost per device",
    text: "Memory, bytes sent and FLOP of one device per step of this GPT. JAX's own partitioner recomputes them after every change."
  },
  {
    at: ".board",
    title: "Drag `d_ff` onto `model`",
    text: "A chip is a named dimension; a column is an axis of the device mesh. Drag a chip onto an axis (or press Space, arrows, Space) and watch the figures change. Invalid targets show the reason.",
    awaits: true
  },
  {
    at: ".tabs",
    title: "Ask for the cause of a number",
    text: "These tabs list every tensor and collective with its source line. Point at a number and press Why? for its breakdown. Undo restores any plan."
  },
  {
    at: ".jobs",
    title: "Check the prediction",
    text: "Compile runs XLA for the chosen hardware, attached or not. Run measures the plan on attached devices. Both are compared with the prediction."
  }
];
function startTour(wb, step = 0) {
  endTour(wb, false);
  const current = TOUR[step], target = wb.root.querySelector(current.at);
  if (!target) return;
  const go = (to) => {
    if (to < TOUR.length) startTour(wb, to);
    else endTour(wb);
  };
  const title = h("h3", {
    tabIndex: -1
  }, ...withCode(current.title));
  const element = h("div", {
    class: "tour",
    role: "dialog",
    ariaLabel: `Tour, step ${step + 1} of ${TOUR.length}`,
    data: {
      step: step + 1
    }
  }, h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "End the tour",
    onclick: () => endTour(wb)
  }, "\xD7"), title, h("p", {}, ...withCode(current.text)), h("div", {
    class: "turns"
  }, h("span", {
    class: "muted"
  }, `${step + 1} of ${TOUR.length}`), step > 0 ? h("button", {
    class: "btn",
    type: "button",
    onclick: () => go(step - 1)
  }, "Back") : null, h("button", {
    class: "btn primary",
    type: "button",
    onclick: () => go(step + 1)
  }, step + 1 < TOUR.length ? "Next" : "Done")));
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      endTour(wb);
    }
  });
  target.classList.add("toured");
  wb.card.append(element);
  wb.tour = {
    element,
    target,
    step,
    layout: wb.layout
  };
  placeTour(wb);
  element.scrollIntoView?.({
    block: "nearest"
  });
  title.focus({
    preventScroll: true
  });
}
function placeTour(wb) {
  if (!wb.tour) return;
  const { element, target } = wb.tour;
  const card = wb.card.getBoundingClientRect(), at = target.getBoundingClientRect();
  const left = Math.min(Math.max(at.left - card.left + 16, 8), card.width - element.offsetWidth - 8);
  const under = at.bottom - card.top + 8;
  element.style.left = `${Math.max(8, left)}px`;
  element.style.top = `${Math.max(8, Math.min(under, card.height - element.offsetHeight - 8))}px`;
}
function endTour(wb, finished = true) {
  if (!wb.tour) return;
  wb.tour.target.classList.remove("toured");
  const held = wb.tour.element.contains(focusedBy(wb.root));
  wb.tour.element.remove();
  wb.tour = null;
  if (!finished) return;
  remember(STORAGE_KEY3, "yes");
  if (held) (one(wb.root, "[data-focus=help]") ?? wb.root).focus({
    preventScroll: true
  });
}
function followTour(wb, layout) {
  wb.layout = layout;
  if (!wb.tour) return;
  const { step, layout: before } = wb.tour;
  if (TOUR[step].awaits && before !== void 0 && layout !== before) {
    const focused = (
      /** @type {HTMLElement | null} */
      focusedBy(wb.root)
    );
    startTour(wb, step + 1);
    if (focused && wb.root.contains(focused) && focused.isConnected) focused.focus({
      preventScroll: true
    });
  } else placeTour(wb);
}
function firstTour(wb, model) {
  if (!model.get("tour") || remembered(STORAGE_KEY3)) return;
  const begin = () => {
    if (!wb.tour && !wb.held && wb.root.dataset.starting !== "true") startTour(wb);
  };
  setTimeout(begin, 400);
}

// workbench/widgets/static/help.js
function placeAside(wb, panel) {
  const card = wb.card.getBoundingClientRect();
  panel.style.top = `${Math.max(8, Math.min(8 - card.top, card.height - panel.offsetHeight - 8))}px`;
}
function drawGroups() {
  const words = GLOSSARY.groups.map((group) => h("section", {
    class: "group"
  }, h("h3", {}, group.title), h("dl", {}, ...group.terms.map((term) => h("div", {
    class: "entry"
  }, h("dt", {}, term.name), h("dd", {}, ...explained(term)))))));
  const keys = GLOSSARY.keys.map((key) => h("div", {
    class: "entry"
  }, h("dt", {}, h("kbd", {}, key.press)), h("dd", {}, key.does)));
  return [
    ...words,
    h("section", {
      class: "group"
    }, h("h3", {}, "Keys"), h("dl", {
      class: "keys"
    }, ...keys))
  ];
}
function helpSection(wb, { tour: toured = true } = {}) {
  const title = h("h2", {
    tabIndex: -1
  }, "Help");
  const search = h("input", {
    class: "field",
    type: "search",
    placeholder: "Search terms",
    ariaLabel: "Search terms and keys",
    oninput: () => filter()
  });
  const none = h("p", {
    class: "muted none",
    hidden: true,
    role: "status"
  });
  const body = h("div", {
    class: "body",
    tabIndex: 0,
    role: "group",
    ariaLabel: "Terms and keys"
  }, none);
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const entries = all(body, ".entry");
    for (const entry of entries) entry.hidden = !words.every((word) => entry.textContent.toLowerCase().includes(word));
    for (const group of all(body, ".group")) {
      group.hidden = all(group, ".entry").every((entry) => entry.hidden);
    }
    none.hidden = entries.some((entry) => !entry.hidden);
    none.textContent = none.hidden ? "" : `No entry for \u201C${search.value}\u201D. Try a label of the board.`;
  };
  const tour = h("button", {
    class: "btn",
    type: "button",
    onclick: () => {
      hide(false);
      startTour(wb);
    }
  }, "Take the tour");
  const hide = (refocus = true) => {
    if (section.hidden) return;
    section.hidden = true;
    wb.root.querySelector("[data-focus=help]")?.setAttribute("aria-expanded", "false");
    if (refocus) (one(wb.root, "[data-focus=help]") ?? wb.root).focus({
      preventScroll: true
    });
  };
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close help",
    onclick: () => hide()
  }, "\xD7");
  const section = h("aside", {
    class: "helppanel",
    role: "dialog",
    ariaLabel: "Help",
    hidden: true
  }, h("header", {}, title, toured ? tour : null, close), h("div", {
    class: "sift"
  }, search), body);
  section.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      hide();
    }
  });
  wb.toggleHelp = () => {
    if (!section.hidden) {
      hide();
      return;
    }
    closeMenu(wb, false);
    if (!one(body, ".group")) body.append(...drawGroups());
    section.hidden = false;
    wb.root.querySelector("[data-focus=help]")?.setAttribute("aria-expanded", "true");
    placeAside(wb, section);
    title.focus({
      preventScroll: true
    });
  };
  return section;
}
function helpTools(wb) {
  return [
    themeButton(wb),
    h("button", {
      class: "btn icon",
      type: "button",
      title: "Help (?)",
      ariaLabel: "Help",
      ariaExpanded: "false",
      data: {
        focus: "help"
      },
      onclick: () => wb.toggleHelp()
    }, "?")
  ];
}

// workbench/widgets/static/outbox.js
function outbox(model, root) {
  const kept = keptThroughCut();
  const view = kept?.view ?? Math.random().toString(36).slice(2);
  const queue = kept?.gestures ?? [];
  let seq = kept?.seq ?? 0, timer = 0, asking = 0;
  let opened = {
    tab: kept?.tab,
    seq: 0
  };
  let waiting = null;
  let expected = null;
  const next = () => {
    root.dataset.busy = String(Boolean(waiting || queue.length));
    if (waiting) return;
    if (!queue.length) {
      if (expected) tell(expected);
      expected = null;
      return;
    }
    waiting = queue.shift() ?? null;
    if (!waiting) return;
    const sent = waiting;
    timer = setTimeout(() => {
      root.dataset.silent = "true";
    }, 1e4);
    tell(sent);
    asking = setInterval(() => tell({
      ...sent,
      again: true
    }), 5e3);
  };
  const tell = (gesture) => {
    model.set("gesture", gesture);
    model.save_changes();
  };
  const onCut = () => {
    clearTimeout(timer);
    clearInterval(asking);
    const gestures = [
      ...waiting ? [
        {
          ...waiting,
          again: true
        }
      ] : [],
      ...queue
    ];
    const { seq: shown, tab } = model.get("table");
    keepThroughCut({
      view,
      seq,
      tab: shown < opened.seq ? opened.tab : tab,
      gestures
    });
  };
  window.addEventListener("workbench:cut", onCut);
  return {
    view,
    begin() {
      next();
      if (kept?.tab && kept.tab !== model.get("table").tab) this.send({
        verb: "open",
        tab: kept.tab
      });
    },
    send(gesture) {
      expected = null;
      const saw = model.get("board")?.revision;
      queue.push({
        ...gesture,
        view,
        seq: ++seq,
        ...saw === void 0 ? {} : {
          saw
        }
      });
      if (gesture.verb === "open") opened = {
        tab: String(gesture.tab),
        seq
      };
      next();
    },
    expect(gesture) {
      expected = {
        ...gesture,
        ahead: true
      };
      next();
    },
    answered(answer) {
      if (!waiting || answer?.view !== view || answer.seq < waiting.seq) return;
      waiting = null;
      clearTimeout(timer);
      clearInterval(asking);
      delete root.dataset.silent;
      next();
    },
    refresh() {
      if (!waiting && !queue.length) this.send({
        verb: "refresh"
      });
    },
    close() {
      clearTimeout(timer);
      clearInterval(asking);
      window.removeEventListener("workbench:cut", onCut);
    }
  };
}

// workbench/widgets/static/widen.js
var WIDE = "Fill the window";
var BACK = "Restore size";
function widenTool(wb, place) {
  const button = h("button", {
    class: "btn icon widen",
    type: "button",
    ariaLabel: WIDE,
    title: WIDE,
    data: {
      focus: "widen"
    },
    onclick: () => place.querySelector("dialog") ? the(place, "dialog").dispatchEvent(new Event("cancel")) : widen(wb, place, button)
  }, "\u2922");
  return button;
}
function widen(wb, place, button) {
  const frame = the(place, ".frame");
  const dialog = h("dialog", {
    class: "wide",
    ariaLabel: the(frame, ".about").textContent
  });
  const back = () => {
    if (!dialog.isConnected) return;
    dialog.close();
    place.prepend(frame);
    dialog.remove();
    say(button, WIDE);
    fitCharts(frame, 0);
    button.focus({
      preventScroll: true
    });
  };
  place.append(dialog);
  dialog.append(frame);
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    back();
  });
  dialog.showModal();
  say(button, BACK);
  const fit = () => fitCharts(frame, innerHeight - 110);
  fit();
  addEventListener("resize", function resized() {
    if (dialog.isConnected) fit();
    else removeEventListener("resize", resized);
  });
  button.focus({
    preventScroll: true
  });
  wb.say("The picture fills the window; press Escape to restore it.");
}
function stayWide(place) {
  const dialog = place.querySelector("dialog[open]:not(:modal)");
  if (!(dialog instanceof HTMLDialogElement)) return;
  dialog.removeAttribute("open");
  dialog.showModal();
}
function say(button, words) {
  button.ariaLabel = button.title = words;
}

// workbench/widgets/static/picture.js
var SAVES = {
  SVG: (picture) => new Blob([
    picture.svg
  ], {
    type: "image/svg+xml"
  }),
  PNG: pngOf,
  text: (picture) => new Blob([
    `${picture.text}
`
  ], {
    type: "text/plain"
  })
};
var ENDINGS = {
  SVG: "svg",
  PNG: "png",
  text: "txt"
};
var pictureIn = /* @__PURE__ */ new WeakMap();
var pendingFormats = /* @__PURE__ */ new WeakMap();
function paintPicture(wb, place, picture) {
  const text = JSON.stringify(picture);
  if (pictureIn.get(place)?.text === text) return;
  pictureIn.set(place, {
    text,
    picture
  });
  const image = one(place, ".image") ?? frameOf(wb, place, picture.name);
  image.ariaLabel = picture.about ?? null;
  place.dataset.picture = picture.name;
  the(place, "pre").textContent = picture.text ?? "\u2026";
  fillText(wb, place);
  const kind = pendingFormats.get(place), whole = allFormats(picture);
  if (kind && whole) {
    pendingFormats.delete(place);
    savePicture(wb, whole, kind);
  }
  the(place, ".about").textContent = picture.about ?? "";
  const act = (subject, opens) => actOn(wb, place, subject, opens);
  const charted = paintCharts(wb, image, picture, act, (loaded) => {
    const now = pictureIn.get(place)?.picture;
    if (!now || !place.isConnected) return;
    if (!loaded) return now.svg === null && requestFormats(wb, now);
    pictureIn.delete(place);
    paintPicture(wb, place, now);
  });
  image.tabIndex = charted ? -1 : 0;
  place.classList.toggle("charted", charted);
  if (charted) return;
  removeCharts(image);
  const at = one(image, ".at")?.dataset;
  image.innerHTML = picture.svg ?? "";
  sizePicture(image);
  const mark = at?.opens ? `[data-opens="${CSS.escape(at.opens)}"]` : at?.subject ? `[data-subject="${CSS.escape(at.subject)}"]` : "";
  if (mark) image.querySelector(mark)?.classList.add("at");
}
function requestFormats(wb, picture) {
  wb.send({
    verb: "picture",
    name: picture.name
  });
}
function allFormats({ name, svg: svg2, text }) {
  return svg2 === null || text === null ? null : {
    name,
    svg: svg2,
    text
  };
}
function saveFrom(wb, place, kind) {
  const shown = pictureIn.get(place)?.picture;
  if (!shown) return;
  const whole = allFormats(shown);
  if (whole) return savePicture(wb, whole, kind);
  pendingFormats.set(place, kind);
  requestFormats(wb, shown);
}
function fillText(wb, place) {
  const shown = pictureIn.get(place)?.picture;
  if (shown?.text === null && one(place, "details[open]")) requestFormats(wb, shown);
}
function sizePicture(image) {
  const svg2 = one(image, "svg"), wide = Number(svg2?.getAttribute("width"));
  if (svg2 && wide) svg2.style.setProperty("--wide", `${wide}px`);
}
function frameOf(wb, place, name) {
  const image = h("div", {
    class: "image",
    tabIndex: 0,
    role: "group",
    data: {
      focus: `picture ${name}`
    }
  });
  const frame = h("div", {
    class: "frame"
  }, h("div", {
    class: "over"
  }, h("span", {
    class: "about"
  }), widenTool(wb, place)), image, h("div", {
    class: "under"
  }, h("details", {
    ontoggle: () => fillText(wb, place)
  }, h("summary", {}, "As text"), h("pre", {
    tabIndex: 0
  })), h("span", {
    class: "saves"
  }, "Save as ", ...Object.keys(SAVES).map((kind) => h("button", {
    class: "btn small",
    type: "button",
    ariaLabel: `Save the picture as ${kind}`,
    data: {
      save: kind
    },
    onclick: () => saveFrom(wb, place, kind)
  }, kind)))));
  place.replaceChildren(frame);
  return image;
}
function actOn(wb, place, subject, opened) {
  const opens = pictureIn.get(place)?.picture.opens;
  if (opened && opens) wb.send({
    verb: opens.verb,
    [opens.field]: opened
  });
  else if (subject) wb.send({
    verb: "select",
    path: subject
  });
}
function openMark(wb, mark) {
  const place = around(mark, ".picture"), opens = place && pictureIn.get(place)?.picture.opens;
  if (opens) wb.send({
    verb: opens.verb,
    [opens.field]: mark.dataset.opens
  });
}
function makePicturesOpen(wb) {
  wb.subscribe("opened", (mark) => openMark(wb, mark));
  wb.root.addEventListener("click", (event) => {
    const mark = around(targetOf(event), ".image [data-opens]");
    if (mark) openMark(wb, mark);
  });
}
async function savePicture(wb, picture, kind) {
  const file = await SAVES[kind](picture, getComputedStyle(wb.card).backgroundColor);
  const name = `${picture.name.replace(/[^\w.-]+/g, "-")}.${ENDINGS[kind]}`;
  download(wb, name, file);
  wb.say(`Saved as ${name}.`);
}
async function pngOf(picture, ground) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.svg)}`;
  await image.decode();
  const canvas = h("canvas", {
    width: image.width * 2,
    height: image.height * 2
  });
  const pen = (
    /** @type {CanvasRenderingContext2D} */
    canvas.getContext("2d")
  );
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob((blob) => done(
    /** @type {Blob} */
    blob
  ), "image/png"));
}

// workbench/widgets/static/fleet.js
function mountFleet(model, el) {
  const root = h("div", {
    class: "wb fleet",
    tabIndex: -1
  });
  const live = h("div", {
    class: "sr",
    ariaLive: "assertive",
    role: "status"
  });
  const noAnswer = h("div", {
    class: "note warn",
    hidden: true
  }, "No answer from the server for 10 s");
  const card = h("div", {
    class: "card"
  });
  root.append(card, live);
  const box = outbox(model, root);
  const wb = makeWb(root, card, live, box, model.library);
  const head = h("header", {
    class: "head"
  }), controls = h("div", {
    class: "controls fleetcontrols"
  }), refused = h("div", {
    class: "refusedhere"
  }), problem = h("div", {
    class: "alarms"
  });
  const run = fleetRun(wb), timing = fleetTiming(wb), models = fleetModels(wb), drawn = h("div", {
    class: "picture"
  }), note = h("p", {
    class: "muted slices"
  }), devices = h("div", {
    class: "fleetdevices"
  }), losses = lossesOf(wb);
  const figures = h("div", {
    class: "stagefigures fleetfigures"
  }), ways = h("div", {
    class: "waytable"
  }), stale = h("p", {
    class: "muted stale"
  }), doubt = h("div", {
    class: "fleetdoubt"
  });
  const empty = h("p", {
    class: "muted"
  }, "Losses of all models are drawn here while they train.");
  const schedule = h("section", {
    class: "fleettimeline",
    ariaLabel: "Schedule"
  }, h("h2", {}, termLabel(wb, "Shard units over time")), devices, drawn, note);
  const alternatives = h("section", {
    class: "fleetways",
    ariaLabel: "Ways to train the same models"
  }, h("h2", {}, termLabel(wb, "To train the same models")), h("p", {
    class: "muted"
  }, "All use the same unit times. Only shard units include transfers."), ways);
  card.append(head, h("section", {
    class: "fleettop",
    ariaLabel: "Policy, memory, devices and hardware"
  }, h("div", {
    class: "fleetline"
  }, controls, run.buttons), refused, timing.element, doubt, run.progress), problem, figures, noAnswer, models.section, schedule, h("div", {
    class: "fleetlower"
  }, alternatives, h("section", {
    class: "fleetresults",
    ariaLabel: "Training"
  }, h("h2", {}, termLabel(wb, "Training")), stale, empty, losses.element, run.results)), helpSection(wb, {
    tour: false
  }));
  const paintHead = painter((state) => keepingFocus(root, head, () => head.replaceChildren(h("div", {
    class: "names"
  }, h("div", {
    class: "line"
  }, h("h1", {}, state.name), state.path ? h("span", {
    class: "mono mesh"
  }, state.path) : null, state.path ? h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: "reread"
    },
    title: "Reload the file: new models join, removed models stop",
    onclick: () => wb.send({
      verb: "reread"
    })
  }, "Reload file") : null, h("span", {
    class: "muted"
  }, state.devices))), h("div", {
    class: "tools"
  }, ...helpTools(wb)))));
  const paintControls = painter((state) => keepingFocus(root, controls, () => drawFleetControls(wb, controls, state)));
  const paintRefusal = painter((refusal) => refused.replaceChildren(...refusal ? [
    drawRefusal(wb, refusal)
  ] : []));
  const paintProblem = painter((wrong) => problem.replaceChildren(...wrong ? [
    h("div", {
      class: "alarm",
      role: "alert"
    }, h("b", {
      class: "bad"
    }, "Does not fit. "), ...withCode(wrong.message), wrong.ways_out.length ? h("span", {
      class: "muted"
    }, ` ${wrong.ways_out.join(" \xB7 ")}`) : null)
  ] : []));
  const paintWays = painter((all2) => patch(ways, all2, drawWay));
  const paintDevices = painter((state) => keepingFocus(root, devices, () => drawDevices(wb, devices, state)));
  const stop = new AbortController();
  let announced = "";
  wb.paint = paintAfterPress(root, () => {
    if (wb.dragging) return;
    const state = model.get("board"), now = model.get("live"), { timeline } = model.get("table");
    paintHead({
      name: state.name,
      path: state.path,
      devices: state.devices
    });
    paintControls({
      ...state.controls,
      locked: state.locked
    });
    paintRefusal(state.refusal);
    paintProblem(state.problem);
    doubt.replaceChildren(...withCode(state.doubt));
    doubt.hidden = !state.doubt;
    patch(figures, state.figures, (figure) => drawFleetFigure(wb, figure));
    figures.classList.toggle("waits", state.waits);
    timing.paint({
      ...state.timing,
      waits: state.waits
    });
    models.paint(state.models, state.columns, now.models);
    schedule.hidden = !timeline;
    if (timeline?.picture) paintPicture(wb, drawn, withRun(timeline.picture, timeline.of, now.ran));
    note.textContent = timeline?.note ?? "";
    note.hidden = !note.textContent;
    paintDevices({
      running: now.phase === "running" && Boolean(now.known),
      devices: timeline?.devices ?? 0,
      away: now.away
    });
    paintWays(state.ways);
    alternatives.hidden = !state.ways.length;
    run.paint(now, state);
    losses.paint(now.losses);
    stale.textContent = now.stale;
    stale.hidden = !now.stale;
    empty.hidden = Boolean(now.losses);
    noAnswer.hidden = root.dataset.silent !== "true";
    if (state.said && state.said !== announced) wb.say(state.said);
    announced = state.said;
    root.dataset.phase = now.phase;
    root.dataset.answered = `${state.answer.seq}`;
  }, stop.signal);
  const onBoard = () => {
    box.answered(model.get("board").answer);
    wb.paint();
  };
  const watching = setInterval(() => {
    if (model.get("live").phase === "running" || model.get("board").timing.phase === "running") box.refresh();
  }, 5e3);
  const listeners = {
    "change:board": onBoard,
    "change:table": () => wb.paint(),
    "change:live": () => wb.paint(),
    "change:theme": () => applyTheme()
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  const applyTheme = makeTheme(wb, model, stop.signal);
  document.addEventListener("pointerdown", (event) => {
    const path = event.composedPath();
    if (wb.menu && !path.includes(wb.menu.element) && !path.includes(wb.menu.anchor)) closeMenu(wb, false);
  }, {
    signal: stop.signal
  });
  root.addEventListener("keydown", (event) => onShortcut(wb, event));
  new MutationObserver(() => {
    noAnswer.hidden = root.dataset.silent !== "true";
  }).observe(root, {
    attributes: true,
    attributeFilter: [
      "data-silent"
    ]
  });
  applyTheme();
  wb.paint();
  el.append(h("style", {}, STYLE), root);
  return () => {
    stop.abort();
    box.close();
    clearInterval(watching);
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}
function withRun(picture, of, ran) {
  const [chart] = picture.charts ?? [];
  if (!chart || ran?.of !== of) return picture;
  const merged = {
    ...chart,
    ...ran,
    sources: {
      ...chart.sources,
      ...ran.sources
    },
    spans: [
      ...chart.spans,
      ...ran.spans
    ]
  };
  return {
    ...picture,
    charts: [
      merged
    ]
  };
}
function drawFleetFigure(wb, figure) {
  const delta = figure.delta && h("span", {
    class: `delta ${figure.delta.tone}`
  }, figure.delta.text);
  return h("div", {
    class: "stagefigure",
    data: {
      figure: figure.key
    }
  }, h("div", {
    class: "label"
  }, termLabel(wb, figure.label)), h("div", {
    class: "value"
  }, figure.text, delta ? " " : null, delta), h("div", {
    class: "sub"
  }, figure.note), ...figure.tiers.map((tier) => h("div", {
    class: "tier"
  }, `${tier.label} `, h("b", {}, tier.text), tier.note ? ` ${tier.note}` : "")));
}
function drawWay(way) {
  const bar = h("i");
  bar.style.width = `${way.share * 100}%`;
  return h("div", {
    class: `way1 ${way.kind}`,
    data: {
      way: way.kind
    }
  }, h("span", {
    class: "name"
  }, way.label), h("span", {
    class: "level"
  }, bar), h("b", {}, way.text), h("span", {
    class: "ratio"
  }, way.ratio), h("span", {
    class: "muted about"
  }, way.note));
}
function drawDevices(wb, parent, { running, devices, away }) {
  parent.hidden = !running;
  parent.replaceChildren(h("span", {
    class: "muted"
  }, "Devices:"), ...Array.from({
    length: running ? devices : 0
  }, (_, device) => {
    const removed = away.includes(device);
    return h("button", {
      class: "btn small",
      type: "button",
      ariaPressed: String(removed),
      data: {
        focus: `device-${device}`
      },
      title: removed ? "The device accepts units again" : "The device finishes its unit and accepts no more",
      onclick: () => wb.send({
        verb: removed ? "return" : "leave",
        value: String(device)
      })
    }, removed ? `Give back ${device}` : `Take away ${device}`);
  }));
}

// workbench/widgets/static/axes.js
function drawCount(count) {
  return h("span", {
    class: `devices ${count.tone}`,
    title: count.title,
    role: count.tone === "bad" ? "alert" : null
  }, count.text);
}
function drawHandle(wb, zone) {
  const handle = h("button", {
    class: "handle",
    type: "button",
    ariaLabel: `Move mesh axis ${zone.axis}: left and right arrows`,
    title: "Drag to reorder the mesh axes (which devices are neighbours)",
    data: {
      focus: `handle-${zone.axis}`
    },
    onkeydown: (event) => {
      const by = {
        ArrowLeft: -1,
        ArrowRight: 1
      }[event.key];
      if (!by) return;
      event.preventDefault();
      wb.send({
        verb: "shift_axis",
        axis: zone.axis,
        by
      });
    },
    onpointerdown: (event) => {
      if (!event.button) dragAxis(wb, zone.axis, handle, event);
    }
  }, h("span", {
    ariaHidden: "true"
  }, "\u283F"));
  return handle;
}
function dragAxis(wb, axis, handle, start) {
  const zones = all(wb.board, ".axes > .zone[data-axis]");
  const mine = zones.find((zone) => zone.dataset.axis === axis);
  let order = null;
  handle.setPointerCapture(start.pointerId);
  const clear = () => zones.forEach((zone) => zone.classList.remove("lifted", "before", "behind"));
  const move = (event) => {
    if (!wb.dragging && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 5) return;
    wb.dragging = true;
    clear();
    mine?.classList.add("lifted");
    order = null;
    const over = zones.find((zone) => {
      const box2 = zone.getBoundingClientRect();
      return event.clientX >= box2.left && event.clientX <= box2.right && event.clientY >= box2.top && event.clientY <= box2.bottom;
    });
    if (!over || over === mine) return;
    const box = over.getBoundingClientRect();
    const behind = event.clientX > box.left + box.width / 2;
    over.classList.add(behind ? "behind" : "before");
    order = reordered(zones.map((zone) => zone.dataset.axis ?? ""), axis, over.dataset.axis ?? "", behind);
  };
  const stop = new AbortController();
  const end = (event) => {
    stop.abort();
    clear();
    const dragged = wb.dragging;
    wb.dragging = false;
    if (dragged && order && event.type === "pointerup") wb.send({
      verb: "order_axes",
      axis,
      names: order
    });
    wb.paint();
  };
  handle.addEventListener("pointermove", move, {
    signal: stop.signal
  });
  handle.addEventListener("pointerup", end, {
    signal: stop.signal
  });
  handle.addEventListener("pointercancel", end, {
    signal: stop.signal
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && wb.dragging) end(event);
  }, {
    signal: stop.signal,
    capture: true
  });
}
function reordered(names, axis, over, behind) {
  const order = names.filter((name) => name !== axis);
  order.splice(order.indexOf(over) + (behind ? 1 : 0), 0, axis);
  return order;
}
function stepSize(event, size) {
  if (event.key === "Enter") {
    sendStepped(size);
    return;
  }
  const value = Number(size.value);
  if (!Number.isInteger(value) || value < 1) return;
  const next = {
    ArrowUp: value * 2,
    ArrowDown: value % 2 ? value : value / 2
  }[event.key];
  if (next === void 0) return;
  event.preventDefault();
  size.value = `${next}`;
  size.dataset.stepped = "yes";
}
function sendStepped(size) {
  if (!size.dataset.stepped) return;
  delete size.dataset.stepped;
  size.dispatchEvent(new Event("change"));
}

// workbench/widgets/static/chip_input.js
function makeDraggable(wb, element, grip, more, gripped) {
  const at = (event) => typeof gripped === "function" ? gripped(event) : gripped;
  grip.addEventListener("pointerdown", (event) => {
    if (!event.button) startDrag(wb, element, grip, at(event), event);
  });
  grip.addEventListener("keydown", (event) => onKey(wb, grip, more, at(null), event));
  grip.addEventListener("keyup", (event) => {
    if (event.key === " ") event.preventDefault();
  });
  grip.addEventListener("click", (event) => {
    if (event.detail === 0 && !wb.held) onClick(wb, at(null), event);
  });
}
function axisAt(wb, event) {
  const seen = (
    /** @type {Document | ShadowRoot} */
    wb.root.getRootNode().elementsFromPoint(event.clientX, event.clientY)
  );
  const zone = (
    /** @type {HTMLElement | undefined} */
    seen.find((item) => item.matches?.(".zone[data-axis], .droptarget[data-axis]"))
  );
  return (zone && wb.root.contains(zone) ? zone.dataset.axis : null) ?? null;
}
function startDrag(wb, element, grip, chip, start) {
  let ghost = null;
  const at = targetOf(start);
  wb.dragging = true;
  grip.setPointerCapture(start.pointerId);
  const move = (event) => {
    if (!ghost && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 5) return;
    if (!ghost) {
      closeMenu(wb, false);
      hold(wb, chip, "pointer");
      ghost = /** @type {HTMLElement} */
      element.cloneNode(true);
      ghost.classList.remove("lifted");
      ghost.classList.add("ghost");
      wb.root.append(ghost);
    }
    ghost.style.left = `${event.clientX + 10}px`;
    ghost.style.top = `${event.clientY + 8}px`;
    const target = axisAt(wb, event);
    const keys = pressed(wb, event);
    if (wb.held && (target !== wb.held.target || keys.add !== wb.held.add || keys.only !== wb.held.only)) {
      Object.assign(wb.held, {
        target,
        ...keys
      });
      aim(wb);
    }
  };
  const stop = new AbortController();
  const end = (event) => {
    stop.abort();
    ghost?.remove();
    wb.dragging = false;
    if (!ghost && event.type === "pointerup") onClick(wb, chip, event, at);
    else if (event.type === "pointerup" && wb.held) {
      Object.assign(wb.held, pressed(wb, event));
      drop(wb, wb.held.target, event.shiftKey);
    } else release(wb);
    wb.paint();
  };
  const escape = (event) => {
    if (event.key === "Escape" && ghost) end(event);
  };
  grip.addEventListener("pointermove", move, {
    signal: stop.signal
  });
  grip.addEventListener("pointerup", end, {
    signal: stop.signal
  });
  grip.addEventListener("pointercancel", end, {
    signal: stop.signal
  });
  document.addEventListener("keydown", escape, {
    signal: stop.signal,
    capture: true
  });
}
function onClick(wb, chip, event, at = null) {
  if (chip.lazy) {
    const mark = !wb.held && at ? around(at, "[data-asks]") : null;
    const grip = (
      /** @type {HTMLElement} */
      event.currentTarget ?? around(targetOf(event), ".grip")
    );
    if (mark) askWhy(wb, mark.dataset.asks ?? "", around(mark, ".grip") ?? grip);
    else askMenu(wb, chip, grip);
    return;
  }
  if (wb.held && wb.held.chip.source !== chip.source) drop(wb, chip.source, event.shiftKey);
  else if (wb.held?.chip.key === chip.key) release(wb);
  else hold(wb, chip, "click");
}
function onKey(wb, grip, more, chip, event) {
  const held = wb.held, mine = held?.chip.key === chip.key ? held : null;
  const step = {
    ArrowRight: 1,
    ArrowDown: 1,
    ArrowLeft: -1,
    ArrowUp: -1
  }[event.key];
  if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    if (mine) drop(wb, mine.target, event.shiftKey);
    else hold(wb, chip, "keyboard");
  } else if (event.key === "Escape" && held) {
    event.preventDefault();
    release(wb);
  } else if (event.key === "ContextMenu" || event.key === "m" || event.key === "F10" && event.shiftKey) {
    event.preventDefault();
    if (chip.lazy) askMenu(wb, chip, grip);
    else openMenu(wb, more, chip.menu, {
      zone: chip.source
    });
  } else if (step) {
    event.preventDefault();
    if (mine) choose(wb, mine, step);
    else if (!chip.lazy) walk2(wb, grip, step);
  } else if (event.key.toLowerCase() === "o" && mine && chip.lazy) {
    mine.only = !mine.only;
    aim(wb);
    wb.say(mine.only ? `Only ${chip.path}.` : `The rule of ${chip.dim}.`);
  } else if (event.key === "Shift" && mine) {
    mine.add = true;
    aim(wb);
  }
}
function choose(wb, held, step) {
  const now = wb.axes.findIndex((axis) => axis === held.target);
  held.target = wb.axes[(now + step + wb.axes.length) % wb.axes.length];
  held.add = false;
  aim(wb);
  const reason = reasonAt(held, held.target), change = previewWords(wb, held.target);
  const suffix = reason ? `. Not possible: ${reason}` : change ? `. ${change}` : "";
  wb.say(`${held.target || "unsharded"}, ${wb.axes.indexOf(held.target) + 1} of ${wb.axes.length}${suffix}`);
}
function walk2(wb, grip, step) {
  const grips = all(wb.board, ".zone .grip");
  grips[(grips.indexOf(grip) + step + grips.length) % grips.length]?.focus();
}

// workbench/widgets/static/chips.js
function drawChip(wb, chip) {
  const grip = h("button", {
    class: "grip",
    type: "button",
    tabIndex: -1,
    ariaPressed: "false",
    ariaLabel: chip.title,
    "aria-roledescription": "draggable dimension",
    data: {
      focus: chip.key,
      dim: chip.dim,
      source: chip.source
    }
  }, chip.order && h("span", {
    class: "order",
    data: {
      order: chip.order
    }
  }, chip.order), h("b", {}, chip.dim), h("span", {
    class: "muted"
  }, chip.size), ...drawMarks(chip.marks));
  const more = h("button", {
    class: "more",
    type: "button",
    tabIndex: -1,
    ariaLabel: `Menu of ${chip.dim}`,
    ariaHasPopup: "menu",
    onclick: () => openMenu(wb, more, chip.menu, {
      zone: chip.source
    })
  }, "\u22EF");
  const element = h("span", {
    class: "chip",
    data: {
      chip: chip.key
    },
    title: chip.title
  }, grip, h("span", {
    class: "slot"
  }, h("span", {
    class: "carried",
    ariaHidden: "true"
  }, `\xD7${chip.carried}`), more));
  element.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    openMenu(wb, more, chip.menu, {
      zone: chip.source
    });
  });
  makeDraggable(wb, element, grip, more, chip);
  return element;
}
var drawMarks = (marks) => (marks ?? []).map((mark) => h("i", {
  class: "set",
  title: mark.title
}, mark.text));
function showDropped(wb, { chip, axis, add }) {
  wb.wanted = `${chip.dim}@${axis}`;
  wb.optimistic = true;
  const element = all(wb.board, ".chip").find((candidate) => candidate.dataset.chip === chip.key);
  const zone = zoneElements(wb).find((candidate) => candidate.dataset.axis === axis);
  if (element && zone && !add) showPending(wb, element, zone, {
    ...chip,
    key: `${chip.dim}@${axis}`,
    source: axis,
    illegal: {},
    menu: []
  });
}
function showPending(wb, element, zone, chip) {
  const pending = drawChip(wb, chip);
  pending.classList.add("pending");
  element.remove();
  wb.chips.set(chip.key, chip);
  the(zone, ".chips").append(pending);
}

// workbench/widgets/static/recipes.js
function drawRecipeAxis(wb, row, axis, place) {
  const options = axis.options.map((option) => h("option", {
    value: option.name,
    selected: option.name === axis.name
  }, option.label));
  return h("select", {
    class: "field axis",
    ariaLabel: `mesh axis of ${row.title}${row.axes.length > 1 ? `, ${place + 1} of ${row.axes.length}` : ""}`,
    data: {
      c: axis.colour,
      focus: `axis ${row.name} ${place}`
    },
    onchange: (event) => wb.send({
      verb: "recipe_axis",
      name: row.name,
      place,
      axis: (
        /** @type {HTMLSelectElement} */
        event.target.value
      ),
      zone: "tools"
    })
  }, ...axis.name ? [] : [
    h("option", {
      value: "",
      selected: true,
      disabled: true
    }, "choose axis")
  ], ...options);
}
var FEW_EDITS = 2;
function drawRecipeEdits(row) {
  const shown = row.edits.length > FEW_EDITS + 1 ? row.edits.slice(0, FEW_EDITS) : row.edits;
  const rest = row.edits.slice(shown.length);
  const lines = (edits) => h("ul", {
    class: "edits mono"
  }, ...edits.map((edit) => h("li", {}, edit)));
  return [
    lines(shown),
    rest.length ? h("details", {}, h("summary", {}, `and ${rest.length} edits more`), lines(rest)) : null,
    row.reason ? h("p", {
      class: "leaves"
    }, ...withCode(row.reason)) : null
  ];
}
function drawRecipe(wb, row) {
  const applies = row.state === "applies";
  const spoken = {
    applies: `Apply ${row.title}`,
    holds: `${row.title}: already applied`,
    barred: `${row.title} does not apply: ${row.reason}`
  }[row.state];
  const apply = h("button", {
    class: "btn small apply",
    type: "button",
    ariaDisabled: String(!applies),
    ariaLabel: spoken,
    data: {
      focus: `recipe ${row.name}`
    },
    onclick: () => {
      if (applies) wb.send({
        verb: "recipe",
        name: row.name,
        axes: row.given,
        zone: "tools"
      });
    }
  }, row.state === "holds" ? "\u2713 applied" : "Apply");
  const axes = row.axes.map((axis, place) => drawRecipeAxis(wb, row, axis, place));
  const effects = applies ? drawRecipeEdits(row) : row.state === "holds" ? [] : [
    h("p", {}, ...withCode(row.reason)),
    row.ways_out.length ? h("p", {
      class: "ways"
    }, "Try: ", ...withCode(row.ways_out.join("; ")), ".") : null
  ];
  return h("li", {
    class: `recipe ${row.state}`,
    data: {
      recipe: row.name
    }
  }, h("div", {
    class: "name"
  }, h("b", {}, row.title), axes.length ? h("span", {
    class: "muted"
  }, "over") : null, ...axes, h("span", {
    class: "grow"
  }), apply), h("p", {
    class: "about muted"
  }, row.about), h("div", {
    class: "does"
  }, ...effects.filter(Boolean)));
}
function recipesSection(wb) {
  const toggle = (open) => wb.send({
    verb: "recipes",
    open
  });
  const button = h("button", {
    class: "btn small",
    type: "button",
    ariaExpanded: "false",
    title: "Standard layouts, applied as one edit",
    data: {
      focus: "recipes",
      verb: "recipes"
    },
    onclick: () => toggle(Boolean(section.hidden))
  }, "Recipes");
  const hide = () => {
    toggle(false);
    button.focus({
      preventScroll: true
    });
  };
  const title = h("h3", {
    tabIndex: -1
  }, termLabel(wb, "Recipes")), list = h("ul", {
    class: "list"
  }), problem = h("p", {
    class: "bad",
    hidden: true
  });
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close the recipes",
    title: "Close",
    onclick: hide
  }, "\xD7");
  const section = h("section", {
    class: "recipes",
    ariaLabel: "Recipes",
    hidden: true
  }, h("header", {}, title, h("span", {
    class: "muted"
  }, "A recipe is a list of edits, applied as one step (undo to go back)."), close), problem, list);
  section.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      hide();
    }
  });
  const paint = painter((state) => keepingFocus(wb.root, list, () => {
    const opened = section.hidden && state;
    section.hidden = !state;
    button.ariaExpanded = String(Boolean(state));
    if (!state) return;
    problem.hidden = !state.problem;
    problem.textContent = state.problem;
    patch(list, state.rows, (row) => drawRecipe(wb, row));
    if (opened && focusedBy(wb.root) === button) title.focus({
      preventScroll: true
    });
  }));
  return {
    section,
    button,
    paint
  };
}

// workbench/widgets/static/sort.js
var SCALES = {
  "": 1,
  K: 1024,
  M: 1024 ** 2,
  G: 1024 ** 3,
  T: 1024 ** 4,
  P: 1024 ** 5,
  E: 1024 ** 6
};
var DECIMAL = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18
};
var SECONDS = {
  s: 1,
  ms: 1e-3,
  "\xB5s": 1e-6
};
function cellText(cell) {
  if (typeof cell === "string") return cell;
  if ("text" in cell && cell.text !== void 0) return cell.text;
  if ("path" in cell) return cell.path;
  if ("axes" in cell) return cell.axes.map((axis) => axis.name).join(" ");
  if ("dims" in cell) return cell.dims.map((dim) => dim.name).join(" ");
  return "terms" in cell ? cell.terms.join(" ") : "";
}
function sortValue(cell) {
  if (typeof cell === "object" && "stack" in cell) return sortValue(cell.stack[0]);
  if (typeof cell === "object" && "share" in cell) return cell.share;
  const text = cellText(cell);
  const match = /^([−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*(\S*)/.exec(text);
  if (!match) return text === "\u2013" ? 0 : text;
  const number = Number(match[1].replace("\u2212", "-").replaceAll(",", ""));
  const unit = match[2];
  if (unit in SECONDS) return number * SECONDS[unit];
  if (/^[KMGTPE]?i?B(\/s)?$/.test(unit) && (unit.includes("i") || unit === "B")) return number * SCALES[unit[0] === "B" ? "" : unit[0]];
  return number * DECIMAL[/^[kMGTPE](?=FLOP|B|$)/.exec(unit)?.[0] ?? ""];
}
function compareCells(a, b) {
  const one2 = sortValue(a), other = sortValue(b);
  if (typeof one2 === "number" && typeof other === "number") return one2 - other;
  return `${one2}`.localeCompare(`${other}`, void 0, {
    numeric: true
  });
}
var canSort = (block) => block.rows.length > 1 && !block.rows.some((row) => row.section || "fold" in row);
function sortedRows(wb, block, head) {
  const by = wb.sorts.get(head);
  if (!by || !canSort(block)) return block.rows;
  return [
    ...block.rows
  ].sort((a, b) => by.sign * compareCells(a.cells[by.column] ?? "", b.cells[by.column] ?? ""));
}
function nextSort(wb, head, column, first) {
  const now = wb.sorts.get(head);
  if (now?.column !== column) wb.sorts.set(head, {
    column,
    sign: first
  });
  else if (now.sign === first) wb.sorts.set(head, {
    column,
    sign: -first
  });
  else wb.sorts.delete(head);
}
function drawColumn(wb, block, column, place, head, again) {
  const label = termLabel(wb, column.label);
  const sorter = (name, text) => h("button", {
    class: "sorter",
    type: "button",
    ariaLabel: name,
    onclick: () => {
      nextSort(wb, head, place, column.number ? -1 : 1);
      again();
    },
    data: {
      focus: `sort ${block.title} ${place}`
    }
  }, text);
  const shown = !column.label || !canSort(block) ? [
    label
  ] : typeof label === "string" ? [
    sorter(null, label)
  ] : [
    label,
    sorter(`Sort by ${column.label}`, "")
  ];
  return h("th", {
    class: column.number ? "n" : "",
    scope: "col",
    title: column.title
  }, ...shown);
}
function markSorted(wb, table, head) {
  const by = wb.sorts.get(head);
  table.querySelectorAll("thead th").forEach((th, i) => {
    const way = by?.column === i ? by.sign > 0 ? "ascending" : "descending" : null;
    if (way) th.setAttribute("aria-sort", way);
    else th.removeAttribute("aria-sort");
  });
}

// workbench/widgets/static/table_cells.js
function drawCell(wb, cell) {
  if (typeof cell === "string") return cell;
  if ("why" in cell && cell.why) return drawAsked(wb, cell);
  if ("line" in cell) return wb.drawers?.line(wb, cell) ?? cell.text;
  if ("chips" in cell) return wb.drawers?.chips(wb, cell) ?? "";
  if ("dims" in cell) {
    return h("span", {}, ...cell.dims.map((dim) => h("span", {
      class: "tag",
      title: dim.title,
      data: {
        c: dim.colours[0]
      }
    }, dim.name, ...dim.colours.slice(1).map((colour) => h("i", {
      class: "second",
      data: {
        c: colour
      }
    })))));
  }
  if ("acts" in cell) return drawActs(wb, cell);
  if ("stack" in cell) return drawStack(wb, cell);
  if ("terms" in cell) return drawTerms(wb, cell);
  if ("remedies" in cell) return drawRemedies(wb, cell);
  if ("pair" in cell) return drawPair(cell);
  if ("axes" in cell) return h("span", {}, ...cell.axes.map((axis) => h("span", {
    class: "tag",
    data: {
      c: axis.colour
    }
  }, axis.name)));
  if ("edits" in cell) {
    return h("span", {}, ...cell.edits.map((edit) => h("button", {
      class: "btn",
      type: "button",
      onclick: () => wb.send({
        verb: "mend",
        edit
      })
    }, edit)));
  }
  if ("share" in cell) {
    const bar = h("i", {
      data: {
        shade: cell.shade
      }
    });
    bar.style.width = `${Math.max(1, cell.share * 110)}px`;
    return h("span", {
      class: "share"
    }, bar, cell.text);
  }
  if ("path" in cell && cell.path) {
    return h("span", {
      class: "path",
      title: cell.title ?? cell.path
    }, h("bdi", {}, cell.path, cell.count ? h("span", {
      class: "count"
    }, cell.count) : null));
  }
  const text = "text" in cell ? cell.text : "";
  return h("span", {
    class: cell.tone ?? "",
    title: cell.title ?? ""
  }, ...cell.wrap ? withCode(text) : [
    text
  ]);
}
function drawStack(wb, cell) {
  return h("div", {
    class: "stack",
    title: cell.title ?? ""
  }, ...cell.stack.map((part2) => {
    const { lead, beside } = typeof part2 === "string" ? {} : part2;
    return h("div", {}, lead ? h("span", {
      class: "lead muted"
    }, lead, " ") : null, drawCell(wb, part2), beside ? h("span", {
      class: "beside"
    }, beside) : null);
  }));
}
function drawTerms(wb, cell) {
  return h("span", {
    class: `terms ${cell.tone ?? ""}`
  }, ...cell.terms.flatMap((term, i) => [
    i ? ", then " : null,
    termLabel(wb, term)
  ]).filter(Boolean));
}
function drawActs(wb, cell) {
  const act = (action) => h("button", {
    class: "btn small",
    type: "button",
    title: action.title ?? "",
    data: {
      focus: action.focus ?? `act ${action.label}`
    },
    onclick: (event) => {
      if (action.gesture.verb === "why") {
        askWhy(wb, action.gesture.of ?? "", wb.asker?.focus ?? /** @type {HTMLElement} */
        event.currentTarget);
      } else wb.send(action.gesture);
    }
  }, action.label);
  return h("span", {
    class: "acts"
  }, cell.text ? h("span", {}, ...withCode(cell.text)) : null, ...cell.acts.map(act));
}
function drawRemedy(wb, remedy) {
  return h("div", {
    class: "remedy"
  }, h("button", {
    class: "btn small",
    type: "button",
    title: remedy.title,
    data: {
      focus: `mend ${remedy.edit}`
    },
    onclick: () => wb.send({
      verb: "mend",
      edit: remedy.edit,
      zone: "tools"
    })
  }, remedy.edit), h("span", {
    class: remedy.tone
  }, remedy.note), remedy.held ? h("span", {
    class: remedy.held_tone
  }, remedy.held) : null);
}
function drawRemedies(wb, cell) {
  const find = !cell.find ? null : h("button", {
    class: "btn small find",
    type: "button",
    ariaLabel: `${cell.find} for ${cell.about}`,
    title: "Each edit is planned; only edits that reduce the bytes sent are listed",
    data: {
      focus: `find ${cell.key}`
    },
    onclick: () => {
      if (!find || find.ariaBusy === "true") return;
      find.ariaBusy = "true";
      find.textContent = "Trying\u2026";
      wb.send({
        verb: "try_edits",
        key: cell.key,
        zone: "tools"
      });
    }
  }, cell.find);
  const none = cell.remedies.length || find ? null : h("span", {
    class: "muted",
    tabIndex: -1,
    title: "Every tested edit sends more in total, or as much here",
    data: {
      focus: `find ${cell.key}`
    }
  }, "no fix found");
  return h("div", {
    class: "remedies"
  }, ...cell.remedies.map((remedy) => drawRemedy(wb, remedy)), find, none);
}
function drawPair(cell) {
  const bar = (share, name) => {
    const slice = h("i", {
      class: name
    });
    slice.style.width = `${Math.max(share * 100, share ? 2 : 0)}%`;
    return slice;
  };
  return h("span", {
    class: `pair ${cell.tone}`,
    ariaHidden: "true"
  }, bar(cell.pair[0], "was"), bar(cell.pair[1], "is"));
}
function drawFold(wb, fold, label) {
  return h("button", {
    class: "fold",
    type: "button",
    ariaExpanded: String(fold.open),
    ariaLabel: `${fold.open ? "Fold" : "Unfold"} ${label}`,
    tabIndex: -1,
    data: {
      focus: `fold ${fold.key}`
    },
    onclick: () => wb.send({
      verb: "fold",
      key: fold.key
    })
  }, fold.open ? "\u25BE" : "\u25B8");
}
function drawSection(wb, columns, row, { title, note }) {
  const fold = drawFold(wb, row.fold ?? {
    key: row.key,
    open: true
  }, title);
  fold.tabIndex = 0;
  return h("tr", {
    class: "section"
  }, h("th", {
    colSpan: columns.length,
    scope: "rowgroup"
  }, fold, h("span", {}, title), h("span", {
    class: "muted"
  }, note)));
}
function drawRow(wb, columns, row) {
  if (row.section) return drawSection(wb, columns, row, row.section);
  return h("tr", {
    class: row.tone ? `marked ${row.tone}-row` : "",
    data: {
      subject: row.subject || null
    }
  }, ...row.cells.map((cell, i) => h("td", {
    class: [
      columns[i]?.number ? "n" : "",
      typeof cell === "object" && cell.wrap ? "wrap" : "",
      typeof cell === "object" && "chips" in cell ? "chipped" : "",
      i || !("fold" in row) ? "" : row.level ? `level${row.level}` : row.fold ? "" : "foldless"
    ].join(" ").trim(),
    data: {
      label: i ? columns[i]?.label : null
    }
  }, i || !row.fold ? null : drawFold(wb, row.fold, typeof cell === "object" && "path" in cell ? cell.path : ""), drawCell(wb, cell))));
}

// workbench/widgets/static/blocks.js
var blocksIn = /* @__PURE__ */ new WeakMap();
var partsOf = (wb, block) => (wb.drawers?.parts ?? []).filter((part2) => block[part2.field]);
var headOf = (wb, block) => JSON.stringify([
  block.title,
  block.columns,
  partsOf(wb, block).map((part2) => part2.field),
  canSort(block)
]);
var picturesIn = (parent) => new Map(all(parent, ".picture").map((place) => [
  place.dataset.picture ?? "",
  place
]));
function patchBlocks(wb, parent, blocks) {
  const heads = blocks.map((block) => headOf(wb, block));
  const before = blocksIn.get(parent);
  blocksIn.set(parent, {
    blocks,
    heads
  });
  if (JSON.stringify(before?.heads) !== JSON.stringify(heads)) {
    const kept = picturesIn(parent);
    const again = () => patchBlocks(wb, parent, blocksIn.get(parent)?.blocks ?? []);
    parent.replaceChildren(...blocks.map((block, i) => drawBlock(wb, block, heads[i], kept, again)));
    for (const place of kept.values()) wb.drawers?.removePicture(place);
  }
  blocks.forEach((block, i) => paintBlock(wb, parent.children[i], block, heads[i]));
}
function drawBlock(wb, block, head, kept, again) {
  return h("div", {
    class: "block"
  }, block.title && h("h3", {}, termLabel(wb, block.title)), ...partsOf(wb, block).map((part2) => block.picture && part2.field === "picture" && takePicture(kept, block.picture.name) || h("div", {
    class: part2.place
  })), block.columns.length ? drawTable(wb, block, head, again) : null, h("div", {
    class: "note"
  }));
}
function takePicture(kept, name) {
  const place = kept.get(name);
  kept.delete(name);
  return place;
}
function drawTable(wb, block, head, again) {
  const columns = block.columns.map((column, i) => drawColumn(wb, block, column, i, head, again));
  return h("table", {}, h("thead", {}, h("tr", {}, ...columns)), h("tbody"));
}
function paintBlock(wb, place, block, head) {
  const body = place.querySelector("tbody");
  if (body) {
    patch(body, sortedRows(wb, block, head), (row) => drawRow(wb, block.columns, row));
    markSorted(wb, place, head);
  }
  for (const part2 of partsOf(wb, block)) part2.paint(wb, the(place, `.${part2.place}`), block);
  const note = the(place, ".note");
  note.replaceChildren(block.note, ...(block.controls ?? []).flatMap((control) => drawControl(wb, control)));
  note.hidden = !block.note;
}
function drawControl(wb, { label, name }) {
  const find = () => (
    /** @type {HTMLElement | null} */
    wb.root.querySelector(`[data-focus="${name}"]:not([hidden])`)
  );
  if (!find()) return [];
  const act = () => {
    const control = find();
    control?.scrollIntoView({
      block: "nearest"
    });
    control?.focus();
    if (control?.matches("button")) control.click();
  };
  return [
    " ",
    h("button", {
      class: "btn small",
      type: "button",
      onclick: act
    }, label)
  ];
}

// workbench/widgets/static/found.js
var actOf = (wb, act, kind = "btn small") => h("button", {
  class: kind,
  type: "button",
  title: act.title ?? "",
  data: {
    focus: act.focus ?? `act ${act.label}`
  },
  onclick: () => wb.send(act.gesture)
}, ...withCode(act.label));
function paintFound(wb, place, state) {
  place.classList.toggle("card", Boolean(state.card));
  if (state.card) paintCard(wb, place, state.card);
  else if (state.rows) paintRows(wb, place, state.rows);
}
var shownIn = /* @__PURE__ */ new WeakMap();
var keyAt = (event) => one(targetOf(event).closest("tr") ?? document.createElement("tr"), "button")?.dataset.focus?.split(" ")[1] ?? "";
function paintRows(wb, place, rows) {
  const shown = shownIn.get(place);
  shownIn.set(place, {
    rows,
    key: shown?.key ?? ""
  });
  if (!shown) listenToRows(wb, place);
  drawPreview(place);
}
function drawPreview(place) {
  const { rows, key } = shownIn.get(place) ?? {};
  const preview = rows?.previews[key ?? ""];
  place.replaceChildren(...preview ? [
    h("b", {}, preview.title),
    h("div", {
      class: "muted"
    }, preview.text),
    h("div", {
      class: "changes"
    }, preview.changes)
  ] : [
    h("div", {
      class: "muted"
    }, rows?.hint)
  ]);
}
function listenToRows(wb, place) {
  const body = one(
    /** @type {HTMLElement} */
    place.parentElement,
    "tbody"
  );
  const show = (key) => {
    const shown = shownIn.get(place);
    if (!shown || shown.key === key) return;
    shownIn.set(place, {
      ...shown,
      key
    });
    drawPreview(place);
  };
  for (const name of [
    "pointerover",
    "focusin"
  ]) body?.addEventListener(name, (event) => show(keyAt(event)));
  for (const name of [
    "pointerleave",
    "focusout"
  ]) body?.addEventListener(name, () => show(""));
  body?.addEventListener("click", (event) => {
    const gesture = shownIn.get(place)?.rows.gestures[keyAt(event)];
    if (gesture && !targetOf(event).closest("button")) wb.send(gesture);
  });
}
function paintCard(wb, place, card) {
  const [take, ...rest] = card.acts, than = card.than;
  keepingFocus(wb.root, place, () => place.replaceChildren(h("div", {
    class: "name"
  }, h("b", {}, card.title), h("span", {
    class: "muted"
  }, card.text), ...card.present ? [
    h("span", {
      class: "good"
    }, "\u2713 on the board")
  ] : []), ...card.parts ? [
    h("div", {
      class: "parts muted"
    }, card.parts)
  ] : [], h("div", {
    class: "buttons"
  }, actOf(wb, take, card.present ? "btn" : "btn primary"), ...rest.map((act) => actOf(wb, act, "btn")), than.options.length ? h("label", {
    class: "against"
  }, h("span", {
    class: "muted"
  }, than.label), h("select", {
    class: "field",
    data: {
      focus: "found than"
    },
    onchange: (event) => wb.send({
      verb: than.verb,
      plan: than.plan,
      than: (
        /** @type {HTMLSelectElement} */
        event.target.value
      )
    })
  }, h("option", {
    value: "",
    selected: !than.value
  }, "its nearest rival"), ...than.options.map((option) => h("option", {
    value: option.name,
    selected: option.name === than.value
  }, option.label)))) : null), ...card.waiting ? [
    h("div", {
      class: "waiting",
      role: "status"
    }, card.waiting, h("div", {
      class: "progress unknown"
    }, h("i")))
  ] : []));
}

// workbench/widgets/static/find.js
var findIn = /* @__PURE__ */ new WeakMap();
function paintFind(wb, place, state) {
  let find = findIn.get(wb.root);
  if (!find) {
    find = findOf(wb);
    findIn.set(wb.root, find);
    wb.expect({
      verb: "find"
    });
  }
  if (place.firstChild !== find.element) place.replaceChildren(find.element);
  find.paint(state);
}
function controlOf(field) {
  const about = {
    name: field.name,
    ariaLabel: field.label,
    title: field.title,
    data: {
      focus: `find ${field.name}`
    }
  };
  if (field.kind === "check") return h("input", {
    ...about,
    type: "checkbox"
  });
  if (field.kind === "select") return h("select", {
    ...about,
    class: "field"
  });
  const list = field.options.length ? `find-${field.name}` : null;
  const input = h("input", {
    ...about,
    class: "field",
    placeholder: field.hint,
    autocomplete: "off",
    spellcheck: false,
    list
  });
  input.style.width = `calc(${field.width}ch + 18px)`;
  return input;
}
function setValue(control, field) {
  if (control instanceof HTMLInputElement && control.type === "checkbox") control.checked = Boolean(field.value);
  else control.value = String(field.value);
}
function fieldOf(field) {
  const control = controlOf(field);
  const label = field.kind === "check" ? h("label", {
    class: "find-field check",
    title: field.title
  }, control, h("span", {}, field.label)) : h("label", {
    class: "find-field",
    title: field.title
  }, h("span", {
    class: "caption"
  }, field.label), control, field.kind === "text" && field.options.length ? h("datalist", {
    id: `find-${field.name}`
  }, ...field.options.map((each) => h("option", {
    value: each.name
  }))) : null);
  let options = "", value = "";
  const paint = (now) => {
    const offered = JSON.stringify(now.options), given = JSON.stringify(now.value);
    if (offered !== options && control instanceof HTMLSelectElement) {
      const chosen = control.value;
      control.replaceChildren(...now.options.map((each) => h("option", {
        value: each.name
      }, each.label)));
      control.value = chosen;
    }
    if (given !== value) setValue(control, now);
    if (control instanceof HTMLInputElement && control.placeholder !== now.hint) control.placeholder = now.hint;
    [options, value] = [
      offered,
      given
    ];
  };
  const read = () => control instanceof HTMLInputElement && control.type === "checkbox" ? control.checked : control.value;
  paint(field);
  return {
    name: field.name,
    label,
    paint,
    read
  };
}
function drawGap(wb, gap) {
  const level = h("i");
  level.style.width = `${gap.share * 100}%`;
  return h("div", {
    class: gap.proved ? "gap proved" : "gap"
  }, h("b", {}, gap.best), h("span", {
    class: "muted"
  }, termLabel(wb, "Gap")), h("div", {
    class: "bar",
    role: "img",
    ariaLabel: gap.text
  }, level), h("span", {
    class: gap.proved ? "good" : "muted"
  }, gap.proved ? `\u2713 ${gap.text}` : gap.text));
}
function findOf(wb) {
  let fields = [];
  const start = h("button", {
    class: "btn primary",
    type: "submit",
    data: {
      focus: "find"
    }
  });
  const stop = h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: "stop-finding"
    },
    onclick: () => wb.send({
      verb: "stop_finding"
    })
  }, "Stop");
  const sentence = h("div", {
    class: "sentence"
  }), groups = h("div", {
    class: "groups"
  }), level = h("i");
  const options = h("summary", {}), details = h("details", {
    class: "options"
  }, options, groups);
  const bar = h("div", {
    class: "progress",
    role: "progressbar",
    ariaLabel: "search",
    ariaValueMin: "0",
    ariaValueMax: "100"
  }, level);
  const line = h("div", {
    class: "line muted"
  }), gap = h("div"), message = h("div", {
    class: "says"
  });
  const present = h("div", {
    class: "present-plan"
  });
  const form = h("form", {
    ariaLabel: "What to find",
    onchange: () => wb.expect({
      verb: "find"
    }),
    onsubmit: (event) => {
      event.preventDefault();
      wb.send(Object.assign(
        /** @type {Gesture} */
        {
          verb: "find"
        },
        Object.fromEntries(fields.map((each) => [
          each.name,
          each.read()
        ]))
      ));
    }
  }, sentence, details, line);
  const element = h("section", {
    class: "search-form",
    ariaLabel: "Find a plan"
  }, form, bar, gap, present, message), speak = speaker(wb);
  const paint = painter((state) => {
    if (!fields.length) {
      fields = state.fields.map(fieldOf);
      const labels = (group) => {
        const [checks, others] = [
          true,
          false
        ].map((isCheck) => fields.filter((_, i) => state.fields[i].group === group && state.fields[i].kind === "check" === isCheck).map((each) => each.label));
        return checks.length ? [
          ...others,
          h("div", {
            class: "checks"
          }, ...checks)
        ] : others;
      };
      sentence.replaceChildren(...labels(""), start, stop);
      groups.replaceChildren(...[
        ...new Set(state.fields.map((each) => each.group))
      ].filter(Boolean).map((group) => h("fieldset", {}, h("legend", {}, group), h("div", {
        class: "inputs"
      }, ...labels(group)))));
    } else fields.forEach((each, i) => each.paint(state.fields[i]));
    options.textContent = state.options;
    element.dataset.phase = state.phase;
    start.textContent = state.label;
    stop.hidden = !state.running;
    line.textContent = state.line;
    line.hidden = !state.line;
    bar.hidden = !state.running;
    bar.classList.toggle("unknown", !state.fraction);
    level.style.width = state.fraction ? `${state.fraction * 100}%` : "";
    bar.ariaValueNow = String(Math.round(state.fraction * 100));
    gap.replaceChildren(...state.gap ? [
      drawGap(wb, state.gap)
    ] : []);
    present.hidden = !state.present;
    keepingFocus(wb.root, present, () => present.replaceChildren(h("i", {
      ariaHidden: "true"
    }), h("span", {}, ...withCode(state.present)), ...state.pins.map((each) => actOf(wb, each))));
    keepingFocus(wb.root, message, () => paintMessage(wb, message, state));
    speak(state.said);
  });
  return {
    element,
    paint
  };
}
function paintMessage(wb, message, state) {
  message.hidden = !state.message;
  message.className = `says ${state.tone}`;
  message.replaceChildren(h("p", {}, ...withCode(state.message)), ...state.ways_out.length ? [
    h("ul", {}, ...state.ways_out.map((way) => h("li", {}, ...withCode(way))))
  ] : [], ...state.acts.length ? [
    h("div", {
      class: "acts"
    }, ...state.acts.map((each) => actOf(wb, each)))
  ] : []);
}

// workbench/widgets/static/picking.js
var PICKED = ":is([data-tab=graph],[data-tab=propagation]) .image [data-subject]";
function openValueMenu(wb, of, path, anchor, rank = null) {
  if (wb.menu?.anchor === anchor) {
    closeMenu(wb);
    return;
  }
  wb.asked = {
    key: `${of} ${path}`,
    anchor,
    find: () => of === "box" ? boxOf(wb, path) : one(wb.root, `[data-focus="${CSS.escape(anchor.dataset.focus ?? "")}"]`)
  };
  wb.send({
    verb: "take",
    menu: true,
    key: wb.asked.key,
    of,
    path,
    rank,
    source: "*"
  });
}
var boxOf = (wb, path) => (
  /** @type {Marked[]} */
  all(wb.root, PICKED).find((mark) => mark.dataset.subject === path)
);
function pickBox(wb, mark) {
  const path = mark.dataset.subject ?? "";
  if (!isChosen(wb, path)) wb.send({
    verb: "select",
    path
  });
  wb.say(`${path} selected.`);
  openValueMenu(wb, "box", path, mark);
}
var isBox = (mark) => mark.matches(PICKED);
function makeBoxesPickable(wb) {
  wb.subscribe("picked", (mark) => {
    if (!isBox(mark)) return false;
    pickBox(wb, mark);
    return true;
  });
}
function drawLine(wb, cell) {
  const pick2 = h("button", {
    class: "ask number linepick",
    type: "button",
    tabIndex: -1,
    title: `Annotate values of ${cell.line}`,
    ariaLabel: `${cell.line}. Annotate the values of this line`,
    ariaHasPopup: "menu",
    data: {
      focus: `line ${cell.line} ${cell.rank}`
    },
    onclick: () => openValueMenu(wb, "line", cell.line, pick2, cell.rank)
  }, cell.text);
  return pick2;
}

// workbench/widgets/static/replay.js
var DIRECTIONS = {
  forward: "\u2193",
  backward: "\u2191",
  across: "\u2194"
};
var STEP_MS = 450;
var replayIn = /* @__PURE__ */ new WeakMap();
function paintReplay(wb, place, state) {
  if (state.waiting !== void 0) {
    replayIn.delete(place);
    const level = h("i");
    place.replaceChildren(h("div", {
      class: "waiting",
      role: "status"
    }, state.waiting, h("div", {
      class: "progress unknown"
    }, level)));
    return;
  }
  const known = replayIn.get(place), replay = known ?? replayOf(wb, state);
  if (!known) {
    replayIn.set(place, replay);
    place.replaceChildren(replay.element);
  }
  replay.paint(state);
}
function replayOf(wb, first) {
  let state = first, sending = 0, playing = 0;
  let wanted = null;
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const slider2 = h("input", {
    type: "range",
    min: "0",
    step: "1",
    class: "slider",
    ariaLabel: "Step of the propagation",
    data: {
      focus: "replay slider"
    },
    oninput: () => {
      pause();
      go(Number(slider2.value));
    }
  });
  const button = (name, text, does) => h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: `replay ${name}`
    },
    onclick: does
  }, text);
  const move = (by) => {
    pause();
    go(at() + by);
  };
  const back = button("back", "\u2039", () => move(-1)), on = button("on", "\u203A", () => move(1));
  const play = button("play", "Play", () => {
    if (playing) pause();
    else if (still()) go(state.last);
    else start();
  });
  const count = h("span", {
    class: "mono count"
  }), lines = h("div", {
    class: "did"
  });
  const conflicts = button("conflicts", "", () => heading("Conflicts")?.scrollIntoView({
    block: "center"
  }));
  const heading = (text) => all(wb.root, ".tables h3").find((element2) => element2.textContent === text);
  const element = h("div", {}, h("div", {
    class: "controls",
    role: "group",
    ariaLabel: "Replay"
  }, back, slider2, on, play, count, conflicts), lines);
  back.ariaLabel = "Step back";
  on.ariaLabel = "Step forward";
  let placed = false;
  const at = () => wanted ?? Number(slider2.value);
  const go = (step) => {
    wanted = Math.max(0, Math.min(state.last, step));
    slider2.value = String(wanted);
    mark(wanted);
    clearTimeout(sending);
    send();
  };
  const send = () => {
    if (wanted === null || !slider2.isConnected) return;
    if (wb.root.dataset.busy === "true") {
      sending = setTimeout(send, 20);
      return;
    }
    const step = wanted;
    wanted = null;
    wb.send({
      verb: "step",
      step
    });
  };
  const mark = (step) => {
    count.textContent = `step ${step.toLocaleString("en")} of ${state.last.toLocaleString("en")}`;
    back.disabled = step <= 0;
    on.disabled = step >= state.last;
  };
  const start = () => {
    if (at() >= state.last) go(0);
    playing = setInterval(() => {
      if (!slider2.isConnected || at() >= state.last) pause();
      else if (wb.root.dataset.busy !== "true") go(at() + state.stride);
    }, STEP_MS);
    label();
  };
  const pause = () => {
    clearInterval(playing);
    playing = 0;
    label();
  };
  const label = () => {
    play.textContent = playing ? "Pause" : still() ? "Play to the end" : "Play";
  };
  const drawLine3 = (line) => h("p", {
    data: {
      subject: line.subject || null
    }
  }, h("b", {
    class: "way"
  }, `${DIRECTIONS[line.direction]} ${line.direction}`), h("span", {
    class: "tag",
    data: {
      c: line.axis.colour
    }
  }, line.axis.name), " from ", h("span", {
    class: "mono"
  }, line.from), " to ", h("span", {
    class: "mono"
  }, line.to), h("span", {
    class: "muted"
  }, `  over ${line.over}`));
  const paint = painter((now) => {
    state = now;
    slider2.max = String(now.last);
    slider2.disabled = play.disabled = !now.last;
    slider2.setAttribute("aria-valuetext", now.said);
    if (wanted === null && (!placed || wb.root.dataset.busy !== "true")) slider2.value = String(now.step);
    placed = true;
    mark(at());
    label();
    conflicts.hidden = !now.conflicts;
    conflicts.textContent = `${now.conflicts} \u2193`;
    conflicts.ariaLabel = `${now.conflicts}, below`;
    requestAnimationFrame(() => showArrived(wb));
    lines.replaceChildren(...now.start ? [
      h("p", {}, ...withCode(now.start))
    ] : [], ...now.lines.map(drawLine3), now.more ? h("p", {
      class: "muted"
    }, now.more) : "");
  });
  return {
    element,
    paint
  };
}
function showArrived(wb) {
  for (const image of wb.root.querySelectorAll(".tables[data-tab=propagation] .image")) {
    const arrived = all(image, "title").find((title) => title.textContent.startsWith("\u2192 "))?.parentElement;
    if (!arrived) continue;
    const box = arrived.getBoundingClientRect(), frame = image.getBoundingClientRect();
    const off = (low, high, from, to) => low < from || high > to ? (low + high) / 2 - (from + to) / 2 : 0;
    image.scrollBy({
      left: off(box.left, box.right, frame.left, frame.right),
      top: off(box.top, box.bottom, frame.top, frame.bottom),
      behavior: "instant"
    });
  }
}

// workbench/widgets/static/stage_controls.js
var PIPELINE_ZONE = "#pipeline";
function sendStage(wb, change, value = "") {
  wb.send({
    verb: "pipeline",
    change,
    value: String(value),
    zone: PIPELINE_ZONE
  });
}
function drawControl2(wb, control) {
  const id = `stage-${control.key}-${wb.view}`;
  const elements = {
    number: stageNumber,
    select: stageSelect,
    menu: stageMenu,
    slider: stageSlider,
    choice: stageChoice
  }[control.kind](wb, control, id);
  return h("div", {
    class: `control by-${control.kind}`,
    data: {
      control: control.key
    }
  }, h("label", {
    class: "label",
    id: `${id}-label`,
    htmlFor: id
  }, termLabel(wb, control.label)), ...elements);
}
function stageNumber(wb, control, id) {
  const input = h("input", {
    id,
    class: "field",
    value: control.value,
    inputMode: "numeric",
    data: {
      focus: id
    },
    onchange: () => sendStage(wb, control.key, input.value),
    onkeydown: (event) => {
      if (event.key === "Escape") {
        input.value = control.value;
        input.blur();
      } else step(event);
    }
  });
  const by = (change) => sendStage(wb, control.key, Math.max(1, Number(control.value) + change));
  const step = (event) => {
    const change = {
      ArrowUp: 1,
      ArrowDown: -1
    }[event.key];
    if (change) {
      event.preventDefault();
      by(change);
    }
  };
  const button = (sign, change, name) => h("button", {
    class: "btn icon",
    type: "button",
    ariaLabel: name,
    disabled: change < 0 && Number(control.value) <= 1 || change > 0 && control.most > 0 && Number(control.value) >= control.most,
    data: {
      focus: `${id}${sign}`
    },
    onclick: () => by(change)
  }, sign);
  return [
    h("span", {
      class: "stepper"
    }, button("\u2212", -1, `fewer ${control.label.toLowerCase()}`), input, button("+", 1, `more ${control.label.toLowerCase()}`))
  ];
}
function stageSelect(wb, control, id) {
  const select = h("select", {
    id,
    class: "field",
    data: {
      focus: id
    },
    onchange: () => sendStage(wb, control.key, select.value)
  }, ...control.options.map((option) => h("option", {
    value: option.value,
    selected: option.value === control.value,
    title: option.note
  }, option.label)));
  return [
    select
  ];
}
function stageMenu(wb, control, id) {
  const now = control.options.find((option) => option.value === control.value);
  const items = control.options.map((option) => ({
    label: option.label,
    note: option.note,
    gesture: {
      verb: "pipeline",
      change: control.key,
      value: option.value,
      zone: PIPELINE_ZONE
    }
  }));
  const button = h("button", {
    id,
    class: "field open",
    type: "button",
    ariaHasPopup: "menu",
    data: {
      focus: id
    },
    onclick: () => {
      openMenu(wb, button, items);
      wb.menu?.element.classList.add("sentences");
    }
  }, now?.label, h("span", {
    ariaHidden: "true"
  }, "\u25BE"));
  button.setAttribute("aria-labelledby", `${id}-label ${id}`);
  return [
    button,
    h("span", {
      class: "muted says"
    }, now?.note)
  ];
}
function stageSlider(wb, control, id) {
  const values = control.options.map((option) => option.value), at = values.indexOf(control.value);
  const shown = h("output", {
    class: "mono"
  }, control.value);
  const say2 = () => {
    const value = values[Number(range.value)];
    shown.textContent = value;
    range.setAttribute("aria-valuetext", value);
  };
  const range = h("input", {
    id,
    type: "range",
    min: "0",
    max: String(values.length - 1),
    step: "1",
    data: {
      focus: id
    },
    oninput: say2,
    onchange: () => sendStage(wb, control.key, values[Number(range.value)])
  });
  range.value = String(at);
  say2();
  return [
    h("span", {
      class: "slide"
    }, range, shown)
  ];
}
function stageChoice(wb, control, id) {
  const radio = (option) => h("label", {
    title: option.note
  }, h("input", {
    type: "radio",
    name: id,
    value: option.value,
    checked: option.value === control.value,
    data: {
      focus: `${id}-${option.value}`
    },
    onchange: () => sendStage(wb, control.key, option.value)
  }), h("span", {}, option.label));
  const group = h("span", {
    class: "segments",
    role: "radiogroup"
  }, ...control.options.map(radio));
  group.setAttribute("aria-labelledby", `${id}-label`);
  return [
    group
  ];
}

// workbench/widgets/static/stage_draw.js
var EVEN_PX = 168;
var MIN_LABEL_PX = 15;
var MIN_PX2 = 3;
var blockHeight = (block) => Math.max(block.height * EVEN_PX, MIN_PX2);
function drawColumns(state, starts) {
  const bounds = [
    0,
    ...starts,
    state.blocks.length
  ];
  return state.heads.map((head, device) => {
    const pieces = state.pieces.map((_, piece) => piece).filter((piece) => state.pieces[piece].stage === device);
    return h("div", {
      class: "column",
      role: "group",
      ariaLabel: head.name,
      data: {
        stage: String(device)
      }
    }, drawStageHead(head), h("div", {
      class: "pieces"
    }, ...pieces.map((piece) => drawPiece(state, piece, bounds[piece], bounds[piece + 1]))));
  });
}
function drawStageHead(head) {
  return h("div", {
    class: "stagehead"
  }, h("div", {
    class: "stagename"
  }, head.name), h("dl", {}, ...head.facts.map((fact) => h("div", {
    title: fact.title,
    data: {
      fact: fact.label
    }
  }, h("dt", {}, fact.label), h("dd", {
    class: fact.tone
  }, fact.text)))));
}
function drawPiece(state, piece, from, to) {
  const next = state.pieces[piece + 1];
  const blocks = state.blocks.slice(from, to);
  const edge = next && h("div", {
    class: "boundary",
    role: "separator",
    tabIndex: 0,
    title: "Drag, or press the arrow keys",
    ariaLabel: `boundary between ${state.pieces[piece].name} and ${next.name}`,
    ariaValueNow: String(to),
    ariaValueMin: "1",
    ariaValueMax: String(state.blocks.length - 1),
    ariaValueText: `${next.name} begins at ${state.blocks[to].path}`,
    ariaOrientation: "horizontal",
    data: {
      piece: String(piece + 1),
      focus: `boundary-${piece + 1}`
    }
  }, h("i", {}));
  return h("div", {
    class: "piece",
    data: {
      piece: String(piece)
    }
  }, state.chunks > 1 ? h("div", {
    class: "chunk"
  }, `chunk ${Math.floor(piece / state.stages)}`) : null, ...mergeLow(blocks).map(drawRun), edge);
}
function mergeLow(blocks) {
  const runs = [];
  for (const block of blocks) {
    const low = blockHeight(block) < MIN_LABEL_PX, last = runs.at(-1);
    if (low && last?.low && (last.blocks[0].alike === block.alike || !last.blocks[0].alike.includes("*") && !block.alike.includes("*"))) {
      last.blocks.push(block);
    } else runs.push({
      low,
      blocks: [
        block
      ]
    });
  }
  return runs;
}
function drawRun({ low, blocks }) {
  const slices = blocks.map((block) => {
    const slice = h("div", {
      class: "block1",
      title: block.title,
      data: {
        block: block.path
      }
    }, low ? "" : h("span", {}, block.path));
    slice.style.height = `${blockHeight(block)}px`;
    return slice;
  });
  if (!low) return slices[0];
  const tall = blocks.reduce((sum2, block) => sum2 + blockHeight(block), 0) >= MIN_LABEL_PX;
  const [one2, end] = [
    blocks[0].path,
    blocks[blocks.length - 1].path
  ];
  const name = blocks.length > 1 ? blocks[0].alike === blocks[blocks.length - 1].alike ? `${one2}\u2013${end.slice(end.lastIndexOf("/") + 1)}` : `${one2} \u2026 ${end}` : one2;
  return h("div", {
    class: "run1"
  }, ...slices, tall ? h("span", {
    class: "runname"
  }, name) : null);
}
function drawSkips(state) {
  if (!state.skips.length) return [];
  return [
    h("span", {
      class: "label"
    }, "Skips "),
    ...state.skips.map((skip) => h("span", {
      class: "skip",
      title: `of one micro-batch, straight from ${skip.from} to ${skip.to}`
    }, `${skip.from} \u2192 ${skip.to} `, h("b", {}, skip.text)))
  ];
}

// workbench/widgets/static/stage_edges.js
var boundsOf = (starts, count, piece) => [
  (starts[piece - 2] ?? 0) + 1,
  (starts[piece] ?? count) - 1
];
function movedStarts(starts, count, piece, to) {
  const [least, most] = boundsOf(starts, count, piece), start = Math.max(least, Math.min(most, to));
  return start === starts[piece - 1] ? starts : starts.map((value, i) => i === piece - 1 ? start : value);
}
function nearestEdge(heights, first, [least, most], down) {
  let at = first, passed = 0;
  while (down > 0 && at < most && passed + heights[at] / 2 < down) passed += heights[at++];
  while (down < 0 && at > least && passed + heights[at - 1] / 2 < -down) passed += heights[--at];
  return at;
}

// workbench/widgets/static/stage_drag.js
var NO_STAGES = {
  blocks: [],
  starts: [],
  stages: 1,
  chunks: 1,
  pieces: [],
  heads: [],
  skips: [],
  even: ""
};
var STEPS = {
  ArrowDown: 1,
  ArrowRight: 1,
  ArrowUp: -1,
  ArrowLeft: -1,
  PageDown: 4,
  PageUp: -4,
  Home: -Infinity,
  End: Infinity
};
function stageColumns(wb, preview) {
  const columns = h("div", {
    class: "columns"
  }), skips = h("div", {
    class: "skips"
  });
  const element = h("div", {
    class: "stageboard",
    role: "group",
    ariaLabel: "Stages and their blocks"
  }, columns);
  let state = NO_STAGES;
  let starts = [];
  const draw = () => keepingFocus(wb.root, columns, () => columns.replaceChildren(...drawColumns(state, starts)));
  const paint = (next) => {
    state = next;
    starts = [
      ...next.starts
    ];
    draw();
    skips.replaceChildren(...drawSkips(state));
  };
  const restore = (anyway = false) => {
    if (!anyway && `${starts}` === `${state.starts}`) return;
    starts = [
      ...state.starts
    ];
    draw();
  };
  const move = (piece, to) => {
    const moved = movedStarts(starts, state.blocks.length, piece, to);
    if (moved === starts) return false;
    starts = moved;
    draw();
    return true;
  };
  const pathOf = (piece) => state.blocks[starts[piece - 1]].path;
  const say2 = (piece) => wb.say(`${state.pieces[piece].name} begins at ${pathOf(piece)}`);
  const send = (piece) => {
    wb.placed = true;
    sendStage(wb, "boundary", `${piece} ${pathOf(piece)}`);
  };
  columns.addEventListener("pointerdown", (event) => {
    const edge = around(targetOf(event), ".boundary");
    if (!edge || event.button) return;
    event.preventDefault();
    edge.focus({
      preventScroll: true
    });
    const piece = Number(edge.dataset.piece);
    dragBoundary(wb, columns, event, {
      piece,
      state,
      start: () => starts[piece - 1],
      bounds: () => boundsOf(starts, state.blocks.length, piece),
      move: (to) => move(piece, to),
      send: () => send(piece),
      restore: () => restore(true),
      preview
    });
  });
  columns.addEventListener("keydown", (event) => {
    const edge = around(targetOf(event), ".boundary");
    const step = STEPS[event.key];
    if (!edge || !step) return;
    event.preventDefault();
    const piece = Number(edge.dataset.piece);
    if (move(piece, starts[piece - 1] + step)) {
      say2(piece);
      send(piece);
    } else wb.say("End of range: each stage keeps at least one block.");
  });
  const heads = (next) => all(columns, ".stagehead").forEach((head, device) => {
    if (next.heads[device]) head.replaceWith(drawStageHead(next.heads[device]));
  });
  return {
    element,
    skips,
    paint,
    heads,
    restore
  };
}
function dragBoundary(wb, columns, event, { piece, state, start, bounds, move, send, restore, preview }) {
  const first = start(), heights = state.blocks.map((block) => blockHeight(block)), from = event.clientY;
  let requested = null;
  const tries = () => {
    if (wb.root.dataset.busy === "true" || start() === (requested ?? first)) return;
    requested = start();
    wb.send({
      verb: "try_boundary",
      value: `${piece} ${state.blocks[requested].path}`,
      zone: PIPELINE_ZONE
    });
  };
  wb.whileDragging = (table) => {
    preview(table.blocks);
    tries();
  };
  wb.dragging = true;
  columns.classList.add("dragging");
  columns.setPointerCapture(event.pointerId);
  const stop = new AbortController();
  const end = (last) => {
    stop.abort();
    wb.dragging = false;
    wb.whileDragging = null;
    columns.classList.remove("dragging");
    if (last.type === "pointerup" && start() !== first) send();
    else {
      restore();
      if (requested !== null) wb.send({
        verb: "try_boundary",
        value: "",
        zone: PIPELINE_ZONE
      });
    }
    wb.paint();
  };
  columns.addEventListener("pointermove", (now) => {
    if (move(nearestEdge(heights, first, bounds(), now.clientY - from))) tries();
  }, {
    signal: stop.signal
  });
  columns.addEventListener("pointerup", end, {
    signal: stop.signal
  });
  columns.addEventListener("pointercancel", end, {
    signal: stop.signal
  });
  document.addEventListener("keydown", (key) => {
    if (key.key === "Escape") {
      key.preventDefault();
      end(key);
    }
  }, {
    signal: stop.signal,
    capture: true
  });
}

// workbench/widgets/static/stages.js
var pipelineIn = /* @__PURE__ */ new WeakMap();
function paintPipeline(wb, place, state) {
  const pipeline = pipelineIn.get(place) ?? makePipeline(wb, place);
  pipelineIn.set(place, pipeline);
  place.dataset.kind = state.kind;
  for (const paint of pipeline.parts) paint(state);
}
function part(element, pick2, draw) {
  const paint = painter(draw);
  return (state) => {
    const shown = pick2(state);
    element.hidden = shown === void 0;
    if (shown !== void 0) paint(shown);
  };
}
var ofPipeline = (pick2) => (state) => state.kind === "pipeline" ? pick2(state) : void 0;
function makePipeline(wb, place) {
  const controls = h("div", {
    class: "controls"
  }), refused = h("div", {
    class: "refusedhere"
  }), first = h("div", {
    class: "invitation"
  });
  const figures = h("div", {
    class: "stagefigures"
  }), problem = h("div", {
    class: "failure",
    role: "alert",
    hidden: true
  });
  const board = stageColumns(wb, (blocks) => preview(blocks));
  const balances = h("div", {
    class: "balances",
    role: "group",
    ariaLabel: "Set the boundaries"
  });
  const below = h("div", {
    class: "below"
  }, balances, board.skips);
  place.replaceChildren(first, controls, refused, problem, figures, board.element, below);
  const paintInvitation = part(first, (state) => state.kind === "none" ? state : void 0, (state) => drawInvitation(wb, first, state));
  const paintControls = part(controls, (state) => state.kind === "none" ? void 0 : state.controls, (rows) => keepingFocus(wb.root, controls, () => controls.replaceChildren(...rows.map((row) => drawControl2(wb, row)), drawRemove(wb))));
  const paintProblem = part(problem, (state) => state.kind === "broken" ? state.problem : void 0, (wrong) => problem.replaceChildren(...drawProblem(wrong).filter(isShown)));
  const paintFigures = part(figures, ofPipeline((state) => ({
    rows: state.figures,
    nominal: state.nominal
  })), ({ rows, nominal }) => figures.replaceChildren(...rows.map((row) => drawStageFigure(wb, row)), nominal ? h("p", {
    class: "muted nominal"
  }, nominal) : ""));
  const paintBalances = part(below, ofPipeline((state) => state.balances), (rows) => keepingFocus(wb.root, balances, () => balances.replaceChildren(...rows.map((balance) => drawBalance(wb, balance)))));
  const paintBoard = part(board.element, ofPipeline((state) => state.board), board.paint);
  const paintUnplaced = (state) => {
    if (!wb.placed) paintBoard(state);
  };
  const preview = ([{ stages: state }, below2]) => {
    if (state?.kind !== "pipeline") return;
    paintFigures(state);
    board.heads(state.board);
    const drawn = below2?.picture, picture = drawn && one(wb.root, `[data-picture="${CSS.escape(drawn.name)}"]`);
    if (!drawn || !picture) return;
    paintPicture(wb, picture, drawn);
    const note = picture.parentElement?.querySelector(":scope > .note");
    if (note instanceof HTMLElement) note.hidden = !below2.note;
  };
  const parts = [
    paintInvitation,
    paintControls,
    paintProblem,
    paintFigures,
    paintBalances,
    paintUnplaced
  ];
  return {
    parts,
    restore: board.restore
  };
}
function drawInvitation(wb, parent, { about, problem, button, choices }) {
  parent.replaceChildren(h("h3", {}, "No pipeline yet"), h("p", {}, "A pipeline divides the layers into stages on separate devices and processes the batch in micro-batches."), h("p", {
    class: "muted"
  }, ...withCode(about)), problem ? h("div", {
    class: "failure"
  }, ...drawProblem(problem)) : "", button ? h("button", {
    class: "btn primary",
    type: "button",
    data: {
      focus: "pipeline-make"
    },
    onclick: () => sendStage(wb, "make")
  }, button) : "", ...choices.map(({ value, label, note }) => h("p", {
    class: "way"
  }, h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: `pipeline-make-${value}`
    },
    onclick: () => sendStage(wb, "make", value)
  }, label), h("span", {
    class: "muted"
  }, ...withCode(note)))));
}
function drawRemove(wb) {
  return h("button", {
    class: "btn remove",
    type: "button",
    data: {
      focus: "pipeline-remove"
    },
    title: "Remove the pipeline and its mesh axis.",
    onclick: () => sendStage(wb, "remove")
  }, "Remove pipeline");
}
function drawStageFigure(wb, figure) {
  return h("div", {
    class: "stagefigure",
    data: {
      stagefigure: figure.key
    }
  }, h("div", {
    class: "label"
  }, termLabel(wb, figure.label)), h("div", {
    class: `value ${figure.tone}`
  }, figure.text), h("div", {
    class: "sub"
  }, figure.note));
}
function drawBalance(wb, balance) {
  return h("div", {
    class: "way"
  }, h("button", {
    class: "btn",
    type: "button",
    ariaPressed: String(balance.on),
    data: {
      focus: `balance-${balance.key}`,
      balance: balance.key
    },
    onclick: () => sendStage(wb, balance.key)
  }, balance.label), h("span", {
    class: "muted"
  }, balance.note));
}
function paintStageRefusal(wb, refusal, seq) {
  const place = one(wb.root, ".refusedhere");
  if (!place) return;
  const mine = refusal?.zone === PIPELINE_ZONE ? refusal : null;
  const shown = mine ? `${seq}` : "";
  if ((place.dataset.told ?? "") === shown) return;
  place.dataset.told = shown;
  place.replaceChildren(...mine ? [
    drawRefusal(wb, mine)
  ] : []);
  const pipeline = around(place, ".pipeline");
  if (pipeline) pipelineIn.get(pipeline)?.restore();
}

// workbench/widgets/static/tensors.js
var SEARCHES = {
  tensors: [
    "Search tensors",
    "Search tensors: path, dimension, axis, role"
  ],
  values: [
    "Search intermediate values",
    "Search values: scope, operation, dimension, line"
  ]
};
var NAMELESS = [
  "",
  "_"
];
function lazyChip(cell, dim, source = "*") {
  const { of, path } = cell;
  return {
    lazy: true,
    key: `${of} ${path} ${dim.place} ${source}`,
    of,
    path,
    rank: cell.chips.length,
    place: dim.place,
    source,
    dim: dim.label,
    rule: dim.dim,
    nameless: NAMELESS.includes(dim.dim),
    illegal: {
      rule: {},
      only: {}
    }
  };
}
function drawChips(wb, cell) {
  return h("span", {
    class: "dims"
  }, ...cell.chips.map((dim) => drawDim(wb, cell, dim)), cell.own ? drawOverride(wb, cell) : null, ...(cell.tags ?? []).map((tag) => drawTag(wb, tag)));
}
function drawDim(wb, cell, dim) {
  const chip = lazyChip(cell, dim);
  const axes = dim.axes.map((axis, i) => h("span", {
    class: "on",
    title: `Why on ${axis.name}?`,
    data: {
      c: axis.colour,
      source: axis.name,
      asks: `axis ${cell.of} ${dim.place} ${axis.name} ${cell.path}`,
      c0: axis.colour === null ? "" : null
    }
  }, dim.axes.length > 1 ? `${i + 1} ${axis.name}` : axis.name));
  const grip = h("button", {
    class: "grip",
    type: "button",
    tabIndex: -1,
    ariaPressed: "false",
    ariaLabel: `${dim.title}. Of ${cell.path}`,
    title: dim.title,
    ariaHasPopup: "menu",
    "aria-roledescription": "draggable dimension",
    data: {
      focus: chip.key,
      dim: dim.dim,
      place: dim.place
    }
  }, h("b", {}, dim.label), ...axes, ...drawMarks(dim.marks));
  const element = h("span", {
    class: "dim",
    data: {
      chip: chip.key,
      c: dim.axes[0]?.colour ?? null
    }
  }, grip);
  element.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    askMenu(wb, chip, grip);
  });
  makeDraggable(wb, element, grip, grip, (event) => {
    const axis = dim.axes.length > 1 && event && around(targetOf(event), ".on")?.dataset.source;
    return axis ? lazyChip(cell, dim, axis) : chip;
  });
  return element;
}
function drawOverride(wb, cell) {
  const [kind, pattern] = [
    cell.own.split(" ")[0],
    cell.own.slice(cell.own.indexOf(" ") + 1)
  ];
  const back = cell.of === "value" ? "Remove the constraint" : "Remove the override";
  return h("button", {
    class: "own",
    type: "button",
    tabIndex: -1,
    title: `${kind} ${pattern}. ${back}`,
    ariaLabel: `${kind} ${pattern}. ${back}`,
    data: {
      focus: `own ${cell.path}`
    },
    onclick: () => wb.send({
      verb: "by_rules",
      of: cell.of,
      path: cell.path,
      rank: cell.chips.length,
      zone: "tables"
    })
  }, cell.of === "value" ? `constrained ${cell.given}` : `override ${cell.given}`.trim(), h("span", {
    ariaHidden: "true"
  }, " \xD7"));
}
function drawTag(wb, tag) {
  return h("button", {
    class: "own",
    type: "button",
    tabIndex: -1,
    title: tag.title,
    ariaLabel: tag.title,
    data: {
      focus: `tag ${tag.title}`
    },
    onclick: () => wb.send(tag.gesture)
  }, tag.label, h("span", {
    ariaHidden: "true"
  }, " \xD7"));
}
function tensorBar(wb) {
  const bar = h("div", {
    class: "tensorbar"
  });
  const paint = painter(({ zones, tab, refusal }) => keepingFocus(wb.root, bar, () => {
    const targets = zones.map((zone) => h("span", {
      class: "droptarget",
      data: {
        axis: zone.axis,
        c: zone.colour
      },
      onclick: (event) => {
        if (wb.held) drop(wb, zone.axis, event.shiftKey);
      }
    }, h("b", {}, zone.title), zone.size ? h("span", {
      class: "muted"
    }, `\xD7${zone.size}`) : null));
    const choice = (only, label, title) => h("button", {
      class: "choice",
      type: "button",
      ariaPressed: String(wb.only === only),
      title,
      data: {
        focus: `only ${only}`
      },
      onclick: () => {
        wb.only = only;
        for (const button of all(bar, ".choice")) button.ariaPressed = String(button.dataset.focus === `only ${only}`);
      }
    }, label);
    bar.replaceChildren(h("div", {
      class: "line",
      role: "group",
      ariaLabel: "Targets"
    }, h("span", {
      class: "muted lead"
    }, "Drop on"), ...targets), h("div", {
      class: "line",
      role: "group",
      ariaLabel: "What a drop changes"
    }, h("span", {
      class: "muted lead"
    }, "Drop changes"), h("span", {
      class: "choices"
    }, choice(false, "the rule", "The rule of this dimension, in every tensor"), choice(true, tab === "values" ? "only this value" : "only this tensor", "An override of this tensor, or a constraint on this value (hold Alt to switch while dropping)"))), refusal ? drawRefusal(wb, refusal) : "");
  }));
  return {
    bar,
    paint
  };
}

// workbench/widgets/static/tables.js
var BLOCK_DRAWERS = {
  chips: drawChips,
  line: drawLine,
  parts: [
    {
      field: "picker",
      place: "tensor-picker",
      paint: (wb, place, { picker }) => picker && patch(place, [
        {
          key: "tensor",
          ...picker
        }
      ], (state) => drawPicker(wb, state))
    },
    {
      field: "replay",
      place: "replay",
      paint: (wb, place, { replay }) => replay && paintReplay(wb, place, replay)
    },
    {
      field: "picture",
      place: "picture",
      paint: (wb, place, { picture }) => {
        if (!picture) return;
        paintPicture(wb, place, picture);
        stayWide(place);
      }
    },
    {
      field: "stages",
      place: "pipeline",
      paint: (wb, place, { stages }) => stages && paintPipeline(wb, place, stages)
    },
    {
      field: "find",
      place: "finder",
      paint: (wb, place, { find }) => find && paintFind(wb, place, find)
    },
    {
      field: "found",
      place: "found",
      paint: (wb, place, { found }) => found && paintFound(wb, place, found)
    }
  ],
  removePicture: removeCharts
};
function drawPicker(wb, { options, chosen }) {
  const choices = options.map(({ value, label }) => h("option", {
    value,
    selected: value === chosen
  }, label));
  const select = h("select", {
    class: "field",
    data: {
      focus: "picker"
    },
    onchange: () => wb.send({
      verb: "select",
      path: select.value
    })
  }, ...choices);
  return h("label", {}, h("span", {
    class: "label"
  }, "Tensor"), " ", select);
}
function patchBadges(parent, tabs) {
  const shown = all(parent, ".tab");
  const same = shown.length === tabs.length && tabs.every((tab, i) => shown[i].dataset.is === tab.key + tab.label && shown[i].ariaSelected === String(tab.open));
  if (!same) return false;
  tabs.forEach((tab, i) => {
    shown[i].dataset.opens = tab.opens;
    const badge = one(shown[i], ".badge");
    if ((badge?.textContent ?? "") === tab.badge) return;
    badge?.remove();
    if (tab.badge) shown[i].append(h("span", {
      class: "badge"
    }, tab.badge));
  });
  return true;
}
function drawTabs(wb, parent, tabs, row) {
  parent.hidden = tabs.length < 2;
  if (patchBadges(parent, tabs)) return;
  const at = Math.max(tabs.findIndex(({ open }) => open), 0);
  const step = (event, i) => {
    const places = {
      ArrowRight: i + 1,
      ArrowLeft: i - 1,
      Home: 0,
      End: -1
    }, place = places[
      /** @type {"Home"} */
      event.key
    ];
    if (place === void 0) return;
    event.preventDefault();
    const tab = all(parent, ".tab").at(place % tabs.length)?.dataset.opens;
    wb.focusTab = `${row}-${tab}`;
    wb.send({
      verb: "open",
      tab
    });
  };
  const scrolled = parent.scrollLeft;
  parent.replaceChildren(...tabs.map((tab, i) => {
    const button = h("button", {
      class: "tab",
      type: "button",
      role: "tab",
      ariaSelected: String(tab.open),
      tabIndex: i === at ? 0 : -1,
      data: {
        [row]: tab.key,
        is: tab.key + tab.label,
        opens: tab.opens,
        focus: `${row}-${tab.key}`
      },
      onclick: () => wb.send({
        verb: "open",
        tab: button.dataset.opens
      }),
      onkeydown: (event) => step(event, i)
    }, tab.label, tab.badge && h("span", {
      class: "badge"
    }, tab.badge));
    return button;
  }));
  const chosen = one(parent, "[aria-selected=true]");
  parent.scrollLeft = scrolled;
  if (chosen) showTab(parent, chosen);
}
function showTab(strip, tab) {
  const frame = strip.getBoundingClientRect(), at = tab.getBoundingClientRect();
  if (at.left < frame.left || at.right > frame.right) strip.scrollLeft += at.left - frame.left - (frame.width - at.width) / 2;
}
function drawStages(wb, parent, state) {
  parent.hidden = state === null;
  const buttons = state?.options.map((option) => h("button", {
    type: "button",
    class: "choice",
    title: option.title,
    ariaPressed: String(option.value === state.chosen),
    data: {
      focus: `show-stage-${option.value}`
    },
    onclick: () => wb.send({
      verb: "show_stage",
      stage: option.value
    })
  }, option.label)) ?? [];
  parent.replaceChildren(h("span", {
    class: "label"
  }, "Stage"), h("div", {
    class: "choices"
  }, ...buttons));
}
function tablesSection(wb) {
  const views = h("div", {
    class: "tabs",
    role: "tablist",
    ariaLabel: "Views"
  });
  const sections = h("div", {
    class: "tabs sections",
    role: "tablist",
    ariaLabel: "Sections"
  });
  const blocks = h("div");
  let timer = 0;
  const search = h("input", {
    class: "field search",
    type: "search",
    hidden: true,
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => wb.send({
        verb: "open",
        tab: section.dataset.tab,
        search: search.value
      }), 150);
    }
  });
  const targets = tensorBar(wb);
  const scroll = h("div", {
    class: "scroll",
    role: "tabpanel",
    tabIndex: 0,
    ariaLabel: "Table"
  }, blocks);
  const stages = h("div", {
    class: "stage-picker",
    role: "group",
    ariaLabel: "Stage",
    hidden: true
  });
  const section = h("section", {
    class: "tables"
  }, views, sections, h("div", {
    class: "finding"
  }, stages, search), targets.bar, scroll);
  const rowPainter = (parent, row) => painter((state) => {
    const open = state.find((tab) => tab.open);
    const walked = open && wb.focusTab === `${row}-${open.opens}`;
    if (walked) wb.focusTab = "";
    keepingFocus(wb.root, parent, () => drawTabs(wb, parent, state, row), walked ? `${row}-${open.key}` : null);
  });
  const paintStages = painter((state) => keepingFocus(wb.root, stages, () => drawStages(wb, stages, state)));
  const paintTable = painter((state) => {
    const [label, placeholder] = SEARCHES[state.tab] ?? [
      "",
      ""
    ];
    search.hidden = state.search === null;
    targets.bar.classList.toggle("bare", search.hidden);
    if (section.dataset.tab !== state.tab) {
      search.value = state.search ?? "";
      Object.assign(search, {
        placeholder,
        ariaLabel: label
      });
    }
    const tabChanged = section.dataset.tab !== state.tab;
    section.dataset.tab = state.tab;
    keepingFocus(wb.root, blocks, () => patchBlocks(wb, blocks, state.blocks));
    if (tabChanged) scroll.scrollTop = 0;
  });
  return {
    section,
    paintViews: rowPainter(views, "view"),
    paintSections: rowPainter(sections, "tab"),
    paintTable,
    paintStages,
    paintTargets: targets.paint
  };
}
function openTab(wb, tab) {
  wb.send({
    verb: "open",
    tab
  });
  wb.root.querySelector(".tables")?.scrollIntoView({
    block: "nearest"
  });
}

// workbench/widgets/static/board.js
function drawTitle(wb, zone) {
  if (!zone.axis) return h("div", {
    class: "title"
  }, zone.title);
  const size = h("input", {
    class: "size",
    value: zone.size,
    inputMode: "numeric",
    ariaLabel: `size of mesh axis ${zone.axis}`,
    data: {
      focus: `size-${zone.axis}`
    },
    onchange: () => wb.send({
      verb: "resize",
      axis: zone.axis,
      size: size.value
    }),
    onkeydown: (event) => {
      if (event.key === "Escape") {
        size.value = zone.size ?? "";
        size.blur();
      } else stepSize(event, size);
    },
    onblur: () => sendStepped(size)
  });
  const more = h("button", {
    class: "more",
    type: "button",
    ariaLabel: `Menu of mesh axis ${zone.axis}`,
    ariaHasPopup: "menu",
    data: {
      focus: `menu-${zone.axis}`
    },
    onclick: () => openMenu(wb, more, zone.menu, {
      zone: zone.axis
    })
  }, "\u22EF");
  return h("div", {
    class: "title"
  }, drawHandle(wb, zone), h("span", {}, zone.title), h("span", {
    class: "times"
  }, "\xD7"), size, more);
}
function keepInside(wb, element) {
  if (element && element.getBoundingClientRect().right > wb.card.getBoundingClientRect().right) element.classList.add("flip");
}
function drawZone(wb, zone, refusal) {
  const chips = zone.chips.map((chip) => drawChip(wb, chip));
  if (chips.length) the(chips[0], ".grip").tabIndex = 0;
  const refused = refusal?.zone === zone.axis;
  const element = h("div", {
    class: refused ? "zone refused" : "zone",
    role: "group",
    ariaLabel: zone.axis ? `mesh axis ${zone.axis}, size ${zone.size}` : zone.title,
    data: {
      axis: zone.axis,
      c: zone.colour
    }
  }, drawTitle(wb, zone), h("div", {
    class: "chips"
  }, ...chips), zone.hint && h("div", {
    class: "hint"
  }, zone.hint), refused ? drawRefusal(wb, refusal) : null);
  element.addEventListener("click", (event) => {
    if (wb.held && !targetOf(event).closest("button, input")) drop(wb, zone.axis, event.shiftKey);
  });
  return element;
}
function drawSpare(wb, spare, refusal) {
  const name = h("input", {
    class: "field name",
    value: spare.name,
    ariaLabel: "name of the new mesh axis",
    maxLength: 64,
    data: {
      focus: "spare-name"
    }
  });
  const size = h("input", {
    class: "field width",
    value: spare.size,
    inputMode: "numeric",
    ariaLabel: "size of the new mesh axis",
    data: {
      focus: "spare-size"
    }
  });
  const add = (event) => {
    event.preventDefault();
    wb.send({
      verb: "add_axis",
      axis: name.value,
      size: size.value
    });
  };
  return h("div", {
    class: "zone spare"
  }, h("div", {
    class: "title"
  }, h("span", {
    class: "muted"
  }, "Add mesh axis")), h("form", {
    onsubmit: add
  }, name, h("span", {
    class: "muted"
  }, "\xD7"), size, h("button", {
    class: "btn",
    type: "submit",
    data: {
      focus: "spare-add"
    }
  }, "Add")), refusal?.zone === "+" ? drawRefusal(wb, refusal) : null);
}
function boardSection(wb) {
  const recipes = recipesSection(wb), zones = h("div", {
    class: "zones"
  }), counted = h("span", {
    class: "counted"
  });
  const find = h("button", {
    class: "btn small",
    type: "button",
    title: "Search for the best plan of this program",
    data: {
      focus: "open-find",
      verb: "open-find"
    },
    onclick: () => openTab(wb, "find")
  });
  const section = h("section", {
    class: "board",
    ariaLabel: "Dimensions on mesh axes"
  }, h("div", {
    class: "legendline"
  }, h("h2", {}, termLabel(wb, "Dimensions on mesh axes")), counted, recipes.button, find, h("span", {
    class: "muted help"
  }, "Drag, or press space and arrows. Shift adds an axis.")), zones, recipes.section);
  const paint = painter((state) => keepingFocus(wb.root, section, () => {
    closeMenu(wb, false);
    wb.chips = new Map(state.zones.flatMap((zone) => zone.chips.map((chip) => [
      chip.key,
      chip
    ])));
    wb.axes = state.zones.map((zone) => zone.axis);
    const [whole, ...axes] = state.zones.map((zone) => drawZone(wb, zone, state.refusal));
    counted.replaceChildren(drawCount(state.count));
    zones.replaceChildren(whole, h("div", {
      class: "axes"
    }, ...axes, drawSpare(wb, state.spare, state.refusal)));
    if (wb.held && !wb.held.chip.lazy && !wb.chips.has(wb.held.chip.key)) wb.held = null;
    aim(wb);
    keepInside(wb, zones.querySelector(".refusal"));
    wb.wanted = null;
  }, wb.wanted));
  const paintFind2 = painter((tab) => {
    find.hidden = !tab;
    find.ariaPressed = String(Boolean(tab?.open));
    find.replaceChildren("Find", ...tab?.badge ? [
      h("span", {
        class: "badge"
      }, tab.badge)
    ] : []);
  });
  wb.board = section;
  wb.subscribe("dropped", (drop2) => showDropped(wb, drop2));
  return {
    section,
    paint,
    paintRecipes: recipes.paint,
    paintFind: paintFind2
  };
}

// workbench/widgets/static/export_sheet.js
async function copyText(wb, field, text, button) {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    field.focus();
    if ("select" in field) field.select();
    copied = "select" in field ? document.execCommand("copy") : false;
  }
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = copied ? "Copied" : "Press Ctrl-C";
  wb.say(copied ? "Copied" : "Not copied: press control C");
  setTimeout(() => {
    button.textContent = before;
  }, 1600);
}
function drawSheet(wb, place, sheet) {
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close",
    title: "Close",
    data: {
      focus: "sheet-close"
    },
    onclick: () => wb.send({
      verb: "close_sheet"
    })
  }, "\xD7");
  const head = h("div", {
    class: "legendline"
  }, h("h2", {}, sheet.title), h("span", {
    class: "muted about"
  }, sheet.about), close);
  if (sheet.kind === "save") return place.replaceChildren(head, drawNameForm(wb, sheet.text));
  const text = sheet.kind === "link" && sheet.text.startsWith("?") ? `${location.origin}${location.pathname}${sheet.text}` : sheet.text;
  const field = sheet.kind === "link" ? h("input", {
    class: "field mono address",
    readOnly: true,
    value: text,
    ariaLabel: "link to this plan",
    data: {
      focus: "sheet-text"
    },
    onfocus: () => (
      /** @type {HTMLInputElement} */
      field.select()
    )
  }) : h("pre", {
    class: "code",
    tabIndex: 0,
    role: "region",
    ariaLabel: "exported text",
    data: {
      focus: "sheet-text"
    }
  }, text);
  const copy = h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: "sheet-copy"
    },
    onclick: () => copyText(wb, field, text, copy)
  }, "Copy");
  const save = sheet.name ? h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: "sheet-download"
    },
    onclick: () => download(wb, sheet.name, text)
  }, `Download ${sheet.name}`) : null;
  const forms = h("div", {
    class: "forms",
    role: "group",
    ariaLabel: "Form of the export"
  }, ...sheet.forms.map((form) => h("button", {
    class: "btn",
    type: "button",
    ariaPressed: String(form.open),
    data: {
      focus: `form-${form.key}`,
      form: form.key
    },
    onclick: () => wb.send({
      verb: "export",
      form: form.key
    })
  }, form.label)));
  const problem = sheet.problem && h("div", {
    class: "told bad",
    role: "alert"
  }, ...drawProblem(sheet.problem));
  const row = h("div", {
    class: "takeaway"
  }, sheet.kind === "link" ? field : forms, h("span", {
    class: "grow"
  }), ...problem ? [] : [
    copy,
    save
  ]);
  const scrolled = place.querySelector("pre")?.scrollTop ?? 0;
  place.replaceChildren(head, row, ...sheet.kind === "link" ? [] : [
    drawFiles(wb, sheet),
    problem ?? field
  ]);
  if (sheet.kind !== "link") field.scrollTop = scrolled;
}
function drawNameForm(wb, name) {
  const field = h("input", {
    class: "field address",
    value: name,
    maxLength: 80,
    ariaLabel: "name of the plan",
    data: {
      focus: "sheet-text"
    }
  });
  const save = h("button", {
    class: "btn primary",
    type: "submit",
    data: {
      focus: "sheet-save"
    }
  }, "Save");
  return h("form", {
    class: "takeaway",
    onsubmit: (event) => {
      event.preventDefault();
      if (field.value.trim()) wb.send({
        verb: "save",
        name: field.value
      });
    }
  }, field, save);
}
function drawFiles(wb, sheet) {
  return h("div", {
    class: "takeaway files",
    role: "group",
    ariaLabel: "Files to download"
  }, h("span", {
    class: "muted"
  }, "As a file:"), ...sheet.files.map(({ key, label, about }) => h("button", {
    class: "btn",
    type: "button",
    title: about,
    data: {
      focus: `file-${key}`,
      file: key
    },
    onclick: () => wb.send({
      verb: "export",
      form: key
    })
  }, label)));
}

// workbench/widgets/static/files.js
var MAX_FILE_BYTES = 1 << 20;
function headTools(wb, state) {
  if (!state.exchanges) return [];
  const picker = h("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    ariaLabel: "plan file",
    tabIndex: -1,
    onchange: () => {
      readFile(wb, picker.files?.[0]);
      picker.value = "";
    }
  });
  const tool = (label, verb, title, gesture, pressed2 = null) => h("button", {
    class: "btn tool",
    type: "button",
    title,
    ariaExpanded: pressed2 === null ? null : String(pressed2),
    data: {
      verb,
      focus: verb
    },
    onclick: gesture
  }, ...[
    label
  ].flat());
  return [
    tool([
      "History",
      h("span", {
        class: "badge"
      }, `${state.count}`)
    ], "history", "Previous plans: restore, name, compare", () => wb.send({
      verb: "history",
      open: !state.open
    }), state.open),
    ...state.saves ? [
      tool("Save", "save", state.path ? `Save to ${state.path}` : "Save this plan as a file", () => wb.send({
        verb: "save"
      }))
    ] : [],
    ...state.starts ? [
      tool("New\u2026", "new_plan", "Start another plan: your model, the zoo, your machines", () => wb.send({
        verb: "new_plan",
        open: true
      }))
    ] : [],
    tool("Open\u2026", "open_file", "Open a *.plan.json file; it can also be dropped here", () => picker.click()),
    tool("Export", "export", "Code (JAX script, PartitionSpecs, logical axis rules), report page, trace or picture", () => wb.send(state.sheet === "export" ? {
      verb: "close_sheet"
    } : {
      verb: "export"
    }), state.sheet === "export"),
    tool("Link", "link", "Link to this plan", () => wb.send(state.sheet === "link" ? {
      verb: "close_sheet"
    } : {
      verb: "link"
    }), state.sheet === "link"),
    picker
  ];
}
async function readFile(wb, file) {
  if (!file) return;
  const text = file.size > MAX_FILE_BYTES ? null : await file.text();
  wb.send({
    verb: "open_file",
    name: file.name,
    text
  });
}
function acceptFiles(wb) {
  const carries = (event) => [
    ...event.dataTransfer?.types ?? []
  ].includes("Files");
  const aim2 = (on) => wb.card.classList.toggle("receiving", on);
  wb.card.addEventListener("dragover", (event) => {
    if (carries(event)) {
      event.preventDefault();
      aim2(true);
    }
  });
  wb.card.addEventListener("dragleave", (event) => {
    if (!wb.card.contains(
      /** @type {Node | null} */
      event.relatedTarget
    )) aim2(false);
  });
  wb.card.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    event.stopPropagation();
    aim2(false);
    readFile(wb, event.dataTransfer?.files[0]);
  });
}
var decoded = (text, type) => new Blob([
  Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
], {
  type
});
function drawNotice(wb, place, { refusal, word }) {
  const dismiss = () => h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Dismiss",
    onclick: () => wb.send({
      verb: "dismiss"
    })
  }, "\xD7");
  place.hidden = !refusal && !word;
  if (refusal) {
    place.replaceChildren(h("div", {
      class: "told bad",
      role: "alert"
    }, ...drawProblem(refusal), dismiss()));
  } else place.replaceChildren(...word ? [
    h("div", {
      class: "told",
      role: "status"
    }, h("p", {}, word), dismiss())
  ] : []);
}
function filesSection(wb) {
  const notice = h("div", {
    class: "notice",
    hidden: true
  });
  const sheet = h("section", {
    class: "sheet",
    ariaLabel: "Exported text",
    hidden: true
  });
  const section = h("div", {}, sheet);
  sheet.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      wb.send({
        verb: "close_sheet"
      });
    }
  });
  let downloaded = null;
  let first = true;
  const paintNotice = painter((state) => keepingFocus(wb.root, notice, () => drawNotice(wb, notice, state)));
  const paintSheet = painter((state) => keepingFocus(wb.root, sheet, () => {
    const opened = sheet.hidden && state;
    sheet.hidden = !state;
    if (!state) return sheet.replaceChildren();
    drawSheet(wb, sheet, state);
    if (opened) one(sheet, "[data-focus=sheet-text]")?.focus({
      preventScroll: true
    });
  }));
  const paint = (state, refusal, seq) => {
    paintNotice({
      refusal,
      word: state.word,
      seq
    });
    paintSheet(state.sheet);
    const mine = state.download && [
      wb.view,
      ""
    ].includes(state.download.view) ? state.download : null;
    if (mine && mine.seq !== downloaded && !first) {
      download(wb, mine.name, mine.base64 === void 0 ? mine.text : decoded(mine.base64, mine.media));
    }
    downloaded = mine ? mine.seq : downloaded;
    first = false;
  };
  acceptFiles(wb);
  return {
    section,
    notice,
    paint
  };
}

// workbench/widgets/static/hardware.js
function drawHardware(wb, state, refusal) {
  const chip = h("select", {
    class: "field chipname",
    ariaLabel: "kind of device",
    data: {
      focus: "hw-chip"
    },
    onchange: () => wb.send({
      verb: "hardware",
      chip: chip.value,
      shape: ""
    })
  }, ...state.chips.map((chip2) => h("option", {
    value: chip2.name,
    selected: chip2.name === state.chip
  }, chip2.label)));
  const shape = h("input", {
    class: "field shape",
    value: state.shape,
    placeholder: state.example,
    maxLength: 200,
    spellcheck: false,
    autocomplete: "off",
    ariaLabel: "shape or number of devices",
    ariaInvalid: refusal ? "true" : null,
    data: {
      focus: "hw-shape"
    },
    onchange: () => wb.send({
      verb: "hardware",
      chip: chip.value,
      shape: shape.value
    }),
    onkeydown: (event) => {
      if (event.key === "Escape") {
        shape.value = state.shape;
        shape.blur();
      }
      if (event.key === "ArrowDown") {
        event.preventDefault();
        openMenu(wb, more, state.shapes);
      }
    }
  });
  const more = h("button", {
    class: "btn icon",
    type: "button",
    disabled: !state.shapes.length,
    ariaLabel: "Shapes that match the mesh",
    title: "Shapes that match the mesh",
    ariaHasPopup: "menu",
    data: {
      focus: "hw-shapes"
    },
    onclick: () => openMenu(wb, more, state.shapes)
  }, "\u25BE");
  const picker = h("div", {
    class: "picker"
  }, chip, shape, more, refusal ? drawRefusal(wb, refusal) : null);
  const about = state.problem ? h("div", {
    class: "about"
  }, h("span", {
    class: "bad",
    role: "alert"
  }, h("b", {}, "Does not fit. "), ...withCode(state.problem)), " ", ...state.mends.map((mend) => h("button", {
    class: "btn small",
    type: "button",
    onclick: () => wb.send(mend.gesture)
  }, mend.label))) : h("div", {
    class: "about",
    title: state.title
  }, ...drawFacts(wb, state), drawAxisLinks(wb, state));
  return h("div", {
    class: "hardware",
    role: "group",
    ariaLabel: "Hardware"
  }, picker, about);
}
function drawFacts(wb, { facts, attached }) {
  if (!attached) return [
    h("span", {
      class: "muted"
    }, facts)
  ];
  const text = h("span", {
    class: "muted",
    role: attached.busy ? "status" : null
  }, ...withCode(attached.text));
  const onclick = () => wb.send({
    verb: attached.busy ? "cancel_calibration" : "calibrate"
  });
  const title = "Measure this machine once (a few seconds, in a separate process); step times are then predicted for it.";
  const props = {
    class: "btn small",
    type: "button",
    title: attached.busy ? null : title,
    data: {
      focus: "hw-attached"
    },
    onclick
  };
  return attached.button ? [
    text,
    h("button", props, attached.button)
  ] : [
    text
  ];
}
function drawAxisLinks(wb, state) {
  if (!state.wirings.length) return null;
  const change = h("button", {
    class: "btn small",
    type: "button",
    ariaHasPopup: "menu",
    ariaLabel: "Change the axes on links",
    data: {
      focus: "hw-wiring"
    },
    onclick: () => openMenu(wb, change, state.wirings)
  }, "Reassign\u2026");
  const lines = state.wiring.map((line) => h("span", {
    class: "wire",
    title: line.title
  }, h("span", {
    class: "tag",
    data: {
      c: line.colour
    }
  }, line.axis), `\u2192 ${line.text}`));
  return h("span", {
    class: "wiring"
  }, ...lines, change);
}

// workbench/widgets/static/card_header.js
var LONG_LAYOUT = 40;
function drawLayout(wb, layout) {
  const text = h("div", {
    class: "mono layout",
    title: layout
  }, layout);
  if (layout.length < LONG_LAYOUT) return [
    text
  ];
  const show = () => {
    text.classList.toggle("cut", !wb.wholeLayout);
    turn.ariaExpanded = String(Boolean(wb.wholeLayout));
    turn.textContent = wb.wholeLayout ? "Collapse layout" : "Show full layout";
  };
  const turn = h("button", {
    class: "whole",
    type: "button",
    data: {
      focus: "layout"
    },
    onclick: () => {
      wb.wholeLayout = !wb.wholeLayout;
      show();
    }
  });
  show();
  return [
    text,
    turn
  ];
}
function drawTracedAs(wb, state, refusal) {
  if (!state.options.length) return null;
  const drawn = state.options.map(({ key, label, value, title, menu }) => {
    const button = h("button", {
      class: "btn small",
      type: "button",
      title,
      ariaLabel: `${label}: ${value}`,
      ariaHasPopup: "menu",
      data: {
        focus: `traced-${key}`
      },
      onclick: () => openMenu(wb, button, menu)
    }, `${value} \u25BE`);
    return h("span", {
      class: "tracedas",
      data: {
        option: key
      }
    }, h("span", {
      class: "muted"
    }, label), button);
  });
  return h("div", {
    class: "program",
    role: "group",
    ariaLabel: "Program"
  }, ...drawn, refusal ? drawRefusal(wb, refusal) : null);
}
function drawHead(wb, parent, state) {
  const tool = (verb, sign, title) => h("button", {
    class: "btn icon",
    type: "button",
    disabled: title === null,
    title: title ?? verb,
    ariaLabel: title ?? verb,
    data: {
      verb,
      focus: verb
    },
    onclick: () => wb.send({
      verb
    })
  }, sign);
  const refused = ({ zone }) => state.refusal?.zone === zone ? state.refusal : null;
  parent.replaceChildren(h("div", {
    class: "names"
  }, h("div", {
    class: "line"
  }, h("h1", {}, state.name), h("span", {
    class: "mono mesh"
  }, `${state.mesh}`), h("span", {
    class: "muted"
  }, state.devices)), h("div", {
    class: "line"
  }, ...drawLayout(wb, state.layout), drawTracedAs(wb, state.program, refused(state.program)))), h("div", {
    class: "tools"
  }, tool("undo", "\u21B6", state.undo), tool("redo", "\u21B7", state.redo), ...headTools(wb, state.tools), ...helpTools(wb)), drawHardware(wb, state.hardware, refused(state.hardware)));
}

// workbench/widgets/static/exercise.js
function drawStep(wb, question) {
  return h("button", {
    class: question.open ? "step open" : "step",
    type: "button",
    ariaCurrent: question.open ? "step" : null,
    ariaLabel: `Question ${question.label}, ${question.name}${question.done ? ", answered" : ""}`,
    title: question.name,
    data: {
      focus: `question ${question.name}`,
      done: question.done
    },
    onclick: () => wb.send({
      verb: "question",
      name: question.name
    })
  }, question.done ? "\u2713" : question.label);
}
var MARKS = {
  true: [
    "\u2713",
    "met"
  ],
  false: [
    "\u2717",
    "missed"
  ],
  null: [
    "\u25CB",
    "not known yet"
  ]
};
function drawGoal(goal) {
  const [mark, word] = MARKS[String(goal.met)];
  return h("li", {
    class: "goal",
    data: {
      met: String(goal.met)
    }
  }, h("span", {
    class: "tick",
    role: "img",
    ariaLabel: word
  }, mark), h("div", {}, h("div", {}, ...withCode(goal.text)), goal.reason && h("div", {
    class: "muted"
  }, ...withCode(goal.reason))));
}
function drawChoices2(state) {
  return state.choices.map((choice, place) => h("label", {
    class: "choice"
  }, h("input", {
    type: state.several ? "checkbox" : "radio",
    name: `choice ${state.name}`,
    value: String(place + 1),
    data: {
      focus: `choice ${place}`
    }
  }), h("span", {}, ...withCode(choice))));
}
function answerOf(form) {
  const chosen = [
    .../** @type {NodeListOf<HTMLInputElement>} */
    form.querySelectorAll("input:checked")
  ];
  const typed = (
    /** @type {HTMLInputElement | null} */
    form.querySelector("input.field")
  );
  return typed ? typed.value : chosen.map((option) => option.value).join(" ");
}
function drawForm(wb, state) {
  const field = state.kind !== "number" ? null : h("input", {
    class: "field",
    ariaLabel: "your answer",
    placeholder: "your answer",
    maxLength: 200,
    data: {
      focus: "exercise answer"
    }
  });
  const form = h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      if (!state.checking) wb.send({
        verb: "answer_question",
        answer: answerOf(form)
      });
    }
  }, ...drawChoices2(state), h("div", {
    class: "buttons"
  }, field, h("button", {
    class: "btn primary",
    type: "submit",
    ariaDisabled: String(state.checking),
    title: state.kind === "plan" ? "Check the plan on the board, also at other sizes" : "Check the answer",
    data: {
      focus: "exercise check",
      verb: "answer_question"
    }
  }, state.checking ? "Checking\u2026" : "Check"), state.kind !== "plan" ? null : h("button", {
    class: "btn",
    type: "button",
    title: "Load the plan that the question starts from (undo to go back)",
    data: {
      focus: "exercise start",
      verb: "start_question"
    },
    onclick: () => wb.send({
      verb: "start_question"
    })
  }, "Restart"), h("span", {
    class: "muted"
  }, ...withCode(state.how))));
  return form;
}
function drawVerdict(verdict) {
  if (!verdict) return null;
  return h("div", {
    class: verdict.right ? "verdict right" : "verdict",
    role: "status",
    data: {
      right: verdict.right
    }
  }, h("b", {}, verdict.text), h("span", {
    class: "muted"
  }, ` ${verdict.score && `${verdict.score}, `}try ${verdict.attempt}`), verdict.why ? h("p", {
    class: "why"
  }, ...withCode(verdict.why)) : null, verdict.reasons.length ? h("ul", {}, ...verdict.reasons.map((reason) => h("li", {}, ...withCode(reason)))) : null, ...verdict.hints.map((hint) => h("p", {
    class: "hint"
  }, "Hint: ", ...withCode(hint))));
}
function drawNext(wb, next) {
  if (!next) return null;
  const data = {
    focus: "exercise next"
  };
  return next.link ? h("a", {
    class: "btn primary next",
    href: next.link,
    data
  }, next.label) : h("button", {
    class: "btn primary next",
    type: "button",
    data,
    onclick: () => wb.send({
      verb: "question",
      name: next.question
    })
  }, next.label);
}
function exerciseSection(wb) {
  const body = h("div", {
    class: "body"
  });
  const section = h("section", {
    class: "exercise",
    ariaLabel: "Exercise",
    hidden: true
  }, body);
  const paint = painter(({ state, refusal }) => {
    section.hidden = !state;
    if (!state) return;
    const before = body.querySelector("form"), kept = section.dataset.name === state.name && before ? answerOf(before) : "";
    section.dataset.name = state.name;
    keepingFocus(wb.root, body, () => {
      const form = drawForm(wb, state);
      body.replaceChildren(h("header", {}, h("h2", {}, state.title), h("nav", {
        ariaLabel: "Questions"
      }, ...state.questions.map((question) => drawStep(wb, question)))), h("div", {
        class: "ask"
      }, ...state.ask.split("\n\n").map((line) => h("p", {}, ...withCode(line)))), ...[
        state.about && h("p", {
          class: "bad"
        }, ...withCode(state.about))
      ].filter(Boolean), h("ul", {
        class: "goals"
      }, ...state.goals.map(drawGoal)), ...state.predicting ? [
        h("p", {
          class: "muted"
        }, "Figures and charts are hidden until your predictions are correct.")
      ] : [], form, ...[
        drawVerdict(state.verdict),
        drawNext(wb, state.next),
        refusal && drawRefusal(wb, refusal)
      ].filter((node) => node instanceof Node));
      restoreAnswer(form, kept);
    });
  });
  return {
    section,
    paint
  };
}
function restoreAnswer(form, kept) {
  if (!kept) return;
  if (form.querySelector("input.field")) the(form, "input.field").value = kept;
  for (const number of kept.split(" ")) {
    const input = (
      /** @type {HTMLInputElement | null} */
      form.querySelector(`.choice input[value="${CSS.escape(number)}"]`)
    );
    if (input) input.checked = true;
  }
}

// workbench/widgets/static/history_graph.js
var ROW = 34;
var LANE = 14;
var MAX_LANES = 8;
var laneX = (lane) => 12 + Math.min(lane, MAX_LANES - 1) * LANE;
var rowY = (place) => place * ROW + ROW / 2;
function drawGraph(nodes, lanes) {
  const place = new Map(nodes.map((node, i) => [
    node.number,
    i
  ]));
  const byNumber = new Map(nodes.map((node) => [
    node.number,
    node
  ]));
  const parentOf = (node) => node.parent === null ? void 0 : byNumber.get(node.parent);
  const yOf = (node) => rowY(place.get(node.number) ?? 0);
  const trail = /* @__PURE__ */ new Set();
  for (let node = nodes.find((candidate) => candidate.here); node; node = parentOf(node)) trail.add(node.number);
  const height = nodes.length * ROW;
  const lines = nodes.filter((node) => node.parent !== null).map((node) => {
    const x = laneX(node.lane), y = yOf(node), parent = parentOf(node);
    const to = parent ? [
      laneX(parent.lane),
      yOf(parent)
    ] : [
      x,
      height
    ];
    const bend = to[0] === x ? `L${x} ${to[1]}` : `L${x} ${to[1] - ROW / 2}Q${x} ${to[1]} ${to[0]} ${to[1]}`;
    return {
      path: `M${x} ${y}${bend}`,
      walked: trail.has(node.number)
    };
  });
  const dots = nodes.map((node) => svg("circle", {
    cx: laneX(node.lane),
    cy: yOf(node),
    r: node.here ? 5 : 3.5,
    class: node.here ? "here" : trail.has(node.number) ? "walked" : ""
  }));
  const ordered = [
    ...lines.filter((line) => !line.walked),
    ...lines.filter((line) => line.walked)
  ];
  return svg("svg", {
    width: laneX(lanes - 1) + 12,
    height,
    "aria-hidden": "true",
    class: "graph"
  }, ...ordered.map((line) => svg("path", {
    d: line.path,
    class: line.walked ? "walked" : ""
  })), ...dots);
}

// workbench/widgets/static/history.js
function planMenu(node) {
  const item = (label, verb, fields = {}, ask = null) => ({
    label,
    gesture: {
      verb,
      number: node.number,
      ...fields
    },
    reason: null,
    ask
  });
  return [
    ...node.here ? [] : [
      item("Go to this plan", "go")
    ],
    item(node.name ? "Rename\u2026" : "Name\u2026", "name_plan", {}, {
      label: "Name of this plan",
      value: node.name,
      verb: "Name"
    }),
    item(node.pinned ? "Unpin" : "Pin", "pin", {
      pinned: !node.pinned
    }),
    item(node.picked === "A" ? "Stop comparing" : "Compare", "compare_plans")
  ];
}
var WAYS = {
  good: "down",
  bad: "up"
};
var SIGNS = {
  good: "\u25BE",
  bad: "\u25B4"
};
function drawPlan(wb, node) {
  const more = h("button", {
    class: "more",
    type: "button",
    tabIndex: -1,
    ariaLabel: `Menu of plan ${node.number}`,
    ariaHasPopup: "menu",
    onclick: () => openMenu(wb, more, planMenu(node))
  }, "\u22EF");
  const act = (verb, fields = {}) => wb.send({
    verb,
    number: node.number,
    ...fields
  });
  const pin = () => act("pin", {
    pinned: !node.pinned
  });
  const words = [
    `plan ${node.number}`,
    node.name,
    node.edit,
    node.here && "the present plan",
    node.pinned && "pinned",
    node.picked && `compared as ${node.picked}`
  ].filter(Boolean);
  const go = h("button", {
    class: "go",
    type: "button",
    tabIndex: node.here ? 0 : -1,
    title: node.title,
    ariaLabel: words.join(", "),
    ariaCurrent: node.here ? "step" : null,
    data: {
      focus: `plan-${node.number}`,
      plan: node.number
    },
    onclick: () => node.here || act("go"),
    onkeydown: (event) => {
      const step = {
        ArrowDown: 1,
        ArrowUp: -1
      }[event.key];
      const key = event.ctrlKey || event.metaKey || event.altKey ? "" : event.key.toLowerCase();
      if (step) {
        const plans = all(wb.root, ".plans .go");
        plans[plans.indexOf(go) + step]?.focus();
      } else if (key === "p") pin();
      else if (key === "c") act("compare_plans");
      else if (key === "m") openMenu(wb, more, planMenu(node));
      else return;
      event.preventDefault();
    }
  }, h("span", {
    class: "number"
  }, `${node.number}`), node.name ? h("b", {}, node.name) : null, h("span", {
    class: node.name ? "edit muted" : "edit"
  }, node.edit), node.here ? h("span", {
    class: "mark"
  }, "now") : null);
  const figures = node.figures.map((figure) => h("span", {
    class: `glance ${figure.tone && WAYS[figure.tone]}`,
    title: `${figure.label}${figure.tone ? `, ${figure.tone === "good" ? "less" : "more"} than the plan before` : ""}`
  }, h("span", {
    class: "muted"
  }, figure.label), ` ${figure.text}`, figure.tone ? h("i", {
    ariaHidden: "true"
  }, SIGNS[figure.tone]) : null));
  return h("li", {
    class: [
      "plan",
      node.here && "here",
      node.picked && "picked"
    ].filter(Boolean).join(" ")
  }, go, h("span", {
    class: "glances"
  }, ...figures), h("span", {
    class: "acts"
  }, h("button", {
    class: node.pinned ? "more pin on" : "more pin",
    type: "button",
    tabIndex: -1,
    ariaPressed: String(node.pinned),
    ariaLabel: `Pin plan ${node.number}`,
    title: node.pinned ? "Unpin" : "Pin",
    onclick: pin
  }, node.pinned ? "\u2605" : "\u2606"), h("button", {
    class: "btn small compare",
    type: "button",
    tabIndex: -1,
    ariaPressed: String(Boolean(node.picked)),
    ariaLabel: `Compare plan ${node.number}`,
    title: "Compare with another plan",
    onclick: () => act("compare_plans")
  }, node.picked || "Compare"), more));
}
function drawCompared(wb, head, state) {
  const side = (mark, plan, extra) => h("span", {
    class: "side"
  }, h("span", {
    class: "mark"
  }, mark), h("b", {}, plan.label), h("span", {
    class: "muted"
  }, extra ?? `plan ${plan.number}`));
  head.replaceChildren(h("h2", {}, "Compared"), side("A", state.first), h("span", {
    class: "muted"
  }, "\u2192"), side("B", state.second, state.follows ? "as it changes" : void 0), h("span", {
    class: "grow"
  }), h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: "swap"
    },
    onclick: () => wb.send({
      verb: "swap_plans"
    })
  }, "Swap"), h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Stop comparing",
    title: "Stop comparing",
    data: {
      focus: "uncompare"
    },
    onclick: () => wb.send({
      verb: "stop_comparing"
    })
  }, "\xD7"));
}
function historySection(wb) {
  const list = h("ol", {
    class: "plans"
  });
  const graph = h("div", {
    class: "lines"
  });
  const note = h("div", {
    class: "note"
  });
  const tree = h("div", {
    class: "tree"
  }, h("div", {
    class: "rows"
  }, graph, list), note);
  const sides = h("div", {
    class: "sides"
  }), blocks = h("div", {
    class: "blocks",
    tabIndex: 0,
    role: "region",
    ariaLabel: "Two plans side by side"
  });
  const text = h("pre", {}), copy = h("button", {
    class: "btn small",
    type: "button",
    onclick: () => copyText(wb, text, text.textContent, copy)
  }, "Copy as text");
  const twin = h("details", {}, h("summary", {}, "As text"), copy, text);
  const compared = h("div", {
    class: "compared",
    hidden: true
  }, sides, blocks);
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close the history",
    title: "Close",
    onclick: () => wb.send({
      verb: "history",
      open: false
    })
  }, "\xD7");
  const section = h("section", {
    class: "history",
    ariaLabel: "History",
    hidden: true
  }, h("div", {
    class: "legendline"
  }, h("h2", {}, "History"), h("span", {
    class: "muted help"
  }, "Enter: restore plan. P: pin. C: compare. M: menu. An edit after an undo starts a branch."), close), h("div", {
    class: "inside"
  }, tree, compared));
  const paintTree = painter((state) => keepingFocus(wb.root, list, () => {
    graph.replaceChildren(drawGraph(state.nodes, state.lanes));
    list.style.setProperty("--gutter", `${laneX(state.lanes - 1) + 14}px`);
    patch(list, state.nodes, (node) => drawPlan(wb, node));
    note.textContent = state.note;
    note.hidden = !state.note;
    if (!all(list, ".go").some((button) => button.tabIndex === 0)) list.querySelector(".go")?.setAttribute("tabindex", "0");
  }));
  const paintCompared = painter((state) => keepingFocus(wb.root, sides, () => {
    compared.hidden = !state;
    section.classList.toggle("comparing", Boolean(state));
    if (!state) return;
    drawCompared(wb, sides, state);
    patchBlocks(wb, blocks, state.blocks);
    text.textContent = state.text;
    blocks.append(twin);
  }));
  const paint = (state) => {
    const opened = section.hidden && state.open;
    section.hidden = !state.open;
    if (!state.open) return;
    paintTree({
      nodes: state.nodes,
      lanes: state.lanes,
      note: state.note
    });
    paintCompared(state.compared);
    if (opened) tree.scrollTop = 0;
  };
  return {
    section,
    paint
  };
}

// workbench/widgets/static/lesson.js
function drawHtml(html, look) {
  const box = h("div", {
    class: look
  });
  box.innerHTML = html;
  return box;
}
function drawOutput(output) {
  if (output.kind === "text") return h("pre", {
    class: "mono",
    tabIndex: 0,
    role: "region",
    ariaLabel: "output"
  }, output.text);
  if (output.kind === "html") return drawHtml(output.html, "told");
  const picture = drawHtml(output.svg, "image");
  picture.tabIndex = 0;
  picture.role = "img";
  picture.ariaLabel = output.about;
  const widen2 = h("button", {
    class: "btn icon widen",
    type: "button",
    ariaLabel: "Fill the window",
    title: "Fill the window"
  }, "\u2922");
  widen2.onclick = () => showWide(picture);
  return h("div", {
    class: "picture"
  }, picture, widen2);
}
function showWide(picture) {
  const dialog = h("dialog", {
    class: "wide",
    ariaLabel: picture.ariaLabel
  });
  dialog.append(picture.cloneNode(true));
  dialog.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  picture.after(dialog);
  dialog.showModal();
}
function drawBlock2(wb, block) {
  if (block.kind === "html") return drawHtml(block.html, "prose");
  if (block.kind === "question") {
    return h("button", {
      class: block.open ? "btn question open" : "btn question",
      type: "button",
      ariaCurrent: block.open ? "step" : null,
      data: {
        focus: `lesson ${block.name}`,
        done: block.done
      },
      onclick: () => wb.send({
        verb: "question",
        name: block.name
      })
    }, `${block.done ? "\u2713 " : ""}Question ${block.label}`, h("span", {
      class: "muted"
    }, block.open ? "on the board" : "show on the board"));
  }
  const code = h("details", {}, h("summary", {}, "Code"), h("pre", {
    class: "mono",
    tabIndex: 0,
    role: "region",
    ariaLabel: "code"
  }, block.source));
  const outputs = block.outputs?.map(drawOutput) ?? [
    h("div", {
      class: "muted",
      role: "status"
    }, "Running\u2026")
  ];
  return h("div", {
    class: "cell"
  }, code, ...outputs);
}
var drawLink2 = (link, word) => link && h("a", {
  href: link.link,
  title: link.title
}, word);
function lessonSection(wb) {
  const head = h("header", {}), blocks = h("div", {
    class: "lessontext"
  });
  const section = h("aside", {
    class: "lesson",
    ariaLabel: "Lesson",
    hidden: true,
    tabIndex: 0
  }, head, blocks);
  const paintHead = painter((state) => {
    const links = [
      state.all && h("a", {
        href: state.all
      }, "All lessons"),
      drawLink2(state.previous, "\u2190 Previous"),
      drawLink2(state.next, "Next \u2192")
    ].filter((node) => node instanceof Node);
    head.replaceChildren(...links.length ? [
      h("nav", {
        ariaLabel: "Lessons"
      }, ...links)
    ] : [], h("h1", {}, state.title), h("p", {
      class: "muted"
    }, `${state.place}, ${state.course}. As a notebook: `, h("code", {}, state.notebook)));
  });
  let drawn = [];
  let drawnQuestions = "";
  const paint = (state, parts, exercise) => {
    section.hidden = !state;
    wb.root.dataset.lesson = String(Boolean(state));
    if (!state) return;
    paintHead(state);
    const asked = JSON.stringify(exercise?.questions ?? []);
    if (parts === drawn && asked === drawnQuestions) return;
    drawn = parts;
    drawnQuestions = asked;
    const questions = new Map(exercise?.questions.map((question) => [
      question.name,
      question
    ]));
    patch(blocks, parts.map((part2, place) => ({
      key: `${place}`,
      ...part2,
      ...part2.kind === "question" ? questions.get(part2.name) : {}
    })), (part2) => drawBlock2(
      wb,
      /** @type {LessonBlock} */
      /** @type {unknown} */
      part2
    ));
  };
  return {
    section,
    paint
  };
}

// workbench/widgets/static/model_strip.js
var DEBOUNCE_MS = 120;
var sendSize = (wb, name, value) => wb.send({
  verb: "size_model",
  name,
  value
});
function slider(wb, name) {
  let stops = [];
  let timer = 0, sent = "", isHeld = false, isBusy = false;
  const at = () => stops[Number(range.value)] ?? sent;
  const tell = () => {
    clearTimeout(timer);
    if (at() !== sent) sendSize(wb, name, sent = at());
  };
  const range = h("input", {
    type: "range",
    min: "0",
    step: "1",
    ariaLabel: `${name}, slider`,
    data: {
      focus: `slider ${name}`
    },
    oninput: () => {
      isHeld = true;
      number.value = at();
      range.ariaValueText = at();
      clearTimeout(timer);
      if (!isBusy) timer = setTimeout(tell, DEBOUNCE_MS);
    },
    onchange: () => {
      isHeld = false;
      tell();
    }
  });
  const number = h("input", {
    class: "field",
    inputMode: "numeric",
    maxLength: 12,
    ariaLabel: name,
    data: {
      focus: `size ${name}`
    },
    oninput: () => {
      isHeld = true;
    },
    onchange: () => {
      isHeld = false;
      sendSize(wb, name, sent = number.value);
    },
    onblur: () => {
      isHeld = false;
    }
  });
  const element = h("label", {
    class: "sizer",
    data: {
      size: name
    }
  }, h("span", {
    class: "muted"
  }, name), range, number);
  const paint = (field, busy) => {
    isBusy = busy;
    if (isHeld || busy) return;
    sent = field.value;
    stops = field.stops;
    range.max = String(stops.length - 1);
    range.value = String(stops.indexOf(field.value));
    range.ariaValueText = field.value;
    number.value = field.value;
    number.title = field.hint;
  };
  return {
    element,
    paint
  };
}
function drawField(wb, field) {
  const about = {
    class: "field",
    ariaLabel: field.name,
    title: field.hint,
    data: {
      focus: `size ${field.name}`
    }
  };
  const onchange = (event) => sendSize(
    wb,
    field.name,
    /** @type {HTMLInputElement | HTMLSelectElement} */
    event.target.value
  );
  const options = field.kind === "flag" ? [
    "true",
    "false"
  ] : field.options;
  const control = field.kind === "choice" || field.kind === "flag" ? h("select", {
    ...about,
    onchange
  }, ...options.map((option) => h("option", {
    value: option,
    selected: option === field.value
  }, option || "none"))) : h("input", {
    ...about,
    value: field.value,
    maxLength: 60,
    onchange
  });
  return h("label", {
    class: "sizer",
    data: {
      size: field.name
    }
  }, h("span", {
    class: "muted"
  }, field.name), control);
}
function drawNames2(wb, names) {
  const fields = names.map(({ name, size, reason }) => {
    const field = h("input", {
      class: "field",
      value: name,
      ariaLabel: `name of dimension ${name}`,
      title: reason,
      maxLength: 64,
      spellcheck: false,
      data: {
        focus: `name ${name}`
      },
      onchange: () => wb.send({
        verb: "rename_dim",
        dim: name,
        name: field.value,
        zone: "model sizes"
      })
    });
    return h("label", {
      class: "sizer",
      title: reason
    }, field, h("span", {
      class: "muted"
    }, size));
  });
  const confirm = h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: "confirm-names"
    },
    onclick: () => wb.send({
      verb: "confirm_names"
    })
  }, "Confirm names");
  return [
    h("span", {
      class: "muted"
    }, "Proposed dimension names"),
    ...fields,
    confirm
  ];
}
function modelStrip(wb) {
  const section = h("section", {
    class: "modelstrip",
    ariaLabel: "Sizes of the model",
    hidden: true
  });
  const main = h("div", {
    class: "sizes"
  }), more = h("div", {
    class: "sizes all-sizes",
    hidden: true
  }), names = h("div", {
    class: "sizes dim-names"
  });
  const problem = h("div", {}), wait = waitLine(wb, "stop_sizing");
  const preset = h("div", {
    class: "preset-size"
  }), sliders = h("div", {
    class: "sliders"
  });
  const all2 = h("button", {
    class: "btn small",
    type: "button",
    ariaExpanded: "false",
    data: {
      focus: "all-sizes"
    },
    onclick: () => {
      more.hidden = !more.hidden;
      all2.ariaExpanded = String(!more.hidden);
    }
  }, "All sizes");
  main.append(preset, sliders, all2, wait.element);
  section.append(main, more, problem, names);
  const sliding = /* @__PURE__ */ new Map();
  const paintMore = painter((fields) => keepingFocus(wb.root, section, () => {
    const [first, ...others] = fields[0]?.name === "preset" ? fields : [
      null,
      ...fields
    ];
    preset.replaceChildren(...first ? [
      drawField(wb, first)
    ] : []);
    more.replaceChildren(...others.filter((field) => field !== null).map((field) => drawField(wb, field)));
    all2.hidden = !others.length;
  }));
  const paintNames = painter((state) => keepingFocus(wb.root, names, () => {
    names.hidden = !state.length;
    names.replaceChildren(...state.length ? drawNames2(wb, state) : []);
  }));
  const paintProblem = painter(({ failure }) => problem.replaceChildren(...failure ? [
    h("div", {
      class: "told bad",
      role: "alert"
    }, ...drawProblem(failure).filter((node) => node !== null))
  ] : []));
  const paint = (state, refusal, seq) => {
    section.hidden = !state;
    if (!state) return wait.paint(null);
    const withSlider = state.sizes.filter((size) => size.stops.length);
    if (withSlider.map((size) => size.name).join() !== [
      ...sliding.keys()
    ].join()) {
      sliding.clear();
      for (const { name } of withSlider) sliding.set(name, slider(wb, name));
      sliders.replaceChildren(...[
        ...sliding.values()
      ].map((slider2) => slider2.element));
    }
    for (const field of withSlider) sliding.get(field.name)?.paint(field, Boolean(state.work));
    main.hidden = !state.sizes.length;
    section.dataset.waiting = String(Boolean(state.work));
    paintMore(state.sizes.filter((size) => !size.stops.length));
    paintNames(state.names);
    paintProblem({
      failure: refusal,
      seq
    });
    wait.paint(state.work);
  };
  return {
    section,
    paint
  };
}

// workbench/widgets/static/run.js
function compileSection(wb) {
  const target = h("span", {
    class: "muted target"
  });
  const expect = () => wb.expect({
    verb: "compile"
  });
  const start = h("button", {
    class: "btn primary",
    type: "button",
    data: {
      focus: "compile"
    },
    onpointerenter: expect,
    onfocus: expect,
    onclick: () => wb.send({
      verb: "compile"
    })
  }, "Compile");
  const cancel = h("button", {
    class: "btn",
    type: "button",
    ariaLabel: "Cancel the compilation",
    onclick: () => wb.send({
      verb: "cancel_compilation"
    })
  }, "Cancel");
  const compare = h("button", {
    class: "btn",
    type: "button",
    title: "Compare predicted and compiled in the tab Compared",
    data: {
      focus: "compare"
    },
    onclick: () => openTab(wb, "compared")
  }, "Open Compared");
  const progress = progressOf("compilation"), facts = factsOf(), log = logOf("compilation"), speak = speaker(wb);
  let chosen = null;
  const atRest = h("input", {
    type: "checkbox",
    data: {
      focus: "compile-at-rest"
    },
    onchange: () => {
      chosen = atRest.checked;
      wb.send({
        verb: "compile_at_rest",
        on: chosen
      });
    }
  });
  const restNote = h("span", {
    class: "muted"
  }), automatic = h("label", {
    class: "at-rest",
    title: "Starts 2 s after the last edit when the machine is idle; the next edit cancels it."
  }, atRest, "Compile automatically", restNote);
  const message = h("div", {
    class: "message"
  }), of = h("div", {
    class: "mono of"
  });
  const section = h("section", {
    class: "compile",
    ariaLabel: "Compile"
  }, h("h2", {}, termLabel(wb, "Compile ahead of time")), h("div", {
    class: "buttons"
  }, start, cancel, compare, target), automatic, progress.bar, progress.stage, message, of, facts.facts, log.element);
  const paint = (live) => {
    const state = live.compile, running = state.phase === "running";
    section.dataset.phase = state.phase;
    section.hidden = !live.can_run;
    section.classList.toggle("stale", state.stale);
    target.textContent = state.target;
    start.disabled = running && !state.unasked;
    cancel.hidden = !running;
    automatic.hidden = !live.at_rest;
    const on = live.at_rest?.on ?? false;
    if (on === chosen) chosen = null;
    atRest.checked = chosen ?? on;
    restNote.textContent = live.at_rest?.note ?? "";
    compare.hidden = running || !state.facts.length;
    progress.paint(state);
    paintWords(message, of, state);
    facts.paint(state.facts);
    log.paint(state.log);
    speak(state.said);
  };
  return {
    section,
    paint
  };
}
function runSection(wb) {
  const steps = h("input", {
    class: "field",
    value: "20",
    inputMode: "numeric",
    ariaLabel: "steps to run"
  });
  const start = h("button", {
    class: "btn primary",
    type: "submit",
    data: {
      focus: "run"
    }
  }, "Run");
  const cancel = h("button", {
    class: "btn",
    type: "button",
    onclick: () => wb.send({
      verb: "cancel"
    })
  }, "Cancel");
  const timeline = h("button", {
    class: "btn",
    type: "button",
    title: "Compare predicted and measured in the tab Timeline",
    onclick: () => openTab(wb, "timeline")
  }, "Open Timeline");
  const form = h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      wb.send({
        verb: "run",
        steps: steps.value
      });
    }
  }, steps, h("span", {
    class: "muted"
  }, "steps"), start, cancel, timeline);
  const progress = progressOf("run"), facts = factsOf(), curves = curvesOf(wb), log = logOf("run"), speak = speaker(wb);
  const message = h("div", {
    class: "message"
  }), of = h("div", {
    class: "mono of"
  });
  const section = h("section", {
    class: "run",
    ariaLabel: "Run"
  }, h("h2", {}, termLabel(wb, "Run on the attached devices")), form, progress.bar, progress.stage, message, of, curves.place, facts.facts, log.element);
  const results = h("section", {
    class: "results",
    ariaLabel: "Predicted against compiled"
  });
  const paintResults = painter((blocks) => {
    results.hidden = !blocks.length;
    patchBlocks(wb, results, blocks);
  });
  const paint = (live, tab) => {
    const running = live.phase === "running";
    section.dataset.phase = live.phase;
    section.hidden = !live.can_run || !live.runs;
    section.classList.toggle("stale", live.stale);
    start.disabled = steps.disabled = running;
    cancel.hidden = !running;
    timeline.hidden = running || !live.traced;
    progress.paint(live);
    paintWords(message, of, live);
    curves.paint(live.curves);
    facts.paint(live.facts);
    log.paint(live.log);
    paintResults(live.blocks.filter((block) => block.in_tab !== tab));
    speak(live.said);
  };
  return {
    section,
    results,
    paint
  };
}

// workbench/widgets/static/source.js
function sourceSection(wb) {
  const name = h("span", {
    class: "mono"
  }), code = h("div", {
    class: "code",
    tabIndex: 0,
    role: "group",
    ariaLabel: "Source lines"
  });
  const section = h("section", {
    class: "source",
    hidden: true,
    ariaLabel: "Source"
  }, h("h2", {}, "Source ", name), code);
  const paint = painter((state) => {
    section.hidden = !state;
    if (!state) return;
    name.textContent = state.line;
    code.replaceChildren(...state.lines.length ? state.lines.map((line) => drawLine2(wb, state, line)) : [
      h("p", {}, "The file is not available here.")
    ]);
    code.querySelector(".here")?.scrollIntoView({
      block: "nearest",
      inline: "nearest"
    });
  });
  return {
    section,
    paint
  };
}
function drawLine2(wb, state, line) {
  const number = line.subject ? h("button", {
    class: "lineno",
    type: "button",
    title: `Select all values of ${line.subject}`,
    ariaLabel: `Select all values of ${line.subject}`,
    ariaPressed: String(line.subject === wb.selected),
    data: {
      focus: `source ${line.number}`
    },
    onclick: () => wb.send({
      verb: "select",
      path: line.subject
    })
  }, `${line.number}`) : h("span", {
    class: "lineno"
  }, `${line.number}`);
  return h("div", {
    class: line.number === state.number ? "codeline here" : "codeline"
  }, number, h("code", {}, line.text || " "));
}

// workbench/widgets/static/sizing_answer.js
function drawSizing(wb, answer) {
  const labels = answer.rows[0]?.cells.map((cell) => cell.label) ?? [];
  const open = (row) => wb.send({
    verb: "open_layout",
    goal: row.goal
  });
  const rows = answer.rows.map((row) => h("tr", {
    onclick: () => open(row)
  }, h("th", {
    scope: "row"
  }, h("button", {
    class: "btn small",
    type: "button",
    title: "Open this layout on the board",
    data: {
      focus: `layout ${row.goal}`
    },
    onclick: (event) => {
      event.stopPropagation();
      open(row);
    }
  }, row.label)), ...row.cells.map((cell) => h("td", {
    data: {
      label: cell.label
    }
  }, cell.text || "\u2013"))));
  return [
    h("p", {
      class: `headline ${answer.tone}`,
      role: "status"
    }, answer.headline),
    rows.length ? h("div", {
      class: "scroll",
      tabIndex: 0,
      role: "region",
      ariaLabel: "Layouts"
    }, h("table", {}, h("caption", {
      class: "sr"
    }, "Layouts; a row opens on the board"), h("thead", {}, h("tr", {}, h("th", {
      scope: "col"
    }, "Open"), ...labels.map((label) => h("th", {
      scope: "col"
    }, label)))), h("tbody", {}, ...rows))) : null,
    answer.notes.length ? h("details", {
      class: "notes"
    }, h("summary", {}, answer.notes.length === 1 ? "1 note" : `${answer.notes.length} assumptions and notes`), h("ul", {}, ...answer.notes.map((note) => h("li", {}, ...withCode(note))))) : null
  ].filter((node) => node !== null);
}

// workbench/widgets/static/start_lists.js
function drawFunctions(wb, functions) {
  if (!functions.length) return [];
  const rows = functions.map((entry) => h("li", {}, entry.builder ? drawBuilder(wb, entry) : drawLoss(wb, entry)));
  return [
    h("h3", {}, "Functions in this folder"),
    h("ul", {}, ...rows)
  ];
}
function drawConfigs(wb, configs) {
  if (!configs.length) return [];
  const rows = configs.map(({ key, about }) => {
    const choose2 = () => wb.send({
      verb: "choose_model",
      model: key
    });
    const name = h("code", {}, key.replace("file/", ""));
    const button = h("button", {
      class: "btn small",
      type: "button",
      data: {
        focus: `config ${key}`
      },
      onclick: choose2
    }, name);
    return h("li", {}, button, h("span", {
      class: "muted"
    }, ` ${about}`));
  });
  return [
    h("h3", {}, "Models in this folder"),
    h("ul", {}, ...rows)
  ];
}
function drawBuilder(wb, builder) {
  const name = h("code", {}, builder.key);
  if (!builder.allowed) {
    return h("details", {}, h("summary", {}, name, h("span", {
      class: "muted"
    }, " not allowed yet")), h("p", {}, "Choosing it runs its code, so its module has to be allowed. Start the server with ", h("code", {}, builder.command), "."));
  }
  return h("button", {
    class: "btn small",
    type: "button",
    title: "Its module is imported, and the function is called",
    data: {
      focus: `function ${builder.key}`
    },
    onclick: () => wb.send({
      verb: "choose_model",
      model: builder.key
    })
  }, name);
}
function drawLoss(wb, loss) {
  const lines = h("pre", {
    class: "code",
    tabIndex: 0,
    role: "region",
    ariaLabel: `lines for ${loss.key}`
  }, loss.lines);
  const copy = h("button", {
    class: "btn small",
    type: "button",
    data: {
      focus: `copy ${loss.key}`
    },
    onclick: () => copyText(wb, lines, loss.lines, copy)
  }, "Copy");
  const then = loss.command ? [
    "start the server with ",
    h("code", {}, loss.command)
  ] : [
    "reload this page"
  ];
  return h("details", {}, h("summary", {}, h("code", {}, loss.key), h("span", {
    class: "muted"
  }, " a loss: five lines make a plan of it")), lines, h("p", {}, copy, " Add the lines to the same file, set the shapes, and ", ...then, "."));
}
function drawRecent(recent) {
  if (!recent.length) return [];
  return [
    h("h3", {}, "Recent plans"),
    h("ul", {}, ...recent.map(({ label, link }) => h("li", {}, h("a", {
      href: link
    }, label))))
  ];
}
function drawLessons(wb, courses, alone) {
  const lessons = courses.flatMap((course) => course.lessons), right = sum(lessons, "right"), questions = sum(lessons, "questions");
  const progress = questions ? `${right} of ${questions} questions answered correctly` : "";
  const listed = courses.map(({ course, lessons: lessons2 }) => h("div", {}, h("h3", {}, course), h("ol", {}, ...lessons2.map(drawLesson2))));
  const list = h("div", {
    class: "courses"
  }, ...listed);
  if (alone) return [
    h("p", {
      class: "muted"
    }, progress),
    list,
    ...right ? [
      drawForget(wb)
    ] : []
  ];
  const summary = h("summary", {}, `${lessons.length} lessons, from one product to serving`);
  if (right) summary.append(h("span", {
    class: "muted"
  }, ` ${progress}`));
  const page2 = questions ? [
    h("a", {
      href: "?lessons"
    }, "Lessons page")
  ] : [];
  return [
    h("details", {}, summary, list),
    ...page2
  ];
}
var sum = (lessons, key) => lessons.reduce((all2, lesson) => all2 + lesson[key], 0);
function drawLesson2({ title, link, right, questions }) {
  if (!questions) return h("li", {}, link ? h("a", {
    href: link,
    target: "_blank",
    rel: "noopener noreferrer"
  }, `${title} \u2197`) : title);
  const done = right === questions;
  const text = done ? "\u2713 done" : right ? `${right} of ${questions}` : `${questions} questions`;
  return h("li", {}, h("a", {
    href: link
  }, title), " ", h("span", {
    class: done ? "good" : "muted"
  }, text));
}
var drawForget = (wb) => h("details", {
  class: "forget"
}, h("summary", {}, "Reset progress"), h("p", {
  class: "muted"
}, "Deletes your answers to all lessons from this machine."), h("button", {
  class: "btn",
  type: "button",
  data: {
    focus: "forget lessons"
  },
  onclick: () => wb.send({
    verb: "forget_lessons"
  })
}, "Delete all answers"));

// workbench/widgets/static/zoo_picker.js
function zooPicker(wb) {
  const search = h("input", {
    class: "field zoosearch",
    type: "search",
    placeholder: "Search the zoo: llama3-8b, mixture, 70B \u2026",
    ariaLabel: "search the models of the zoo",
    autocomplete: "off",
    spellcheck: false,
    data: {
      focus: "start-search"
    },
    oninput: () => narrow(),
    onkeydown: (event) => {
      const first = (
        /** @type {HTMLElement | undefined} */
        shown()[0]
      );
      if (event.key !== "Enter" || !first) return;
      event.preventDefault();
      first.click();
    }
  });
  const list = h("div", {
    class: "modelcards",
    role: "group",
    ariaLabel: "Models of the zoo",
    tabIndex: -1
  });
  const none = h("p", {
    class: "muted none",
    hidden: true
  });
  const texts = /* @__PURE__ */ new Map();
  const shown = () => [
    ...texts.keys()
  ].filter((card) => !card.hidden);
  const narrow = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [card, text] of texts) card.hidden = !words.every((word) => text.includes(word));
    none.hidden = shown().length > 0;
    const name = search.value.trim(), isRepository = /^[\w-]+\/[\w.-]+$/.test(name);
    none.replaceChildren("Not in the zoo. Drop its ", h("code", {}, "config.json"), " below; nothing is downloaded. ", ...isRepository ? [
      "To fetch it: ",
      h("code", {}, `hf download ${name} config.json --local-dir .`)
    ] : []);
  };
  const paint = painter(({ zoo, abouts }) => {
    texts.clear();
    for (const entry of zoo) {
      texts.set(drawCard(wb, entry, abouts[entry.model]), `${entry.key} ${entry.size} ${abouts[entry.model]}`.toLowerCase());
    }
    list.replaceChildren(...texts.keys());
    narrow();
  });
  return {
    search,
    list,
    none,
    paint
  };
}
var drawCard = (wb, card, about) => h("button", {
  class: "modelcard",
  type: "button",
  title: about,
  data: {
    focus: `zoo ${card.key}`,
    model: card.key
  },
  onclick: () => wb.send({
    verb: "choose_model",
    model: card.key
  })
}, h("b", {}, card.title), h("span", {
  class: "muted"
}, card.title === card.model ? "" : card.model), h("span", {
  class: "muted"
}, card.size));

// workbench/widgets/static/start.js
var MAX_FILE_BYTES2 = 1 << 20;
async function readStartFile(wb, file) {
  if (!file) return;
  wb.send({
    verb: "start_file",
    name: file.name,
    text: file.size > MAX_FILE_BYTES2 ? null : await file.text()
  });
}
function fileDrop(wb, panel) {
  const picker = h("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    tabIndex: -1,
    ariaLabel: "config.json or plan file",
    data: {
      focus: "start-picker"
    },
    onchange: () => {
      readStartFile(wb, picker.files?.[0]);
      picker.value = "";
    }
  });
  const button = h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: "start-file"
    },
    onclick: () => picker.click()
  }, "Choose a file\u2026");
  panel.addEventListener("dragover", (event) => {
    event.preventDefault();
    panel.classList.add("receiving");
  });
  panel.addEventListener("dragleave", (event) => {
    if (!panel.contains(
      /** @type {Node | null} */
      event.relatedTarget
    )) panel.classList.remove("receiving");
  });
  panel.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    panel.classList.remove("receiving");
    readStartFile(wb, event.dataTransfer?.files[0]);
  });
  return h("div", {
    class: "filedrop"
  }, h("span", {}, "Hugging Face ", h("code", {}, "config.json"), " or a plan file: drop it here, or"), button, picker);
}
function machinesForm(wb) {
  const id = `machines-${wb.view}`, list = h("datalist", {
    id
  });
  const typed = (name, label, placeholder) => h("input", {
    class: "field",
    placeholder,
    ariaLabel: label,
    autocomplete: "off",
    spellcheck: false,
    maxLength: 200,
    data: {
      focus: `start-${name}`
    }
  });
  const on = typed("on", "machines", "64 H100, TPU v5p 4x4x4 \u2026"), batch = typed("batch", "batch", "auto"), tokens = typed("tokens", "sequence", "auto"), total = typed("total", "tokens", "auto");
  on.setAttribute("list", id);
  const decode = h("input", {
    type: "checkbox",
    data: {
      focus: "start-decode"
    },
    onchange: () => sendAll()
  });
  const sendAll = () => wb.send({
    verb: "choose_machines",
    on: on.value,
    batch: batch.value,
    tokens: tokens.value,
    total: total.value,
    decode: decode.checked
  });
  const quick = h("div", {
    class: "quick",
    role: "group",
    ariaLabel: "Machines"
  });
  const workload = h("div", {
    class: "workload"
  }, h("label", {
    title: "Sequences of a step, 512, or tokens, 4M"
  }, h("span", {
    class: "muted"
  }, "Batch"), batch), h("label", {
    title: "Tokens of a sequence, 8k or 8192"
  }, h("span", {
    class: "muted"
  }, "Sequence"), tokens), h("label", {
    title: "Tokens to train on, 2T; by default 20 per parameter"
  }, h("span", {
    class: "muted"
  }, "Tokens"), total), h("label", {
    class: "check"
  }, decode, h("span", {}, "Decoding step, not training")));
  const submit = h("button", {
    class: "btn primary",
    type: "submit",
    data: {
      focus: "start-ask"
    }
  }, "Does it fit?");
  const form = h("form", {
    class: "machines",
    ariaLabel: "Machines",
    onsubmit: (event) => {
      event.preventDefault();
      sendAll();
    }
  }, h("div", {
    class: "line"
  }, on, submit), list, quick, workload);
  const take = (text) => {
    on.value = text;
    sendAll();
  };
  const paintQuick = painter(({ machines, attached }) => {
    const names = [
      ...machines,
      ...attached ? [
        "attached"
      ] : []
    ];
    list.replaceChildren(...names.map((name) => h("option", {
      value: name
    })));
    quick.replaceChildren(...names.map((name) => h("button", {
      class: "btn small",
      type: "button",
      data: {
        focus: `on ${name}`
      },
      onclick: () => take(name)
    }, name === "attached" ? "This machine" : name)));
  });
  const paintValues = painter((state) => {
    on.value = state.on;
    batch.value = state.batch;
    tokens.value = state.tokens;
    total.value = state.total;
    decode.checked = state.decode;
  });
  const paint = (state) => {
    paintQuick({
      machines: state.machines,
      attached: state.attached
    });
    paintValues({
      on: state.on,
      batch: state.batch,
      tokens: state.tokens,
      total: state.total,
      decode: state.decode
    });
    workload.hidden = !!state.model && !state.model.sized;
  };
  return {
    form,
    on,
    paint
  };
}
function startSection(wb) {
  const section = h("section", {
    class: "start",
    ariaLabel: "New plan",
    hidden: true
  });
  const zoo = zooPicker(wb), machines = machinesForm(wb), wait = waitLine(wb, "stop_start");
  const chosen = h("div", {
    class: "chosen-model",
    hidden: true
  }), choices = h("div", {
    class: "model-choices"
  });
  const inFolder = h("div", {
    class: "functions"
  }), answer = h("div", {
    class: "sizing"
  }), problem = h("div", {
    class: "problem"
  });
  const recent = h("div", {
    class: "recent"
  }), lessons = h("div", {
    class: "lessons"
  });
  const back = h("button", {
    class: "btn",
    type: "button",
    data: {
      focus: "start-back"
    },
    onclick: () => wb.send({
      verb: "new_plan",
      open: false
    })
  }, "Go to the board");
  const title = h("h1", {});
  const two = h("div", {
    class: "two-choices"
  }, h("div", {
    class: "start-step"
  }, h("h2", {}, "1 Model"), chosen, choices), h("div", {
    class: "start-step"
  }, h("h2", {}, "2 Machines"), machines.form, problem, wait.element, answer));
  choices.append(zoo.search, zoo.list, zoo.none, fileDrop(wb, section), inFolder);
  section.append(h("header", {}, title, back), two, h("footer", {}, recent, lessons));
  const paintChosen = painter((model) => {
    chosen.hidden = !model;
    choices.hidden = !!model;
    if (!model) return chosen.replaceChildren();
    const other = h("button", {
      class: "btn small",
      type: "button",
      data: {
        focus: "start-other"
      },
      onclick: () => wb.send({
        verb: "choose_model",
        model: ""
      })
    }, "Choose another");
    chosen.replaceChildren(h("b", {}, model.title), h("span", {
      class: "muted"
    }, ...withCode(model.about)), other);
    machines.on.focus({
      preventScroll: true
    });
  });
  const paintAnswer = painter((state) => keepingFocus(wb.root, answer, () => answer.replaceChildren(...state ? drawSizing(wb, state) : [])));
  const paintProblem = painter(({ failure, missing }) => problem.replaceChildren(...failure ? [
    h("div", {
      class: "told bad",
      role: "alert"
    }, ...drawProblem(failure).filter((node) => node !== null))
  ] : [], ...missing && !failure ? [
    h("p", {
      class: "muted",
      role: "status"
    }, missing)
  ] : []));
  const paintFolder = painter((state) => inFolder.replaceChildren(...drawConfigs(wb, state.configs), ...drawFunctions(wb, state.functions)));
  const paintRecent = painter((state) => recent.replaceChildren(...drawRecent(state)));
  const paintLessons = painter(({ courses, alone }) => {
    two.hidden = recent.hidden = alone;
    lessons.classList.toggle("alone", alone);
    title.textContent = alone ? "Lessons" : "What do you want to shard?";
    lessons.replaceChildren(...drawLessons(wb, courses, alone));
  });
  const paint = (state, refusal, seq) => {
    const isOpen = Boolean(state?.open), opened = isOpen && section.hidden;
    section.hidden = !isOpen;
    wb.root.dataset.starting = String(isOpen);
    if (!state?.open) return wait.paint(null);
    zoo.paint({
      zoo: state.zoo,
      abouts: state.abouts
    });
    machines.paint(state);
    paintChosen(state.model);
    paintFolder({
      configs: state.configs,
      functions: state.functions
    });
    paintRecent(state.recent);
    paintLessons({
      courses: state.lessons,
      alone: state.only_lessons
    });
    paintProblem({
      failure: refusal ?? state.problem,
      missing: state.missing,
      seq
    });
    wait.paint(state.work);
    paintAnswer(state.answer);
    section.dataset.waiting = String(Boolean(state.work));
    if (opened) setTimeout(() => (state.model ? machines.on : zoo.search).focus({
      preventScroll: true
    }));
  };
  return {
    section,
    paint
  };
}

// workbench/widgets/static/why.js
function whySection(wb) {
  const title = h("h2", {
    tabIndex: -1
  }), lead = h("div", {
    class: "lead"
  }), blocks = h("div", {
    class: "answer"
  });
  const words = h("p", {
    class: "words muted",
    hidden: true
  });
  const hide = () => {
    const asker = wb.asker;
    wb.asker = null;
    wb.send({
      verb: "why",
      of: ""
    });
    const again = asker && all(wb.root, "[data-focus]").find((element) => [
      `why ${asker.of}`,
      asker.focus.dataset.focus
    ].includes(element.dataset.focus));
    (again ?? wb.root).focus({
      preventScroll: true
    });
  };
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close the answer",
    onclick: hide
  }, "\xD7");
  const section = h("aside", {
    class: "whypanel",
    ariaLabel: "Why?",
    hidden: true,
    onkeydown: (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        hide();
      }
    }
  }, h("header", {}, title, close), h("div", {
    class: "body",
    tabIndex: 0,
    role: "group",
    ariaLabel: "The answer"
  }, lead, blocks, words));
  const paint = painter((why) => {
    const isNew = why && section.dataset.of !== why.of;
    section.hidden = !why;
    section.dataset.of = why?.of ?? "";
    if (!why) return;
    title.textContent = why.title;
    lead.replaceChildren(...why.lead.map((line) => h("p", {}, ...withCode(line))));
    patchBlocks(wb, blocks, why.blocks);
    words.hidden = !why.words.length;
    words.replaceChildren("Terms: ", ...why.words.flatMap((word, place) => [
      place ? ", " : "",
      termLabel(wb, word)
    ]));
    if (isNew && wb.asker) title.focus();
  });
  return {
    section,
    paint
  };
}

// workbench/widgets/static/mount.js
function mount(model, el) {
  const root = h("div", {
    class: "wb",
    tabIndex: -1
  });
  const live = h("div", {
    class: "sr",
    ariaLive: "assertive",
    role: "status"
  });
  const noAnswer = h("div", {
    class: "note warn",
    hidden: true
  }, "No answer from the server for 10 s");
  const card = h("div", {
    class: "card"
  });
  const box = outbox(model, root);
  const wb = makeWb(root, card, live, box, model.library, BLOCK_DRAWERS);
  const lesson = lessonSection(wb);
  root.append(h("div", {
    class: "with-lesson"
  }, lesson.section, card), live);
  const head = h("header", {
    class: "head"
  });
  const figures = h("div", {
    class: "figures"
  }), standing = h("div", {
    class: "standing"
  });
  const board = boardSection(wb), tables = tablesSection(wb), run = runSection(wb);
  const alarms = h("div", {
    class: "alarms"
  });
  const why = whySection(wb);
  const compile = compileSection(wb), lines = sourceSection(wb);
  const history = historySection(wb), files = filesSection(wb), exercise = exerciseSection(wb);
  const start = startSection(wb), strip = modelStrip(wb);
  card.append(start.section, head, strip.section, figures, files.notice, standing, noAnswer, exercise.section, board.section, files.section, history.section, alarms, h("div", {
    class: "lower"
  }, tables.section, h("div", {
    class: "inspector"
  }, why.section, lines.section)), h("div", {
    class: "jobs"
  }, compile.section, run.section), run.results, helpSection(wb));
  const paintHead = painter((state) => keepingFocus(root, head, () => drawHead(wb, head, state)));
  const paintFigures = painter((state) => keepingFocus(root, figures, () => patch(figures, state, (figure) => drawFigure(wb, figure))));
  const paintStanding = painter((state) => keepingFocus(root, standing, () => standing.replaceChildren(...drawStanding(wb, state))));
  const paintAlarms = painter((state) => patch(alarms, state, (alarm) => drawAlarm(wb, alarm)));
  const stop = new AbortController();
  let said = "";
  wb.paint = paintAfterPress(root, () => {
    if (wb.dragging) {
      wb.whileDragging?.(model.get("table"));
      return;
    }
    const state = model.get("board");
    const { name, mesh, devices, count, layout, undo, redo, program, hardware, zones, spare, refusal } = state;
    const seq = refusal ? state.answer.seq : 0;
    const inHead = refusal && [
      hardware.zone,
      program.zone
    ].includes(refusal.zone) ? refusal : null;
    paintHead({
      name,
      mesh,
      devices,
      layout,
      undo,
      redo,
      program,
      hardware,
      tools: {
        count: state.history.count,
        open: state.history.open,
        path: state.files.path,
        saves: state.files.saves,
        exchanges: state.files.exchanges,
        starts: Boolean(state.start),
        sheet: state.files.sheet?.kind ?? ""
      },
      refusal: inHead,
      seq: inHead ? seq : 0
    });
    files.paint(state.files, refusal?.zone === "tools" ? refusal : null, seq);
    history.paint(state.history);
    const began = root.dataset.starting === "true";
    start.paint(state.start, refusal?.zone === "start panel" ? refusal : null, seq);
    if (began && !state.start?.open && !undo) firstTour(wb, model);
    strip.paint(state.model, refusal?.zone === "model sizes" ? refusal : null, seq);
    const aboutIt = refusal?.zone === "exercise" ? refusal : null;
    exercise.paint({
      state: state.exercise,
      refusal: aboutIt,
      seq: aboutIt ? seq : 0
    });
    lesson.paint(state.lesson ?? null, state.lesson_blocks ?? [], state.exercise);
    root.dataset.predicting = String(state.exercise?.predicting ?? false);
    paintFigures(state.figures);
    paintStanding(state.standing);
    root.dataset.settling = `${state.standing.settling}`;
    paintAlarms(state.alarms);
    if (!wb.optimistic || root.dataset.busy !== "true") {
      board.paint({
        zones,
        spare,
        count,
        refusal,
        seq
      }, wb.optimistic);
      wb.optimistic = false;
    }
    tables.paintTargets({
      zones: zones.map(({ axis, title, colour, size }) => ({
        axis,
        title,
        colour,
        size
      })),
      tab: model.get("table").tab,
      refusal: refusal?.zone === "tables" ? refusal : null,
      seq: refusal?.zone === "tables" ? seq : 0
    });
    const opened = state.tabs.find(({ open }) => open);
    tables.paintViews(state.views);
    tables.paintSections(state.tabs.filter(({ view }) => view && view === opened?.view));
    const opening = opened?.key !== model.get("table").tab;
    tables.section.classList.toggle("opening", opening);
    tables.section.ariaBusy = String(opening);
    board.paintFind(state.tabs.find(({ key }) => key === "find") ?? null);
    const { seq: charted, why: because, recipes, source, stages, told: _told, ...table } = model.get("table");
    if (root.dataset.busy !== "true" && (!state.follows || charted === state.answer.seq)) wb.placed = false;
    tables.paintStages(stages ?? null);
    tables.paintTable(table);
    why.paint(because);
    const linked = source?.linked.join("\n") ?? "", relinked = linked !== [
      ...wb.linked
    ].join("\n");
    if (relinked) wb.linked = new Set(source?.linked);
    paintStageRefusal(wb, refusal, seq);
    board.paintRecipes(recipes ?? null);
    root.dataset.charted = `${charted}`;
    run.paint(model.get("live"), table.tab);
    compile.paint(model.get("live"));
    markChosen(wb, state.selected ?? "", relinked);
    markColleagues(wb, model.get("colleagues") ?? []);
    lines.paint(source ?? null);
    noAnswer.hidden = root.dataset.silent !== "true";
    if (state.said && state.said !== said) wb.say(state.said);
    said = state.said;
    followTour(wb, layout);
    root.dataset.answered = `${state.answer.seq}`;
  }, stop.signal);
  const onBoard = () => {
    box.answered(model.get("board").answer);
    wb.paint();
    takenUp(wb, model.get("board").taken);
    wb.previews = model.get("board").previews ?? null;
    showPreviews(wb);
    expectTable();
  };
  const expectTable = () => {
    const { answer: { view, seq }, follows } = model.get("board");
    if (follows && view === box.view) {
      setTimeout(() => {
        if (model.get("board").answer.seq === seq && model.get("table").seq !== seq) box.refresh();
      }, 3e3);
    }
  };
  const watching = setInterval(() => {
    const live2 = model.get("live");
    if (live2.phase === "running" || live2.compile?.phase === "running") box.refresh();
  }, 5e3);
  const listeners = {
    "change:board": onBoard,
    "change:table": () => wb.paint(),
    "change:live": () => wb.paint(),
    "change:theme": () => applyTheme(),
    "change:colleagues": () => markColleagues(wb, model.get("colleagues") ?? [])
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  const applyTheme = makeTheme(wb, model, stop.signal);
  document.addEventListener("pointerdown", (event) => {
    const path = event.composedPath();
    if (wb.menu && !path.includes(wb.menu.element) && !path.includes(wb.menu.anchor)) closeMenu(wb, false);
    if (wb.held && !path.some((element) => element instanceof Element && element.matches(".zone, .droptarget, .dim"))) release(wb);
  }, {
    signal: stop.signal
  });
  root.addEventListener("keydown", (event) => onShortcut(wb, event));
  new MutationObserver(() => {
    noAnswer.hidden = root.dataset.silent !== "true";
  }).observe(root, {
    attributes: true,
    attributeFilter: [
      "data-silent"
    ]
  });
  makeSelectable(wb);
  makeBoxesPickable(wb);
  makePicturesOpen(wb);
  wb.subscribe("selected", () => markCharts(wb));
  applyTheme();
  wb.paint();
  el.append(h("style", {}, STYLE), root);
  firstTour(wb, model);
  box.begin();
  return () => {
    stop.abort();
    removeCharts(root);
    box.close();
    clearInterval(watching);
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}

// workbench/widgets/static/model_parts.js
var PARTS = [
  "board",
  "table",
  "live",
  "colleagues"
];
function withChange(before, change) {
  if (Array.isArray(change)) return change[0];
  const after = Array.isArray(before) ? [
    ...before
  ] : {
    ...before
  };
  for (const [key, part2] of Object.entries(change)) after[key] = withChange(before[key], part2);
  return after;
}
function withParts(model) {
  const known = {};
  const byEvent = {};
  const part2 = (name) => {
    const text = model.get(name);
    if (typeof text !== "string") return text;
    if (known[name]?.text !== text) known[name] = {
      text,
      state: JSON.parse(text)
    };
    return known[name].state;
  };
  const take = () => {
    const text = model.get("changes");
    if (typeof text !== "string" || !text) return;
    const { part: name, of, by } = JSON.parse(text);
    const before = part2(name);
    if (before.edition === of) {
      known[name].state = withChange(before, by);
      for (const listener of [
        ...byEvent[name] ?? []
      ]) listener();
    } else if (before.edition < of) {
      model.set("gesture", {
        verb: "refresh"
      });
      model.save_changes();
    }
  };
  model.on("change:changes", take);
  take();
  const listeners = (event) => byEvent[event.replace("change:", "")] ??= /* @__PURE__ */ new Set();
  return {
    get: (name) => PARTS.includes(name) ? part2(name) : model.get(name),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => {
      model.on(event, listener);
      listeners(event).add(listener);
    },
    off: (event, listener) => {
      model.off(event, listener);
      listeners(event).delete(listener);
    },
    library: model.library
  };
}

// workbench/widgets/static/main.js
var isFleet = (model) => model.get("board").kind === "fleet";
function render({ model, el }) {
  try {
    const shown = withParts(model);
    return isFleet(shown) ? mountFleet(shown, el) : mount(shown, el);
  } catch (error) {
    console.error(error);
    el.append(
      h("style", {}, STYLE),
      h(
        "div",
        { class: "wb" },
        h(
          "div",
          { class: "card" },
          h("div", { class: "failure", role: "alert" }, `The board could not be drawn: ${/** @type {Error} */
          error.message}`)
        )
      )
    );
    return () => {
    };
  }
}
var main_default = { render };
export {
  main_default as default
};
