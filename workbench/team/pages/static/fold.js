// @ts-check
// Right after what stands open on wide pages alone: closed before it is drawn on others.
if (!matchMedia("(min-width: 1080px)").matches) document.querySelector("[data-wide-open]")?.removeAttribute("open");
