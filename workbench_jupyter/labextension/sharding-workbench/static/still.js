// @ts-check
// A saved board whose kernel is gone: JupyterLab would say that it misses a model. Here the still picture of the same output stands instead.

/** @import { Notebooks, OutputModel, Registry, Renderer } from "../../../types/lab.d.ts" */

const WIDGET = "application/vnd.jupyter.widget-view+json";

/** @param {Notebooks} notebooks */
export function stillPictures(notebooks) {
  notebooks.forEach((panel) => wrap(panel.content.rendermime));
  notebooks.widgetAdded.connect((_, panel) => wrap(panel.content.rendermime));
}

/**
 * Wraps what the registry creates, and not its factory for widgets, which ipywidgets replaces in its own time.
 * @param {Registry} registry
 */
function wrap(registry) {
  const create = registry.createRenderer.bind(registry);
  registry.createRenderer = (type, ...options) => {
    const renderer = create(type, ...options);
    if (type === WIDGET) keepDrawn(registry, renderer);
    return renderer;
  };
}

/**
 * @param {Registry} registry
 * @param {Renderer} renderer
 */
function keepDrawn(registry, renderer) {
  const render = renderer.renderModel.bind(renderer);
  let shown = "";
  renderer.renderModel = async (model) => {
    const id = idOf(model);
    if (id && id === shown && isBoard(model) && renderer.node.querySelector(".wb")) return; // only its stored picture changed
    shown = id;
    await render(model);
    // A widget that is there is an element; a word about one that is not, or not yet, is text alone.
    if (isBoard(model) && !renderer.node.firstElementChild) await show(registry, renderer, model);
  };
}

/**
 * @param {OutputModel} model
 * @returns {string}
 */
const idOf = (model) => /** @type {{ model_id?: string } | undefined} */ (model.data[WIDGET])?.model_id ?? "";

/** @param {OutputModel} model */
function isBoard(model) {
  return model.data["text/html"] && `${model.data["text/plain"]}`.startsWith("Workbench(");
}

/**
 * @param {Registry} registry
 * @param {Renderer} renderer
 * @param {OutputModel} model
 */
async function show(registry, renderer, model) {
  const picture = registry.createRenderer("text/html");
  await picture.renderModel(model);
  if (!renderer.node.firstElementChild) renderer.node.replaceChildren(picture.node);
}
