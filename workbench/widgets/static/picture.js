// Pictures: Python draws them. Here what they open is asked for, and they are taken away as files.

const SAVES = { SVG: (picture) => new Blob([picture.svg], { type: "image/svg+xml" }), PNG: pngOf, text: (picture) => new Blob([`${picture.text}\n`], { type: "text/plain" }) };
const ENDINGS = { SVG: "svg", PNG: "png", text: "txt" };

// A picture keeps its size and scrolls where the page is narrow; its text twin can be opened under it.
function paintPicture(wb, place, picture) {
  const text = JSON.stringify(picture);
  if (place.drawn === text) return;
  place.drawn = text;
  place.picture = picture;
  let image = place.querySelector(".image");
  if (!image) {
    image = h("div", { class: "image", tabIndex: 0, role: "group", data: { focus: `picture ${picture.name}` } });
    place.replaceChildren(image, h("div", { class: "under" }, h("details", {}, h("summary", {}, "As text"), h("pre", { tabIndex: 0 })),
      h("span", { class: "saves" }, "Save as ", ...Object.keys(SAVES).map((kind) => h("button", {
        class: "btn small", type: "button", ariaLabel: `Save the picture as ${kind}`, data: { save: kind }, onclick: () => savePicture(wb, place, kind),
      }, kind)))));
  }
  const at = image.querySelector(".at")?.dataset;
  image.ariaLabel = picture.about;
  image.innerHTML = picture.svg; // drawn and escaped by `visualize`
  place.querySelector("pre").textContent = picture.text;
  const mark = at?.opens ? `[data-opens="${CSS.escape(at.opens)}"]` : at?.subject ? `[data-subject="${CSS.escape(at.subject)}"]` : "";
  if (mark) image.querySelector(mark)?.classList.add("at");
}

// A click on a mark that opens something: the picture says by which gesture.
function openMark(wb, mark) {
  const opens = mark.closest(".picture")?.picture?.opens;
  if (opens) wb.send({ verb: opens.verb, [opens.field]: mark.dataset.opens });
}

function makePicturesOpen(wb) {
  wb.root.addEventListener("click", (event) => {
    const mark = event.target.closest(".image [data-opens]");
    if (mark) openMark(wb, mark);
  });
}

async function savePicture(wb, place, kind) {
  const { picture } = place;
  const file = await SAVES[kind](picture, getComputedStyle(wb.card).backgroundColor);
  const url = URL.createObjectURL(file);
  const link = h("a", { href: url, download: `${picture.name.replace(/[^\w.-]+/g, "-")}.${ENDINGS[kind]}`, hidden: true });
  wb.root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  wb.say(`Saved as ${link.download}.`);
}

// Twice its size, for sharp screens, on the ground it has here.
async function pngOf(picture, ground) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: image.width * 2, height: image.height * 2 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
