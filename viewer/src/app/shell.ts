// The page around the panels.

import { fill } from '../look/h';
import type { Model } from '../data/model';
import { makeApp } from './app';
import { copyText } from './clipboard';
import { exportPicture, exportTable } from './export';
import { makeHeader, type Actions } from './header';
import { makeHelp } from './help';
import { listenToKeys } from './keys';
import { followLink, stateOf } from './link';
import type { App, PanelKind } from './panel';
import { isWrong } from './defaults';
import { Store, type State } from './state';
import { makeTabs } from './tabs';
import { applyTheme, nextTheme, onSystemTheme, storedTheme, storeTheme } from './theme';
import { makeToast } from './toast';
import { makeVerdictStrip } from './verdict';

/** Draws again when the size or the colours changed, at most once per frame. */
function watchWindow(app: App, redraw: () => void): void {
  let isAsked = false;
  const ask = (): void => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      redraw();
    });
  };
  window.addEventListener('resize', ask);
  onSystemTheme(() => applyTheme(app.store.state.theme) && ask());
  window.addEventListener('beforeprint', () => applyTheme('light') && redraw());
  window.addEventListener('afterprint', () => applyTheme(app.store.state.theme) && redraw());
}

/** Findings come first where something is wrong. */
function inOrder(model: Model, kinds: readonly PanelKind[]): readonly PanelKind[] {
  if (!isWrong(model)) return kinds;
  return [...kinds.filter((kind) => kind.tab === 'findings'), ...kinds.filter((kind) => kind.tab !== 'findings')];
}

export function showShell(root: HTMLElement, model: Model, given: readonly PanelKind[]): App {
  const store = new Store(stateOf(model, window.location.hash, storedTheme()));
  const toast = makeToast();
  const app = makeApp(model, store, (text) => toast.say(text));
  const kinds = inOrder(model, given);
  const tabs = makeTabs(app, kinds);
  const help = makeHelp(model.vramwise, kinds);
  const verdict = makeVerdictStrip(app);
  const link = followLink(model, store);

  const save = (ending: 'png' | 'svg'): void => void exportPicture(tabs.shown()?.picture() ?? null, app.run().file, ending, app.say);
  const actions: Actions = {
    async copyLink() {
      link.settle();
      app.say((await copyText(window.location.href)) ? 'The link is copied' : 'The link is in the address bar');
    },
    exportPng: () => save('png'),
    exportSvg: () => save('svg'),
    exportCsv: () => exportTable(tabs.shown()?.table?.() ?? null, app.run().file, app.say),
    nextFrames: () => store.set({ frames: store.state.frames === 'all' ? 'own' : 'all' }),
    help: () => help.open(),
    nextTheme: () => store.set({ theme: nextTheme(store.state.theme) }),
  };
  const header = makeHeader(app, actions);

  const updateVerdict = (state: State): void => {
    verdict.element.hidden = app.run().devices.length === 0;
    if (verdict.element.hidden) return;
    try {
      verdict.update(state);
    } catch (error) {
      console.error(error); // the panels can be looked at without it
      verdict.element.hidden = true;
    }
  };
  const update = (state: State): void => {
    header.update(state);
    updateVerdict(state);
    tabs.update(state);
  };
  store.subscribe((state, before) => {
    if (state.theme !== before.theme) {
      storeTheme(state.theme);
      applyTheme(state.theme);
      app.say(`Colours: ${state.theme}`);
    }
    update(state);
  });
  watchWindow(app, () => update(store.state));
  listenToKeys(app, { kinds, search: header.search, actions, shown: () => tabs.shown() });

  document.title = `${model.runs.map((run) => run.file).join(' and ')} - vramwise`;
  fill(root, header.element, verdict.element, tabs.list, tabs.body, toast.element, help.element);
  applyTheme(store.state.theme);
  update(store.state);
  return app;
}
