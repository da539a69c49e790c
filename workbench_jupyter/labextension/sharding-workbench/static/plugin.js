// @ts-check
// The plug-in: file type, launcher tile, commands, and the sidebar of live plans.

import { DOCUMENT, planDocuments } from "./documents.js";
import { EXERCISE, exerciseDocuments, OPENER } from "./exercises.js";
import { keptEdits } from "./kept.js";
import { livePlans } from "./sidebar.js";
import { stillPictures } from "./still.js";
/** @import { App, Browser, Documents, Lab, LabIcon } from "../../../types/lab.d.ts" */
/** @import { Launcher, Notebooks, Palette, Restorer, Themes } from "../../../types/lab.d.ts" */

/**
 * @param {number} x
 * @param {number} y
 * @param {string} look
 */
const square = (x, y, look) => `<rect x="${x}" y="${y}" width="8" height="8" rx="1.5" ${look}/>`;
const GREY = 'class="jp-icon3 jp-icon-selectable" fill="#616161"'; // in JupyterLab's own grey; the others in the colours of the first two mesh axes
const SQUARES = square(3, 3, 'class="jp-icon-selectable" fill="#3B5ED1"') + square(13, 3, GREY) + square(3, 13, GREY) +
  square(13, 13, 'class="jp-icon-selectable" fill="#EE6E12"');
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">${SQUARES}</svg>`;
const CATEGORY = "Sharding Workbench";
const FILE_TYPE = "sharding-plan";
const ENDING = ".plan.json";

/** @param {Lab} lab */
export function plugin(lab) {
  return {
    id: "sharding-workbench:plugin",
    description: "Sharding plans as documents, and the live plans of running kernels.",
    autoStart: true,
    requires: [lab.IDocumentManager],
    optional: [lab.ILauncher, lab.ICommandPalette, lab.ILayoutRestorer, lab.IDefaultFileBrowser, lab.IThemeManager, lab.INotebookTracker],
    /**
     * @param {App} app
     * @param {Documents} documents
     * @param {Launcher | null} launcher
     * @param {Palette | null} palette
     * @param {Restorer | null} restorer
     * @param {Browser | null} browser
     * @param {Themes | null} themes
     * @param {Notebooks | null} notebooks
     */
    activate: (app, documents, launcher, palette, restorer, browser, themes, notebooks) => {
      const icon = new lab.LabIcon({ name: "sharding-workbench:plan", svgstr: ICON });
      addStyle();
      const tracker = addFileType(lab, app, icon, themes);
      restorer?.restore(tracker, {
        command: "docmanager:open",
        args: (shown) => ({ path: shown.context.path, factory: DOCUMENT }),
        name: (shown) => shown.context.path,
      });
      addExercises(lab, app, icon);
      addCommands(lab, app, documents, browser, icon);
      launcher?.add({ command: "sharding-workbench:new", category: "Other", rank: 5 });
      for (const name of ["new", "open", "live"]) {
        palette?.addItem({ command: `sharding-workbench:${name}`, category: CATEGORY, args: { isPalette: true } });
      }
      if (notebooks) {
        stillPictures(notebooks);
        keptEdits(notebooks);
      }
      const sidebar = livePlans(lab, app, icon);
      app.shell.add(sidebar, "left", { rank: 450, type: "Sharding plans" });
      restorer?.add(sidebar, "sharding-workbench-live");
    },
  };
}

function addStyle() {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("style.css", import.meta.url).href });
  document.head.append(link);
}

/**
 * @param {Lab} lab
 * @param {App} app
 * @param {LabIcon} icon
 * @param {Themes | null} themes
 */
function addFileType(lab, app, icon, themes) {
  const tracker = new lab.WidgetTracker({ namespace: "sharding-workbench" });
  app.docRegistry.addFileType({
    name: FILE_TYPE,
    displayName: "Sharding plan",
    extensions: [ENDING],
    mimeTypes: ["application/json"],
    fileFormat: "text",
    contentType: "file",
    icon,
  });
  const Factory = planDocuments(lab, app, themes);
  const factory = new Factory({
    name: DOCUMENT,
    label: "Sharding board",
    fileTypes: [FILE_TYPE],
    defaultFor: [FILE_TYPE],
    modelName: "text",
  });
  factory.widgetCreated.connect((_, shown) => {
    shown.title.icon = icon;
    shown.context.pathChanged.connect(() => tracker.save(shown));
    tracker.add(shown);
  });
  app.docRegistry.addWidgetFactory(factory);
  return tracker;
}

/**
 * @param {Lab} lab
 * @param {App} app
 * @param {LabIcon} icon
 */
function addExercises(lab, app, icon) {
  const name = "sharding-exercise";
  app.docRegistry.addFileType({
    name,
    displayName: "Sharding exercise",
    pattern: `^${EXERCISE.replace(".", "\\.")}$`,
    extensions: [],
    mimeTypes: ["application/json"],
    fileFormat: "text",
    contentType: "file",
    icon,
  });
  const Factory = exerciseDocuments(lab, app, (path) => app.commands.execute("docmanager:open", { path, factory: DOCUMENT }));
  const factory = new Factory({ name: OPENER, label: "Sharding exercise", fileTypes: [name], defaultFor: [name], modelName: "text" });
  factory.widgetCreated.connect((_, shown) => {
    shown.title.icon = icon;
  });
  app.docRegistry.addWidgetFactory(factory);
}

/**
 * @param {Lab} lab
 * @param {App} app
 * @param {Documents} documents
 * @param {Browser | null} browser
 * @param {LabIcon} icon
 */
function addCommands(lab, app, documents, browser, icon) {
  /** @param {string} path */
  const open = (path) => app.commands.execute("docmanager:open", { path, factory: DOCUMENT });
  app.commands.addCommand("sharding-workbench:new", {
    label: (args) => (args.isPalette ? "New Sharding Plan" : "Sharding Plan"),
    caption: "Lay a JAX program out over devices, and see what each would hold, send and compute",
    icon: (args) => (args.isPalette ? undefined : icon),
    execute: async (args) => {
      const folder = args.cwd ?? browser?.model.path ?? "";
      const made = await documents.newUntitled({ path: folder, type: "file", ext: ENDING });
      return open(made.path);
    },
  });
  app.commands.addCommand("sharding-workbench:open", {
    label: "Open Sharding Plan…",
    execute: async () => {
      const chosen = await lab.FileDialog.getOpenFiles({
        manager: documents,
        title: "Open a sharding plan",
        filter: (file) => (file.type === "directory" || file.path.endsWith(ENDING) ? {} : null),
      });
      for (const file of chosen.value ?? []) if (file.type !== "directory") await open(file.path);
    },
  });
  app.commands.addCommand("sharding-workbench:live", {
    label: "Show Live Sharding Plans",
    execute: () => app.shell.activateById("sharding-workbench-live"),
  });
}
