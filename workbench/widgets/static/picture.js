// @ts-check
// Pictures: Python draws them. Here what they open is asked for, and they are taken away as files.

import { paintCharts, removeCharts } from "./chart.js";
import { around, h, one, targetOf, the } from "./dom.js";
import { widenTool } from "./widen.js";
/** @import { Picture } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** How a picture is made a file, by what the button says. @type {Record<string, (picture: Picture, ground: string) => Blob | Promise<Blob>>} */
export const SAVES = {
  SVG: (picture) => new Blob([picture.svg], { type: "image/svg+xml" }),
  PNG: pngOf,
  text: (picture) => new Blob([`${picture.text}\n`], { type: "text/plain" }),
};
/** @type {Record<string, string>} */
const ENDINGS = { SVG: "svg", PNG: "png", text: "txt" };

/** The picture that is shown in a place. @type {WeakMap<Element, { text: string; picture: Picture }>} */
const pictureIn = new WeakMap();

/**
 * Charts where Bokeh can draw them; else, and of what is no chart, the picture, which scrolls where the page is narrow. Its text twin can be
 * opened under it.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {Picture} picture
 */
export function paintPicture(wb, place, picture) {
  const text = JSON.stringify(picture);
  if (pictureIn.get(place)?.text === text) return;
  pictureIn.set(place, { text, picture });
  const image = one(place, ".image") ?? frameOf(wb, place, picture);
  image.ariaLabel = picture.about ?? null;
  place.dataset.picture = picture.name;
  the(place, "pre").textContent = picture.text;
  the(place, ".about").textContent = picture.about ?? "";
  const act = (/** @type {string} */ subject, /** @type {string} */ opens) => actOn(wb, place, subject, opens);
  const charted = paintCharts(wb, image, picture, act, () => {
    const now = pictureIn.get(place)?.picture;
    pictureIn.delete(place);
    if (now && place.isConnected) paintPicture(wb, place, now);
  });
  image.tabIndex = charted ? -1 : 0;
  place.classList.toggle("charted", charted);
  if (charted) return;
  removeCharts(image);
  const at = one(image, ".at")?.dataset;
  image.innerHTML = picture.svg; // drawn and escaped by `visualize`
  growPicture(image);
  const mark = at?.opens ? `[data-opens="${CSS.escape(at.opens)}"]` : at?.subject ? `[data-subject="${CSS.escape(at.subject)}"]` : "";
  if (mark) image.querySelector(mark)?.classList.add("at");
}

/**
 * As wide as its place, within reason; where the page is narrower than it can be read, it scrolls.
 * @param {HTMLElement} image
 */
function growPicture(image) {
  const svg = one(image, "svg"), wide = Number(svg?.getAttribute("width"));
  if (svg && wide) svg.style.setProperty("--wide", `${wide}px`);
}

/**
 * The frame of a picture and what stands under it.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {Picture} picture
 * @returns {HTMLElement}
 */
function frameOf(wb, place, picture) {
  const image = h("div", { class: "image", tabIndex: 0, role: "group", data: { focus: `picture ${picture.name}` } });
  const frame = h(
    "div",
    { class: "frame" },
    h("div", { class: "over" }, h("span", { class: "about" }), widenTool(wb, place)),
    image,
    h(
      "div",
      { class: "under" },
      h("details", {}, h("summary", {}, "As text"), h("pre", { tabIndex: 0 })),
      h(
        "span",
        { class: "saves" },
        "Save as ",
        ...Object.keys(SAVES).map((kind) =>
          h("button", {
            class: "btn small",
            type: "button",
            ariaLabel: `Save the picture as ${kind}`,
            data: { save: kind },
            onclick: () => savePicture(wb, pictureIn.get(place)?.picture ?? picture, kind),
          }, kind)
        ),
      ),
    ),
  );
  place.replaceChildren(frame);
  return image;
}

/**
 * A click on a mark of a chart: it opens what it opens, or selects what it is of.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {string} subject
 * @param {string} opened
 */
function actOn(wb, place, subject, opened) {
  const opens = pictureIn.get(place)?.picture.opens;
  if (opened && opens) wb.send({ verb: opens.verb, [opens.field]: opened });
  else if (subject) wb.send({ verb: "select", path: subject });
}

/**
 * A click on a mark that opens something: the picture says by which gesture.
 * @param {Wb} wb
 * @param {HTMLElement | SVGElement} mark
 */
export function openMark(wb, mark) {
  const place = around(mark, ".picture"), opens = place && pictureIn.get(place)?.picture.opens;
  if (opens) wb.send({ verb: opens.verb, [opens.field]: mark.dataset.opens });
}

/** @param {Wb} wb */
export function makePicturesOpen(wb) {
  wb.root.addEventListener("click", (event) => {
    const mark = around(targetOf(event), ".image [data-opens]");
    if (mark) openMark(wb, mark);
  });
}

/**
 * @param {Wb} wb
 * @param {Picture} picture
 * @param {string} kind
 */
export async function savePicture(wb, picture, kind) {
  const file = await SAVES[kind](picture, getComputedStyle(wb.card).backgroundColor);
  const url = URL.createObjectURL(file);
  const link = h("a", { href: url, download: `${picture.name.replace(/[^\w.-]+/g, "-")}.${ENDINGS[kind]}`, hidden: true });
  wb.root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  wb.say(`Saved as ${link.download}.`);
}

/**
 * Twice its size, for sharp screens, on the ground it has here.
 * @param {Picture} picture
 * @param {string} ground
 * @returns {Promise<Blob>}
 */
async function pngOf(picture, ground) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: image.width * 2, height: image.height * 2 });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob((blob) => done(/** @type {Blob} */ (blob)), "image/png"));
}
