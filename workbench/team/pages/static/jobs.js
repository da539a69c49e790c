// @ts-check
// Polls the server for running jobs and the class progress, and replaces their parts of the page; polling stops while the page is hidden.

const INTERVAL_MS = 2000; // default polling interval; `data-every` overrides it
const MAX_INTERVAL_MS = 30000; // longest interval while the server does not answer

export function followJobs() {
  const first = document.querySelector("[data-follow]");
  if (!(first instanceof HTMLElement)) return;
  const interval = Number(first.dataset.every) || INTERVAL_MS;
  let pause = interval;
  const schedule = () => setTimeout(poll, pause);
  const poll = async () => {
    if (document.hidden) {
      document.addEventListener("visibilitychange", poll, { once: true });
      return;
    }
    const parts = [...document.querySelectorAll("[data-follow]")];
    if (parts.length === 0) return;
    const places = parts.filter((part) => part instanceof HTMLElement);
    try {
      await Promise.all(places.map(refresh));
      pause = interval;
    } catch {
      pause = Math.min(MAX_INTERVAL_MS, pause * 2);
    }
    schedule();
  };
  schedule();
}

/**
 * Replaces the part with the server's current version; a finished job is no longer polled.
 * @param {HTMLElement} part
 */
async function refresh(part) {
  const answer = await fetch(part.dataset.follow ?? "", { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  const fresh = await answer.json();
  const open = part.contains(document.activeElement); // do not replace a part that contains the focused button
  if (typeof fresh.html === "string" && !open && fresh.html !== part.dataset.shown) {
    const range = document.createRange(); // parse in the context of the part, so that `<tr>` elements survive
    range.selectNodeContents(part);
    const log = part.querySelector("pre");
    const atEnd = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    const place = log?.scrollTop ?? 0;
    part.replaceChildren(range.createContextualFragment(fresh.html));
    part.dataset.shown = fresh.html;
    const now = part.querySelector("pre");
    if (now) now.scrollTop = atEnd ? now.scrollHeight : place;
  }
  if (fresh.over) delete part.dataset.follow;
}
