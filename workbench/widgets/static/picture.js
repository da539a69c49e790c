// @ts-check
// Pictures: Python draws them. Here what they open is asked for, and they are taken away as files.

import { paintCharts, removeCharts } from "./chart.js";
import { around, download, h, one, targetOf, the } from "./dom.js";
import { widenTool } from "./widen.js";
/** @import { Picture } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** A picture in all its forms. @typedef {{ svg: string; text: string; name: string }} WholePicture */
/** How it is made a file, by what the button says. @type {Record<string, (picture: WholePicture, ground: string) => Blob | Promise<Blob>>} */
const SAVES = {
  SVG: (picture) => new Blob([picture.svg], { type: "image/svg+xml" }),
  PNG: pngOf,
  text: (picture) => new Blob([`${picture.text}\n`], { type: "text/plain" }),
};
/** @type {Record<string, string>} */
const ENDINGS = { SVG: "svg", PNG: "png", text: "txt" };

/** The picture that is shown in a place. @type {WeakMap<Element, { text: string; picture: Picture }>} */
const pictureIn = new WeakMap();
/** As what the picture of a place is to be saved once it has all its forms. @type {WeakMap<Element, string>} */
const savedSoon = new WeakMap();

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
  const image = one(place, ".image") ?? frameOf(wb, place, picture.name);
  image.ariaLabel = picture.about ?? null;
  place.dataset.picture = picture.name;
  the(place, "pre").textContent = picture.text ?? "…";
  fillTwin(wb, place);
  const kind = savedSoon.get(place), whole = wholeOf(picture);
  if (kind && whole) {
    savedSoon.delete(place);
    savePicture(wb, whole, kind);
  }
  the(place, ".about").textContent = picture.about ?? "";
  const act = (/** @type {string} */ subject, /** @type {string} */ opens) => actOn(wb, place, subject, opens);
  const charted = paintCharts(wb, image, picture, act, (found) => {
    const now = pictureIn.get(place)?.picture;
    if (!now || !place.isConnected) return;
    if (!found) return now.svg === null && askFor(wb, now);
    pictureIn.delete(place);
    paintPicture(wb, place, now);
  });
  image.tabIndex = charted ? -1 : 0;
  place.classList.toggle("charted", charted);
  if (charted) return;
  removeCharts(image);
  const at = one(image, ".at")?.dataset;
  image.innerHTML = picture.svg ?? ""; // drawn and escaped by `visualize`; none behind charts that are coming
  growPicture(image);
  const mark = at?.opens ? `[data-opens="${CSS.escape(at.opens)}"]` : at?.subject ? `[data-subject="${CSS.escape(at.subject)}"]` : "";
  if (mark) image.querySelector(mark)?.classList.add("at");
}

/**
 * Its text, and the SVG behind its charts: they are made once somebody wants them.
 * @param {Wb} wb
 * @param {Picture} picture
 */
function askFor(wb, picture) {
  wb.send({ verb: "picture", name: picture.name });
}

/**
 * @param {Picture} picture
 * @returns {WholePicture | null}
 */
function wholeOf({ name, svg, text }) {
  return svg === null || text === null ? null : { name, svg, text };
}

/**
 * Saves the picture of a place, now or when what it is saved as has come.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {string} kind
 */
function saveFrom(wb, place, kind) {
  const shown = pictureIn.get(place)?.picture;
  if (!shown) return;
  const whole = wholeOf(shown);
  if (whole) return savePicture(wb, whole, kind);
  savedSoon.set(place, kind);
  askFor(wb, shown);
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 */
function fillTwin(wb, place) {
  const shown = pictureIn.get(place)?.picture;
  if (shown?.text === null && one(place, "details[open]")) askFor(wb, shown);
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
 * @param {string} name
 * @returns {HTMLElement}
 */
function frameOf(wb, place, name) {
  const image = h("div", { class: "image", tabIndex: 0, role: "group", data: { focus: `picture ${name}` } });
  const frame = h(
    "div",
    { class: "frame" },
    h("div", { class: "over" }, h("span", { class: "about" }), widenTool(wb, place)),
    image,
    h(
      "div",
      { class: "under" },
      h("details", { ontoggle: () => fillTwin(wb, place) }, h("summary", {}, "As text"), h("pre", { tabIndex: 0 })),
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
            onclick: () => saveFrom(wb, place, kind),
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
function openMark(wb, mark) {
  const place = around(mark, ".picture"), opens = place && pictureIn.get(place)?.picture.opens;
  if (opens) wb.send({ verb: opens.verb, [opens.field]: mark.dataset.opens });
}

/** @param {Wb} wb */
export function makePicturesOpen(wb) {
  wb.subscribe("opened", (mark) => openMark(wb, mark));
  wb.root.addEventListener("click", (event) => {
    const mark = around(targetOf(event), ".image [data-opens]");
    if (mark) openMark(wb, mark);
  });
}

/**
 * @param {Wb} wb
 * @param {WholePicture} picture
 * @param {string} kind
 */
async function savePicture(wb, picture, kind) {
  const file = await SAVES[kind](picture, getComputedStyle(wb.card).backgroundColor);
  const name = `${picture.name.replace(/[^\w.-]+/g, "-")}.${ENDINGS[kind]}`;
  download(wb, name, file);
  wb.say(`Saved as ${name}.`);
}

/**
 * Twice its size, for sharp screens, on the ground it has here.
 * @param {WholePicture} picture
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
