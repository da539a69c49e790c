// @ts-check
// Runs as soon as the element is parsed, so that narrow pages close it before the first paint.
if (!matchMedia("(min-width: 1080px)").matches) document.querySelector("[data-wide-open]")?.removeAttribute("open");
