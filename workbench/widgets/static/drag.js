// Taking a chip and dropping it: by pointer (mouse, pen, touch), by keyboard, and by click and click.
// `wb.held` is the chip in hand: `{chip, target, add, by}`. Whether a zone takes it, Python has said in `chip.illegal`.

const REST = 30; // milliseconds over a zone after which Python works out what a drop there would do
const KEYS_HELP = "Arrows choose the zone, space drops, shift and space adds the axis, escape cancels.";

function zoneElements(wb) { return [...wb.root.querySelectorAll(".zone[data-axis], .droptarget[data-axis]")]; }

// A chip of the tables edits the rule, or with `only` places its own tensor alone.
function reasonAt(held, axis) {
  if (!held || axis === held.chip.source) return null;
  const illegal = held.chip.lazy ? held.chip.illegal[held.only ? "only" : "rule"] : held.chip.illegal;
  return illegal[axis]?.[held.add ? "add" : "move"] ?? null;
}

// What the keys under the hand say.
const pressed = (wb, event) => ({ add: event.shiftKey, only: wb.only !== event.altKey });

// Mark every zone for the chip in hand: barred with the reason, and the one under the hand.
function aim(wb) {
  const held = wb.held;
  wb.board.classList.toggle("aiming", Boolean(held));
  wb.root.classList.toggle("aiming", Boolean(held));
  if (held?.by === "keyboard") wb.board.setAttribute("role", "application");
  else wb.board.removeAttribute("role");
  for (const zone of zoneElements(wb)) {
    const axis = zone.dataset.axis;
    const reason = reasonAt(held, axis);
    zone.classList.toggle("barred", Boolean(reason));
    zone.classList.toggle("over", Boolean(held) && held.target === axis);
    zone.querySelector(".why")?.remove();
    if (reason) zone.append(h("div", { class: "why", title: reason }, reason));
  }
  for (const chip of wb.root.querySelectorAll(".chip:not(.ghost), .dim:not(.ghost)")) {
    const mine = held?.chip.key === chip.dataset.chip;
    chip.classList.toggle("picked", Boolean(mine && held.by !== "pointer"));
    chip.classList.toggle("lifted", Boolean(mine && held.by === "pointer"));
    chip.querySelector(".grip").ariaPressed = String(Boolean(mine));
  }
  foresee(wb);
}

// A hand that rests over a zone may let go there: by then the answer is worked out.
function foresee(wb) {
  const held = wb.held;
  clearTimeout(wb.foreseeing);
  if (!held || isNowhere(held) || reasonAt(held, held.target)) return;
  wb.foreseeing = setTimeout(() => wb.expect(dropOf(held)), REST);
}

const isNowhere = ({ chip, target, add }) => target === null || (target === chip.source && !add);

// What a drop of the chip in hand is to Python.
function dropOf({ chip, target, add, only }) {
  const { of, path, rank, place, source } = chip;
  if (!chip.lazy) return { verb: "drop", dim: chip.dim, source, target, add };
  if (only || chip.nameless) return { verb: "own", of, path, rank, place, source, target, add, zone: "tables" };
  return { verb: "drop", dim: chip.rule, source, target, add, zone: "tables" };
}

