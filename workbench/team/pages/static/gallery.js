// @ts-check
// The gallery: a filter shows its plans without a new page, and the bar below counts what is to be compared. No decision is made here: the
// server sends the same page as it would without scripts.

const MOST = 10; // plans in a comparison; the server holds it, too
const REST = 250; // milliseconds after a letter is typed

export function filterInPlace() {
  const form = document.querySelector("form[data-filters]");
  const results = document.getElementById("results");
  if (!(form instanceof HTMLFormElement) || !results) return;
  let last = 0;
  let waiting = 0;

  /** @param {string} address */
  const show = async (address) => {
    const asked = ++last;
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { credentials: "same-origin" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("results");
      if (asked !== last) return;
      if (!answer.ok || !fresh) {
        location.assign(address);
        return;
      }
      const chosen = new Set(ticked().map((each) => each.value));
      results.replaceChildren(...fresh.childNodes);
      for (const each of boxes()) each.checked = chosen.has(each.value);
      count();
    } catch {
      location.assign(address);
    } finally {
      if (asked === last) results.removeAttribute("aria-busy");
    }
  };
  const address = () => {
    const query = new URLSearchParams();
    for (const [key, value] of new FormData(form)) if (typeof value === "string" && value) query.append(key, value);
    return `${form.action}${query.size ? `?${query}` : ""}`;
  };
  const apply = () => {
    const next = address();
    history.replaceState(null, "", next);
    show(next);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  form.addEventListener("change", apply);
  form.addEventListener("input", (event) => {
    if (!(event.target instanceof HTMLInputElement) || event.target.type !== "search") return;
    clearTimeout(waiting);
    waiting = setTimeout(apply, REST);
  });
  document.addEventListener("change", (event) => {
    if (event.target instanceof HTMLInputElement && event.target.name === "plans") count();
  });
  count();
}

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll("input[name=plans]")].filter((each) => each instanceof HTMLInputElement);
}

/** @returns {HTMLInputElement[]} */
function ticked() {
  return boxes().filter((each) => each.checked);
}

/** How many are ticked, in the bar below; no more than can be compared. */
function count() {
  const number = ticked().length;
  const bar = document.querySelector(".dock");
  if (!bar) return;
  bar.classList.toggle("shown", number > 0);
  for (const each of boxes()) each.disabled = !each.checked && number >= MOST;
  const says = bar.querySelector("[data-count]");
  if (says) {
    says.textContent = number < 2
      ? "One plan is ticked: tick another to compare them."
      : `${number} plans are ticked${number >= MOST ? "; that is the most" : ""}.`;
  }
  const button = bar.querySelector("button");
  if (button) button.disabled = number < 2;
}
