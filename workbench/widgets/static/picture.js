// @ts-check
// Pictures drawn by Python: opens what their marks link to, and exports them as files.

import { paintCharts, removeCharts } from "./chart.js";
import { around, download, h, one, targetOf, the } from "./dom.js";
import { widenTool } from "./widen.js";
/** @import { Picture } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** A picture in all its formats. @typedef {{ svg: string; text: string; name: string }} WholePicture */
/** Exporters by button label. @type {Record<string, (picture: WholePicture, ground: string) => Blob | Promise<Blob>>} */
const SAVES = {
  SVG: (picture) => new Blob([picture.svg], { type: "image/svg+xml" }),
  PNG: pngOf,
  text: (picture) => new Blob([`${picture.text}\n`], { type: "text/plain" }),
};
/** @type {Record<string, string>} */
const ENDINGS = { SVG: "svg", PNG: "png", text: "txt" };

/** @type {WeakMap<Element, { text: string; picture: Picture }>} */
const pictureIn = new WeakMap();
/** Export formats of pictures whose data has been requested. @type {WeakMap<Element, string>} */
const pendingFormats = new WeakMap();

/**
 * Draws charts with Bokeh if possible, or else the SVG, which scrolls on narrow pages. A text version can be opened below.
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
  fillText(wb, place);
  const kind = pendingFormats.get(place), whole = allFormats(picture);
  if (kind && whole) {
    pendingFormats.delete(place);
    savePicture(wb, whole, kind);
  }
  the(place, ".about").textContent = picture.about ?? "";
  const act = (/** @type {string} */ subject, /** @type {string} */ opens) => actOn(wb, place, subject, opens);
  const charted = paintCharts(wb, image, picture, act, (loaded) => {
    const now = pictureIn.get(place)?.picture;
    if (!now || !place.isConnected) return;
    if (!loaded) return now.svg === null && requestFormats(wb, now);
    pictureIn.delete(place);
    paintPicture(wb, place, now);
  });
  image.tabIndex = charted ? -1 : 0;
  place.classList.toggle("charted", charted);
  if (charted) return;
  removeCharts(image);
  const at = one(image, ".at")?.dataset;
  image.innerHTML = picture.svg ?? ""; // escaped by `visualize`; empty while charts load
  sizePicture(image);
  const mark = at?.opens ? `[data-opens="${CSS.escape(at.opens)}"]` : at?.subject ? `[data-subject="${CSS.escape(at.subject)}"]` : "";
  if (mark) image.querySelector(mark)?.classList.add("at");
}

/**
 * Requests the text version and the SVG, which Python renders on demand.
 * @param {Wb} wb
 * @param {Picture} picture
 */
function requestFormats(wb, picture) {
  wb.send({ verb: "picture", name: picture.name });
}

/**
 * @param {Picture} picture
 * @returns {WholePicture | null}
 */
function allFormats({ name, svg, text }) {
  return svg === null || text === null ? null : { name, svg, text };
}

/**
 * Saves the picture, after requesting the format if it is missing.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {string} kind
 */
function saveFrom(wb, place, kind) {
  const shown = pictureIn.get(place)?.picture;
  if (!shown) return;
  const whole = allFormats(shown);
  if (whole) return savePicture(wb, whole, kind);
  pendingFormats.set(place, kind);
  requestFormats(wb, shown);
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 */
function fillText(wb, place) {
  const shown = pictureIn.get(place)?.picture;
  if (shown?.text === null && one(place, "details[open]")) requestFormats(wb, shown);
}

/**
 * Fits the picture to its container within limits; below its readable width it scrolls.
 * @param {HTMLElement} image
 */
function sizePicture(image) {
  const svg = one(image, "svg"), wide = Number(svg?.getAttribute("width"));
  if (svg && wide) svg.style.setProperty("--wide", `${wide}px`);
}

/**
 * The frame of a picture with its tools.
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
      h("details", { ontoggle: () => fillText(wb, place) }, h("summary", {}, "As text"), h("pre", { tabIndex: 0 })),
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
 * A click on a chart mark opens its link, or selects its subject.
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
 * Sends the gesture attached to a mark.
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
 * Renders at twice the size, for high-density screens, on the current background.
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