function hold(wb, chip, by) {
  wb.held = { chip, by, target: by === "keyboard" ? chip.source : null, add: false, only: wb.only || chip.nameless };
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

// Send the drop, and show the chip where it was dropped until Python answers.
function drop(wb, axis, add) {
  const held = { ...wb.held, target: axis, add }, { chip } = held;
  wb.held = null;
  aim(wb);
  if (isNowhere(held)) return;
  if (chip.lazy) wb.root.querySelectorAll(".dim").forEach((each) => { if (each.dataset.chip === chip.key) each.classList.add("pending"); });
  else showDropped(wb, chip, axis, add);
  wb.send(dropOf(held));
}

function showDropped(wb, chip, axis, add) {
  wb.wanted = `${chip.dim}@${axis}`;
  wb.optimistic = true;
  const element = [...wb.board.querySelectorAll(".chip")].find((each) => each.dataset.chip === chip.key);
  const zone = zoneElements(wb).find((each) => each.dataset.axis === axis);
  if (element && zone && !add) showPending(wb, element, zone, { ...chip, key: `${chip.dim}@${axis}`, source: axis, illegal: {}, menu: [] });
}

// A chip on its way can be taken again at once: what it is then, and whether that is legal, Python says.
function showPending(wb, element, zone, chip) {
  const pending = drawChip(wb, chip);
  pending.classList.add("pending");
  element.remove();
  wb.chips.set(chip.key, chip);
  zone.querySelector(".chips").append(pending);
}

// `gripped` is the chip, or says which it is by where it was gripped.
function makeDraggable(wb, element, grip, more, gripped) {
  const at = (event) => (typeof gripped === "function" ? gripped(event) : gripped);
  grip.addEventListener("pointerdown", (event) => { if (!event.button) startDrag(wb, element, grip, at(event), event); });
  grip.addEventListener("keydown", (event) => onKey(wb, grip, more, at(null), event));
  grip.addEventListener("keyup", (event) => { if (event.key === " ") event.preventDefault(); });
  // A click without a pointer is a screen reader's: it picks, too. Clicks of a pointer are told from drags below.
  grip.addEventListener("click", (event) => { if (event.detail === 0 && !wb.held) clicked(wb, at(null), event); });
}

function startDrag(wb, element, grip, chip, start) {
  let ghost = null;
  const at = start.target; // read now: out of the shadow root an event names its host
  wb.dragging = true; // from the press on: a repaint between press and pull would take the chip from the hand
  grip.setPointerCapture(start.pointerId);
  const move = (event) => {
    if (!ghost && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 5) return;
    if (!ghost) {
      closeMenu(wb, false);
      hold(wb, chip, "pointer");
      ghost = element.cloneNode(true);
      ghost.classList.remove("lifted");
      ghost.classList.add("ghost");
      wb.root.append(ghost);
    }
    ghost.style.left = `${event.clientX + 10}px`;
    ghost.style.top = `${event.clientY + 8}px`;
    const zone = wb.root.getRootNode().elementsFromPoint(event.clientX, event.clientY).find((each) => each.matches?.(".zone[data-axis], .droptarget[data-axis]"));
    const target = zone && wb.root.contains(zone) ? zone.dataset.axis : null;
    const keys = pressed(wb, event);
    if (wb.held && (target !== wb.held.target || keys.add !== wb.held.add || keys.only !== wb.held.only)) { Object.assign(wb.held, { target, ...keys }); aim(wb); }
  };
  const stop = new AbortController();
  const end = (event) => {
    stop.abort();
    ghost?.remove();
    wb.dragging = false;
    if (!ghost && event.type === "pointerup") clicked(wb, chip, event, at);
    else if (event.type === "pointerup" && wb.held) { Object.assign(wb.held, pressed(wb, event)); drop(wb, wb.held.target, event.shiftKey); }
    else release(wb);
    wb.paint();
  };
  const escape = (event) => { if (event.key === "Escape" && ghost) end(event); };
  grip.addEventListener("pointermove", move, { signal: stop.signal });
  grip.addEventListener("pointerup", end, { signal: stop.signal });
  grip.addEventListener("pointercancel", end, { signal: stop.signal });
  document.addEventListener("keydown", escape, { signal: stop.signal, capture: true });
}

// A click picks a chip of the board up or puts the one in hand down; on a chip of the tables it opens the menu.
function clicked(wb, chip, event, at = null) {
  const mark = !wb.held && at?.closest?.("[data-asks]"); // the mark of an axis: where it comes from
  if (chip.lazy && mark) { askWhy(wb, mark.dataset.asks, mark.closest(".grip")); return; }
  if (chip.lazy) { askMenu(wb, chip, event.currentTarget ?? event.target.closest(".grip")); return; }
  if (wb.held && wb.held.chip.source !== chip.source) drop(wb, chip.source, event.shiftKey);
  else if (wb.held?.chip.key === chip.key) release(wb);
  else hold(wb, chip, "click");
}

function onKey(wb, grip, more, chip, event) {
  const mine = wb.held?.chip.key === chip.key;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    if (mine) drop(wb, wb.held.target, event.shiftKey);
    else hold(wb, chip, "keyboard");
  } else if (event.key === "Escape" && wb.held) {
    event.preventDefault();
    release(wb);
  } else if (event.key === "ContextMenu" || event.key === "m" || (event.key === "F10" && event.shiftKey)) {
    event.preventDefault();
    if (chip.lazy) askMenu(wb, chip, grip);
    else openMenu(wb, more, chip.menu, { zone: chip.source });
  } else if (step) {
    event.preventDefault();
    if (mine) choose(wb, step);
    else if (!chip.lazy) walk(wb, grip, step);
  } else if (event.key.toLowerCase() === "o" && mine && chip.lazy) {
    wb.held.only = !wb.held.only;
    aim(wb);
    wb.say(wb.held.only ? `Only ${chip.path}.` : `The rule of ${chip.dim}.`);
  } else if (event.key === "Shift" && mine) {
    wb.held.add = true;
    aim(wb);
  }
}

// Move the target of the chip in hand, and say what is there.
function choose(wb, step) {
  const held = wb.held;
  const now = wb.axes.indexOf(held.target);
  held.target = wb.axes[(now + step + wb.axes.length) % wb.axes.length];
  held.add = false;
  aim(wb);
  const reason = reasonAt(held, held.target);
  wb.say(`${held.target || "unsharded"}, ${wb.axes.indexOf(held.target) + 1} of ${wb.axes.length}${reason ? `. Not possible: ${reason}` : ""}`);
}

// One tab stop a zone; arrows walk over all chips.
function walk(wb, grip, step) {
  const all = [...wb.board.querySelectorAll(".zone .grip")];
  all[(all.indexOf(grip) + step + all.length) % all.length]?.focus();
}
