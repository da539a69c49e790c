// @ts-check
// A plan file as a document of JupyterLab: its text is the model of the document, its board the served page in a frame. The page says each
// new text; the document keeps it, marks it as not saved, writes it with Ctrl-S, and notices when the file was changed by somebody else.

import { exerciseBeside, keepAnswer } from "./exercises.js";
/** @import { App, Context, Heard, Lab, Themes } from "../../../types/lab.d.ts" */

export const DOCUMENT = "Sharding Workbench";
const NAME = "sharding-workbench";
const WATCH = 1000; // milliseconds between two looks at the file
const PATIENCE = 150000; // milliseconds for the page to speak: at first a process starts, on a machine that may be busy

/**
 * Made of the classes of the JupyterLab that runs.
 * @param {Lab} lab
 * @param {App} app
 * @param {Themes | null} themes
 */
export function planDocuments(lab, app, themes) {
  const base = () => lab.PageConfig.getBaseUrl();

  class PlanPage extends lab.Widget {
    /** @param {Context} context */
    constructor(context) {
      super();
      this.addClass("sw-plan");
      this.context = context;
      this.told = /** @type {string | null} */ (null); // the text that the page knows
      this.saved = /** @type {string | null} */ (null); // the text that is in the file, as far as this document knows
      this.stamp = /** @type {string | null} */ (null); // when the file was written, by the same measure
      this.frame = /** @type {HTMLIFrameElement | undefined} */ (undefined);
      this.patience = /** @type {number | undefined} */ (undefined);
      this.looking = false;
      this.said = document.createElement("div");
      this.said.className = "sw-said";
      this.node.append(this.said);
      this.onMessage = (/** @type {MessageEvent<Heard | undefined>} */ event) => this.hear(event);
      window.addEventListener("message", this.onMessage);
      context.model.contentChanged.connect(this.onContent, this);
      context.saveState.connect(this.onSaveState, this);
      themes?.themeChanged.connect(this.onTheme, this);
      this.watch = setInterval(() => this.look(), WATCH);
      context.ready.then(() => {
        this.remember();
        return this.start();
      });
    }

    /** @override */
    dispose() {
      if (this.isDisposed) return;
      window.removeEventListener("message", this.onMessage);
      clearInterval(this.watch);
      clearTimeout(this.patience);
      themes?.themeChanged.disconnect(this.onTheme, this);
      super.dispose();
    }

    get name() {
      return lab.PathExt.basename(this.context.path);
    }
    get text() {
      return this.context.model.toString();
    }
    get theme() {
      return document.body.dataset.jpThemeLight === "false" ? "dark" : "light";
    }

    /** The server answers before the frame is opened: a frame cannot tell why it is empty. */
    async start() {
      this.say("Starting the workbench…");
      this.frame?.remove();
      try {
        const answer = await fetch(`${base()}workbench/liveness`, { credentials: "same-origin" });
        if (!answer.ok) {
          throw new Error(answer.status === 404 ? "Jupyter's server does not know it" : `Jupyter's server answered ${answer.status}`);
        }
      } catch (error) {
        return this.fail(`The workbench could not be started: ${/** @type {Error} */ (error).message}.`);
      }
      if (this.isDisposed) return;
      this.frame = document.createElement("iframe");
      this.frame.title = `Board of ${this.name}`;
      this.frame.src = `${base()}workbench/board?host=jupyterlab&theme=${this.theme}`;
      this.node.append(this.frame);
      clearTimeout(this.patience);
      this.patience = setTimeout(() => this.fail("The page of the workbench does not answer."), PATIENCE);
    }

    /** @param {string} text */
    say(text) {
      this.said.replaceChildren(Object.assign(document.createElement("p"), { textContent: text }));
    }

    /** @param {string} reason */
    fail(reason) {
      this.say(reason);
      const again = Object.assign(document.createElement("button"), { className: "sw-button", textContent: "Try again" });
      again.addEventListener("click", () => this.start());
      const advice = "It needs sharding-workbench with its extra `lab` (jupyter-server-proxy) in the environment that JupyterLab " +
        "runs in. Install it, then restart JupyterLab. The log of JupyterLab has details.";
      this.said.append(Object.assign(document.createElement("p"), { textContent: advice }), again);
    }

    /**
     * @param {string} kind
     * @param {object} [more]
     */
    tell(kind, more = {}) {
      this.frame?.contentWindow?.postMessage({ from: NAME, kind, ...more }, location.origin);
    }

    async open() {
      this.told = this.text;
      const files = await exerciseBeside(app, this.context.path);
      this.told = this.text;
      this.tell("open", { text: this.told, name: this.name, theme: this.theme, ...files });
    }

    /**
     * What was answered to the exercise beside the plan.
     * @param {unknown} text
     */
    async keep(text) {
      if (typeof text !== "string" || !text) return;
      try {
        await keepAnswer(app, this.context.path, text);
      } catch (error) {
        const reason = /** @type {Error} */ (error).message;
        lab.Notification.warning(`Your answer is not kept: exercise.answers.json cannot be written (${reason}).`, { autoClose: false });
      }
    }

    /** @param {MessageEvent<Heard | undefined>} event */
    hear(event) {
      if (!this.frame || event.source !== this.frame.contentWindow || event.origin !== location.origin || event.data?.to !== NAME) return;
      const { kind, text, created } = event.data;
      if (kind === "ready") {
        clearTimeout(this.patience);
        this.say(`Opening ${this.name}…`);
        this.open();
      } else if (kind === "shown") this.said.replaceChildren();
      else if (kind === "text") this.take(text, created);
      else if (kind === "answers") this.keep(text);
      else if (kind === "save") this.context.save();
      else if (kind === "palette") app.commands.execute("apputils:activate-command-palette");
      else if (kind === "focus" && this.parent && app.shell.currentWidget !== this.parent) app.shell.activateById(this.parent.id);
    }

    /**
     * @param {unknown} text
     * @param {boolean | undefined} created
     */
    take(text, created) {
      if (typeof text !== "string" || this.context.model.readOnly) return;
      this.told = text;
      if (text !== this.text) this.context.model.fromString(text);
      this.context.model.dirty = text !== this.saved;
      if (created) this.context.save(); // of a new document, which has nothing to lose
    }

    /** Somebody else changed the model: another view of this document, a colleague, "Reload from disk". */
    onContent() {
      if (this.told !== null && this.text !== this.told) this.open();
    }
    /**
     * @param {unknown} _
     * @param {string} state
     */
    onSaveState(_, state) {
      if (state === "completed") this.remember();
    }
    onTheme() {
      this.tell("theme", { theme: this.theme });
    }

    onActivateRequest() {
      this.frame?.focus();
    }

    remember() {
      this.saved = this.text;
      this.stamp = this.context.contentsModel?.last_modified ?? null;
    }

    async look() {
      if (this.looking || this.stamp === null || !this.isVisible || document.hidden || !this.context.isReady) return;
      this.looking = true;
      try {
        const { last_modified: stamp } = await this.get(false);
        if (stamp === this.stamp || this.isDisposed) return;
        const { content } = await this.get(true);
        const changed = content !== this.saved && content !== this.text;
        this.stamp = stamp;
        if (changed) await this.changed();
      } catch {
        // the file is gone, or the server: saving will tell
      } finally {
        this.looking = false;
      }
    }

    /** @param {boolean} content */
    get(content) {
      return app.serviceManager.contents.get(this.context.path, content ? { type: "file", format: "text", content } : { content });
    }

    async changed() {
      if (!this.context.model.dirty) {
        await this.reload();
        lab.Notification.info(`${this.name} was changed on disk; its board shows it as it is now.`, { autoClose: 4000 });
        return;
      }
      const actions = [{ label: "Show theirs", callback: () => this.reload() }, { label: "Keep mine", callback: () => {} }];
      lab.Notification.warning(`${this.name} was changed on disk, and your changes to it are not saved.`, { autoClose: false, actions });
    }

    async reload() {
      await this.context.revert();
      this.remember();
    }
  }

  return class PlanFactory extends lab.ABCWidgetFactory {
    /** @param {Context} context */
    createNewWidget(context) {
      return new lab.DocumentWidget({ context, content: new PlanPage(context) });
    }
  };
}
