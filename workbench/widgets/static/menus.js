// Menus of chips and axes. Python says what they offer; each item carries its own gesture.

function closeMenu(wb, refocus = true) {
  if (!wb.menu) return;
  const { element, anchor } = wb.menu;
  wb.menu = null;
  element.remove();
  anchor.setAttribute("aria-expanded", "false");
  if (refocus) (anchor.closest(".image") ?? anchor).focus({ preventScroll: true }); // no mark of a picture takes the focus
}

function openMenu(wb, anchor, items, fields = {}) {
  const again = wb.menu?.anchor === anchor;
  closeMenu(wb, false);
  if (again) return;
  release(wb);
  const choose = (gesture) => {
    closeMenu(wb, true);
    if (gesture.verb === "why") askWhy(wb, gesture.of, anchor);
    else wb.send({ ...gesture, ...fields });
  };
  const element = h("div", { class: "menu", role: "menu" }, ...items.map((item) => (item.heading ? h("div", { class: "heading", role: "presentation" }, item.heading) : item.choices ? drawChoices(item, choose) : h("button", {
    type: "button", role: "menuitem", class: item.reason ? "barred" : "", title: TERMS.get(item.label.toLowerCase())?.says ?? "",
    onclick: () => (item.ask ? askName(wb, element, item, choose) : choose(item.gesture)),
  }, item.label, item.note && h("small", { class: "note" }, item.note), item.reason && h("small", {}, item.reason)))));
  element.addEventListener("keydown", (event) => walkMenu(wb, element, event));
  wb.card.append(element);
  placeMenu(wb.card, element, anchor);
  wb.menu = { element, anchor };
  anchor.setAttribute("aria-expanded", "true");
  element.querySelector("button")?.focus({ preventScroll: true });
}

// A row of small options: one of them holds, or any number.
function drawChoices(item, choose) {
  return h("div", { class: "optionrow", role: "group", ariaLabel: item.choices }, h("span", { ariaHidden: "true", title: TERMS.get(item.choices.toLowerCase())?.says ?? "" }, item.choices), ...item.options.map((option) => h("button", {
    type: "button", role: item.many ? "menuitemcheckbox" : "menuitemradio", ariaChecked: String(option.checked), class: option.reason ? "barred" : "", title: option.reason ?? "", onclick: () => choose(option.gesture),
  }, option.label)));
}

function placeMenu(card, element, anchor) {
  const frame = card.getBoundingClientRect(), at = anchor.getBoundingClientRect();
  element.style.left = `${Math.max(4, Math.min(at.left - frame.left, frame.width - element.offsetWidth - 4))}px`;
  const height = element.offsetHeight, room = window.innerHeight - 8;
  const above = at.top - height - 4;
  const top = at.bottom + 4 + height <= room ? at.bottom + 4 : above >= 8 ? above : Math.max(8, room - height);
  element.style.top = `${top - frame.top}px`;
  if (top < at.bottom && top + height > at.top && at.right + 4 + element.offsetWidth < frame.right) element.style.left = `${at.right + 4 - frame.left}px`; // beside it, not over it
}

function walkMenu(wb, element, event) {
  if (event.key === "Escape") { event.preventDefault(); closeMenu(wb); return; }
  const inRow = event.target.closest(".optionrow");
  const step = { ArrowDown: 1, ArrowUp: -1, ...(inRow ? { ArrowRight: 1, ArrowLeft: -1 } : {}) }[event.key];
  if (!step || event.target.matches("input")) return;
  event.preventDefault();
  const all = [...element.querySelectorAll("button")];
  const now = all.indexOf(element.getRootNode().activeElement);
  all[(now + step + all.length) % all.length]?.focus();
}

function askName(wb, element, item, choose) {
  const offered = item.ask.options ? h("datalist", { id: `offered-${wb.view}` }, ...item.ask.options.map((value) => h("option", { value }))) : null;
  const input = h("input", { class: "field", value: item.ask.value, ariaLabel: item.ask.label, maxLength: 400, list: offered?.id, placeholder: item.ask.options ? `${item.ask.label} …` : "" });
  element.setAttribute("role", "dialog"); // a menu holds items, and no field
  element.ariaLabel = item.label;
  element.replaceChildren(h("form", { onsubmit: (event) => { event.preventDefault(); choose({ ...item.gesture, name: input.value }); } },
    input, offered, h("button", { class: "btn primary", type: "submit", style: "width:auto;display:inline-block" }, item.ask.verb)));
  input.focus();
  input.select();
}
