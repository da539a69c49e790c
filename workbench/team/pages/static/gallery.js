// @ts-check
// Filters the gallery without a page load and counts the plans selected for comparison; the server renders the same results without scripts.

const MAX_COMPARED = 10; // plans per comparison; the server enforces the same limit
const DEBOUNCE_MS = 250; // for the filter field

export function filterInPlace() {
  const form = document.querySelector("form[data-filters]");
  const results = document.getElementById("results");
  if (!(form instanceof HTMLFormElement) || !results) return;
  let last = 0;
  let waiting = 0;

  /** @param {string} address */
  const show = async (address) => {
    const request = ++last;
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { credentials: "same-origin" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("results");
      if (request !== last) return;
      if (!answer.ok || !fresh) {
        location.assign(address);
        return;
      }
      const chosen = new Set(ticked().map((box) => box.value));
      results.replaceChildren(...fresh.childNodes);
      for (const box of boxes()) box.checked = chosen.has(box.value);
      count();
    } catch {
      location.assign(address);
    } finally {
      if (request === last) results.removeAttribute("aria-busy");
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
    waiting = setTimeout(apply, DEBOUNCE_MS);
  });
  document.addEventListener("change", (event) => {
    if (event.target instanceof HTMLInputElement && event.target.name === "plans") count();
  });
  count();
}

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll("input[name=plans]")].filter((input) => input instanceof HTMLInputElement);
}

/** @returns {HTMLInputElement[]} */
function ticked() {
  return boxes().filter((box) => box.checked);
}

/** Shows the number of selected plans and disables the remaining boxes at the limit. */
function count() {
  const number = ticked().length;
  const bar = document.querySelector(".dock");
  if (!bar) return;
  bar.classList.toggle("shown", number > 0);
  for (const box of boxes()) box.disabled = !box.checked && number >= MAX_COMPARED;
  const label = bar.querySelector("[data-count]");
  if (label) {
    label.textContent = number < 2
      ? "One plan is ticked: tick another to compare them."
      : `${number} plans are ticked${number >= MAX_COMPARED ? "; that is the maximum" : ""}.`;
  }
  const button = bar.querySelector("button");
  if (button) button.disabled = number < 2;
}
