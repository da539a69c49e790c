// @ts-check
// Jobs that are not over, and the wall of a class: the server is asked every two seconds, or as often as `data-every` says, for their parts of the
// page, which replace what is shown. While the page is hidden it asks for nothing.

const PAUSE = 2000; // milliseconds between two questions
const LONGEST = 30000; // where the server does not answer

export function followJobs() {
  const first = document.querySelector("[data-follow]");
  if (!(first instanceof HTMLElement)) return;
  const usual = Number(first.dataset.every) || PAUSE;
  let pause = usual;
  const again = () => setTimeout(ask, pause);
  const ask = async () => {
    if (document.hidden) {
      document.addEventListener("visibilitychange", ask, { once: true });
      return;
    }
    const parts = [...document.querySelectorAll("[data-follow]")];
    if (parts.length === 0) return;
    const places = parts.filter((each) => each instanceof HTMLElement);
    try {
      await Promise.all(places.map(renew));
      pause = usual;
    } catch {
      pause = Math.min(LONGEST, pause * 2);
    }
    again();
  };
  again();
}

/**
 * The part as the server makes it now; one whose job is over is followed no more.
 * @param {HTMLElement} part
 */
async function renew(part) {
  const answer = await fetch(part.dataset.follow ?? "", { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  const fresh = await answer.json();
  const open = part.contains(document.activeElement); // a hand that is on a button of it keeps it
  if (typeof fresh.html === "string" && !open && fresh.html !== part.dataset.shown) {
    const within = document.createRange(); // of the part: rows of a table are read as such
    within.selectNodeContents(part);
    const log = part.querySelector("pre");
    const atEnd = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    const place = log?.scrollTop ?? 0;
    part.replaceChildren(within.createContextualFragment(fresh.html));
    part.dataset.shown = fresh.html;
    const now = part.querySelector("pre");
    if (now) now.scrollTop = atEnd ? now.scrollHeight : place;
  }
  if (fresh.over) delete part.dataset.follow;
}
