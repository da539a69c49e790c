// @ts-check
// The plans that live in running kernels. A kernel is asked when it is idle, by an empty request that runs nothing, counts nothing and is
// seen by nobody else; again whenever it has done something. Kernels that are busy are left alone, and none is asked while the list is hidden.

/** @import { App, Lab, LabIcon, LivePlan, Message, Session } from "../../../types/lab.d.ts" */

const EXPRESSION = "__import__('sys').modules.get('workbench') and " +
  "__import__('workbench.session.kernel_plans', fromlist=['live_plans']).live_plans(vars(__import__('__main__')))";
const SETTLE = 300; // milliseconds of quiet before a kernel is asked again

/** One kernel, and what it said last. */
class Watched {
  /**
   * @param {App} app
   * @param {Session} session
   * @param {() => void} changed
   */
  constructor(app, session, changed) {
    this.session = session;
    this.changed = changed;
    this.plans = /** @type {LivePlan[]} */ ([]);
    this.known = this.asking = false;
    this.own = /** @type {Set<string>} */ (new Set());
    this.timer = /** @type {number | undefined} */ (undefined);
    // Without `handleComms: false` this connection would close every widget of a notebook that is not open here.
    this.kernel = app.serviceManager.kernels.connectTo({ model: session.kernel, handleComms: false });
    this.kernel.iopubMessage.connect(this.onMessage, this);
    this.kernel.statusChanged.connect(() => changed());
    this.later();
  }

  /**
   * @param {unknown} _
   * @param {Message} message
   */
  onMessage(_, message) {
    const { msg_type: type } = message.header;
    if (type === "status" && message.content.execution_state === "idle" && !this.own.delete(message.parent_header.msg_id)) this.later();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), SETTLE);
  }

  /** A new connection does not know whether its kernel is busy; one that is answers when it is done. */
  get free() {
    return this.kernel.connectionStatus === "connected" && ["idle", "unknown"].includes(this.kernel.status);
  }

  async ask() {
    if (this.kernel.isDisposed || this.asking) return;
    if (!this.free) {
      if (!this.known) this.later();
      return;
    }
    this.asking = true;
    try {
      const { language_info: language } = await this.kernel.info;
      const found = language.name === "python" ? await this.answer() : [];
      const news = JSON.stringify(found) !== JSON.stringify(this.plans) || !this.known;
      this.plans = found;
      this.known = true;
      if (news) this.changed();
    } catch {
      // the kernel went away or was restarted in between
    } finally {
      this.asking = false;
    }
  }

  /** @returns {Promise<LivePlan[]>} */
  async answer() {
    const request = {
      code: "",
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { plans: EXPRESSION },
    };
    const future = this.kernel.requestExecute(request, true);
    this.own.add(future.msg.header.msg_id);
    const { content } = await future.done;
    const plans = content.user_expressions?.plans?.data?.["application/json"];
    return Array.isArray(plans) ? plans : [];
  }

  dispose() {
    clearTimeout(this.timer);
    this.kernel.dispose();
  }
}

/**
 * @param {Lab} lab
 * @param {App} app
 * @param {LabIcon} icon
 */
export function livePlans(lab, app, icon) {
  /**
   * @template {keyof HTMLElementTagNameMap} T
   * @param {T} tag
   * @param {string} className
   * @param {string} [text]
   * @returns {HTMLElementTagNameMap[T]}
   */
  const element = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

  class LivePlans extends lab.Widget {
    constructor() {
      super();
      this.id = "sharding-workbench-live";
      this.addClass("sw-live");
      Object.assign(this.title, { icon, caption: "Live sharding plans" });
      this.watched = /** @type {Map<string, Watched>} */ (new Map());
      this.node.setAttribute("role", "region");
      this.node.setAttribute("aria-label", "Live sharding plans");
      app.serviceManager.sessions.runningChanged.connect(() => this.follow());
    }

    onAfterShow() {
      this.follow();
    }

    onAfterHide() {
      this.leave();
    }

    leave() {
      for (const each of this.watched.values()) each.dispose();
      this.watched.clear();
    }

    follow() {
      if (!this.isVisible) return;
      const running = new Map(
        [...app.serviceManager.sessions.running()].filter((each) => each.kernel).map((each) => [each.kernel.id, each]),
      );
      for (const [id, each] of this.watched) {
        if (!running.has(id)) {
          each.dispose();
          this.watched.delete(id);
        }
      }
      for (const [id, session] of running) {
        const known = this.watched.get(id);
        if (known) known.session = session;
        else this.watched.set(id, new Watched(app, session, () => this.draw()));
      }
      this.draw();
    }

    draw() {
      const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.key;
      const groups = [...this.watched.values()].filter((each) => each.plans.length || each.kernel.status === "busy");
      const shown = groups.map((each) => this.group(each));
      const head = element("div", "sw-head");
      head.append(element("h2", "", "Live plans"), this.button("New plan", () => app.commands.execute("sharding-workbench:new")));
      this.node.replaceChildren(head, ...(groups.some((each) => each.plans.length) ? shown : [...shown, this.empty()]));
      if (focused) /** @type {HTMLElement | null} */ (this.node.querySelector(`[data-key="${CSS.escape(focused)}"]`))?.focus();
    }

    /** @param {Watched} each */
    group(each) {
      const { session, kernel, plans } = each;
      const section = element("section", "sw-group");
      const title = element("h3", "", session.path ? lab.PathExt.basename(session.path) : session.name);
      title.title = session.path;
      if (kernel.status === "busy") title.append(element("span", "sw-busy", "busy"));
      section.append(title, ...plans.map((plan, place) => this.plan(session, plan, `${kernel.id} ${place}`)));
      return section;
    }

    /**
     * @param {Session} session
     * @param {LivePlan} plan
     * @param {string} key
     */
    plan(session, plan, key) {
      const button = this.button("", () => this.bring(session));
      button.className = "sw-item";
      button.dataset.key = key;
      button.title = `${plan.layout}\nShow ${session.path}`;
      const line = element("span", "sw-line");
      line.append(element("b", "", plan.plan), element("span", "sw-memory", plan.memory));
      const under = element("span", "sw-line sw-under");
      under.append(element("code", "", plan.mesh), element("span", "", plan.names.join(", ")));
      button.append(line, under);
      return button;
    }

    empty() {
      const box = element("div", "sw-empty");
      const code = element("code", "", "wb.Workbench(plan)");
      box.append(
        element("p", "", "No running kernel holds a plan."),
        element("p", "", "Put this at the end of a notebook cell, and the board appears there and here:"),
        code,
      );
      return box;
    }

    /**
     * @param {string} text
     * @param {() => void} action
     */
    button(text, action) {
      const button = Object.assign(element("button", "sw-button", text), { type: "button" });
      button.addEventListener("click", action);
      return button;
    }

    /** @param {Session} session */
    bring(session) {
      const command = session.type === "console" ? "console:open" : "docmanager:open";
      return app.commands.execute(command, { path: session.path });
    }
  }

  return new LivePlans();
}
