/** As much of JupyterLab as the extension uses: its modules come from the running JupyterLab, whatever its version. */

export interface Signal<Sender, Told> {
  connect(slot: (sender: Sender, told: Told) => void, context?: object): void;
  disconnect(slot: (sender: Sender, told: Told) => void, context?: object): void;
}
export interface Title {
  icon?: LabIcon;
  caption?: string;
}
export declare class LabIcon {
  constructor(given: { name: string; svgstr: string });
}
export declare class Widget {
  id: string;
  node: HTMLElement;
  title: Title;
  parent: Widget | null;
  isDisposed: boolean;
  isVisible: boolean;
  addClass(name: string): void;
  dispose(): void;
}

/** A file of Jupyter's server, with or without its content. */
export interface FileModel {
  path: string;
  type: string;
  content: string;
  last_modified: string;
}
export interface TextModel {
  contentChanged: Signal<unknown, unknown>;
  readOnly: boolean;
  dirty: boolean;
  toString(): string;
  fromString(text: string): void;
}
/** A document that is open. */
export interface Context {
  path: string;
  model: TextModel;
  contentsModel: FileModel | null;
  isReady: boolean;
  ready: Promise<void>;
  saveState: Signal<unknown, string>;
  pathChanged: Signal<unknown, string>;
  save(): Promise<void>;
  revert(): Promise<void>;
}
export declare class DocumentWidget extends Widget {
  constructor(given: { context: Context; content: Widget });
  context: Context;
}
export interface FactoryOptions {
  name: string;
  label: string;
  fileTypes: string[];
  defaultFor: string[];
  modelName: string;
}
export declare class ABCWidgetFactory {
  constructor(options: FactoryOptions);
  widgetCreated: Signal<unknown, DocumentWidget>;
}
export declare class WidgetTracker {
  constructor(given: { namespace: string });
  add(shown: DocumentWidget): void;
  save(shown: DocumentWidget): void;
}

export interface Message {
  header: { msg_type: string };
  parent_header: { msg_id: string };
  content: { execution_state?: string };
}
export interface Reply {
  content: { user_expressions?: Record<string, { data?: Record<string, unknown> }> };
}
export interface Kernel {
  id: string;
  status: string;
  connectionStatus: string;
  isDisposed: boolean;
  info: Promise<{ language_info: { name: string } }>;
  iopubMessage: Signal<unknown, Message>;
  statusChanged: Signal<unknown, unknown>;
  requestExecute(request: object, disposeOnDone: boolean): { msg: { header: { msg_id: string } }; done: Promise<Reply> };
  dispose(): void;
}
export interface Session {
  name: string;
  path: string;
  type: string;
  kernel: { id: string };
}

export interface CommandArguments {
  isPalette?: boolean;
  cwd?: string;
}
export interface Command {
  label: string | ((given: CommandArguments) => string);
  caption?: string;
  icon?: (given: CommandArguments) => LabIcon | undefined;
  execute(given: CommandArguments): unknown;
}
export interface App {
  commands: {
    addCommand(name: string, command: Command): void;
    execute(name: string, given?: object): Promise<unknown>;
  };
  docRegistry: { addFileType(given: object): void; addWidgetFactory(factory: ABCWidgetFactory): void };
  serviceManager: {
    contents: {
      get(path: string, options: object): Promise<FileModel>;
      save(path: string, options: object): Promise<FileModel>;
    };
    kernels: { connectTo(given: { model: { id: string }; handleComms: boolean }): Kernel };
    sessions: { running(): Iterable<Session & { kernel: { id: string } | null }>; runningChanged: Signal<unknown, unknown> };
  };
  shell: {
    currentWidget: Widget | null;
    activateById(id: string): void;
    add(widget: Widget, area: string, options: object): void;
  };
}
export interface Themes {
  themeChanged: Signal<unknown, unknown>;
}

/** What an output is drawn by. */
export interface Renderer {
  node: HTMLElement;
  renderModel(model: OutputModel): Promise<void>;
}
export interface OutputModel {
  data: Record<string, unknown>;
}
export interface Registry {
  createRenderer(type: string, ...options: unknown[]): Renderer;
}
export interface OutputJSON {
  data?: Record<string, unknown>;
}
/** A cell of a notebook; only one of code has outputs. */
export interface Cell {
  node: HTMLElement;
  model: {
    sharedModel: { getSource(): string; setSource(source: string): void };
    getMetadata(key: string): object | undefined;
    setMetadata(key: string, value: object): void;
    deleteMetadata(key: string): void;
  };
  outputArea: {
    widgets: readonly Widget[];
    model: { get(place: number): { toJSON(): OutputJSON } | undefined; set(place: number, output: OutputJSON): void };
  };
}
export interface NotebookPanel extends Widget {
  content: { rendermime: Registry; widgets: readonly Cell[] };
}
export interface Notebooks {
  forEach(act: (panel: NotebookPanel) => void): void;
  widgetAdded: Signal<unknown, NotebookPanel>;
}

export interface Documents {
  newUntitled(given: { path: string; type: string; ext: string }): Promise<{ path: string }>;
}
/** What an activated plug-in is handed besides: each is `null` where this JupyterLab has none. */
export interface Launcher {
  add(given: object): void;
}
export interface Palette {
  addItem(given: object): void;
}
export interface Restorer {
  restore(
    tracker: WidgetTracker,
    given: { command: string; args(shown: DocumentWidget): object; name(shown: DocumentWidget): string },
  ): void;
  add(widget: Widget, name: string): void;
}
export interface Browser {
  model: { path: string };
}

export interface Toast {
  autoClose: number | false;
  actions?: { label: string; callback(): void }[];
}
/** JupyterLab's modules, put together: no name stands in two of them that is used here. */
export interface Lab {
  Widget: typeof Widget;
  LabIcon: typeof LabIcon;
  DocumentWidget: typeof DocumentWidget;
  ABCWidgetFactory: typeof ABCWidgetFactory;
  WidgetTracker: typeof WidgetTracker;
  PageConfig: { getBaseUrl(): string };
  PathExt: { basename(path: string): string };
  Notification: { info(text: string, options: Toast): void; warning(text: string, options: Toast): void };
  FileDialog: {
    getOpenFiles(
      given: { manager: Documents; title: string; filter(file: FileModel): object | null },
    ): Promise<{ value: FileModel[] | null }>;
  };
  IDocumentManager: object;
  ILauncher: object;
  ICommandPalette: object;
  ILayoutRestorer: object;
  IDefaultFileBrowser: object;
  IThemeManager: object;
  INotebookTracker: object;
}

/** A plan in a running kernel, as `live_plans` tells it. */
export interface LivePlan {
  plan: string;
  layout: string;
  mesh: string;
  memory: string;
  names: string[];
}
/** What the page in the frame says. */
export interface Heard {
  to?: string;
  kind: string;
  text?: unknown;
  created?: boolean;
}
