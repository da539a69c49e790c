// The mesh editor beside the chips: how many devices the mesh has, and its axes moved by hand or by key.

function drawCount(count) {
  return h("span", { class: `devices ${count.tone}`, title: count.title, role: count.tone === "bad" ? "alert" : null }, count.text);
}

// The grip of a mesh axis: drag it before or behind another axis, or move it with the arrows.
function drawHandle(wb, zone) {
  const handle = h("button", {
    class: "handle", type: "button", ariaLabel: `Move mesh axis ${zone.axis}: left and right arrows`, title: "Drag to reorder the mesh axes: which devices are neighbours", data: { focus: `handle-${zone.axis}` },
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      wb.send({ verb: "shift_axis", axis: zone.axis, by });
    },
    onpointerdown: (event) => { if (!event.button) dragAxis(wb, zone.axis, handle, event); },
  }, h("span", { ariaHidden: "true" }, "⠿"));
  return handle;
}

function dragAxis(wb, axis, handle, start) {
  const zones = [...wb.board.querySelectorAll(".axes > .zone[data-axis]")];
  const mine = zones.find((zone) => zone.dataset.axis === axis);
  let order = null;
  handle.setPointerCapture(start.pointerId);
  const clear = () => zones.forEach((zone) => zone.classList.remove("lifted", "before", "behind"));
  const move = (event) => {
    if (!wb.dragging && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 5) return;
    wb.dragging = true;
    clear();
    mine.classList.add("lifted");
    order = null;
    const over = zones.find((zone) => { const box = zone.getBoundingClientRect(); return event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom; });
    if (!over || over === mine) return;
    const box = over.getBoundingClientRect();
    const behind = event.clientX > box.left + box.width / 2;
    over.classList.add(behind ? "behind" : "before");
    order = zones.map((zone) => zone.dataset.axis).filter((name) => name !== axis);
    order.splice(order.indexOf(over.dataset.axis) + (behind ? 1 : 0), 0, axis);
  };
  const stop = new AbortController();
  const end = (event) => {
    stop.abort();
    clear();
    const dragged = wb.dragging;
    wb.dragging = false;
    if (dragged && order && event.type === "pointerup") wb.send({ verb: "order_axes", axis, names: order });
    wb.paint();
  };
  handle.addEventListener("pointermove", move, { signal: stop.signal });
  handle.addEventListener("pointerup", end, { signal: stop.signal });
  handle.addEventListener("pointercancel", end, { signal: stop.signal });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && wb.dragging) end(event); }, { signal: stop.signal, capture: true });
}

// Arrows in the size of an axis double and halve it: sizes are powers of two more often than not.
function stepSize(event, size) {
  if (event.key === "Enter") { sendStepped(size); return; }
  const value = Number(size.value);
  if (!Number.isInteger(value) || value < 1) return;
  const next = { ArrowUp: value * 2, ArrowDown: value % 2 ? value : value / 2 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  size.value = `${next}`;
  size.dataset.stepped = "yes";
}

// A value that a script wrote makes no event of its own.
function sendStepped(size) {
  if (!size.dataset.stepped) return;
  delete size.dataset.stepped;
  size.dispatchEvent(new Event("change"));
}
