// @ts-check
// An exercise beside plan documents: `exercise.json` in their folder, which opens as a list of its questions, and `exercise.answers.json`,
// which keeps what was answered. Python reads both, as texts; here files are fetched and written.

/** @import { App, Context, Lab } from "../../../types/lab.d.ts" */

export const EXERCISE = "exercise.json", FORMAT = "sharding-workbench.exercise", OPENER = "Sharding Exercise";
const KEPT = "exercise.answers.json", PLAN = ".plan.json";

/**
 * A file beside another one.
 * @param {string} path
 * @param {string} name
 */
const beside = (path, name) => path.includes("/") ? `${path.slice(0, path.lastIndexOf("/"))}/${name}` : name;

/** @param {App} app @param {string} path @returns {Promise<string>} The text of a file; empty where there is none. */
async function textOf(app, path) {
  const folder = await app.serviceManager.contents.get(beside(path, "").replace(/\/$/, ""), { type: "directory", content: true });
  const names = /** @type {{ path: string }[]} */ (/** @type {unknown} */ (folder.content));
  if (!names.some((each) => each.path === path)) return ""; // asking for it would be an error in the browser's log
  return (await app.serviceManager.contents.get(path, { type: "file", format: "text", content: true })).content;
}

/**
 * The exercise beside a plan, and what was answered to it.
 * @param {App} app
 * @param {string} path
 */
export async function exerciseBeside(app, path) {
  try {
    const [exercise, answers] = await Promise.all([textOf(app, beside(path, EXERCISE)), textOf(app, beside(path, KEPT))]);
    return { exercise, answers };
  } catch {
    return { exercise: "", answers: "" }; // the folder cannot be listed: a plan is a plan without it
  }
}

/** @type {Promise<unknown>} */
let writing = Promise.resolve(); // one after the other: several documents may keep answers in one file

/**
 * Keep an answer beside what other documents of the folder keep.
 * @param {App} app
 * @param {string} path
 * @param {string} text
 * @returns {Promise<unknown>}
 */
export function keepAnswer(app, path, text) {
  const write = async () => {
    const file = beside(path, KEPT), known = await textOf(app, file), given = JSON.parse(text);
    const kept = known.trim() ? JSON.parse(known) : given;
    const merged = {
      ...kept,
      answers: { ...kept.answers, ...given.answers },
      attempts: { ...kept.attempts, ...given.attempts },
      right: [...new Set([...kept.right ?? [], ...given.right])],
    };
    await app.serviceManager.contents.save(file, { type: "file", format: "text", content: `${JSON.stringify(merged, null, 1)}\n` });
  };
  writing = writing.catch(() => {}).then(write);
  return writing;
}

/**
 * Made of the classes of the JupyterLab that runs.
 * @param {Lab} lab
 * @param {App} app
 * @param {(path: string) => Promise<unknown>} open Opens a plan on its board.
 */
export function exerciseDocuments(lab, app, open) {
  /**
   * @param {string} tag
   * @param {string} textContent
   */
  const element = (tag, textContent) => Object.assign(document.createElement(tag), { textContent });

  class Questions extends lab.Widget {
    /** @param {Context} context */
    constructor(context) {
      super();
      this.addClass("sw-exercise");
      this.context = context;
      context.ready.then(() => this.draw());
      context.model.contentChanged.connect(this.draw, this);
    }

    draw() {
      const text = this.context.model.toString();
      try {
        const { format, title, questions } = JSON.parse(text);
        if (format !== FORMAT) throw new Error("another program's");
        const list = element("ol", "");
        for (const each of questions) list.append(this.question(each));
        const about = "Each plan is a file beside this one. What you answer is kept in exercise.answers.json.";
        const any = questions.every((/** @type {{ question: string }} */ each) => each.question !== "plan");
        this.node.replaceChildren(element("h1", title), element("p", about), list, ...(any ? [this.button("answers")] : []));
      } catch {
        this.node.replaceChildren(element("p", "This is no exercise of the sharding workbench. As text:"), element("pre", text));
      }
    }

    /** @param {{ question: string; name: string; ask: string }} question */
    question({ question, name, ask }) {
      const item = element("li", "");
      item.append(element("code", name), element("p", ask));
      if (question === "plan") item.append(this.button(name));
      return item;
    }

    /** @param {string} name */
    button(name) {
      const button = Object.assign(element("button", `Open ${name}${PLAN}`), { type: "button", className: "sw-button" });
      button.addEventListener("click", () => this.answer(beside(this.context.path, `${name}${PLAN}`)));
      return button;
    }

    /** An empty plan is filled by the board: with the plan that the question starts from. @param {string} path */
    async answer(path) {
      const folder = await app.serviceManager.contents.get(beside(path, "").replace(/\/$/, ""), { type: "directory", content: true });
      const names = /** @type {{ path: string }[]} */ (/** @type {unknown} */ (folder.content));
      if (!names.some((each) => each.path === path)) {
        await app.serviceManager.contents.save(path, { type: "file", format: "text", content: "" });
      }
      await open(path);
    }
  }

  return class ExerciseFactory extends lab.ABCWidgetFactory {
    /** @param {Context} context */
    createNewWidget(context) {
      return new lab.DocumentWidget({ context, content: new Questions(context) });
    }
  };
}
