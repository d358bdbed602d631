// The keyboard. What the shell does not know goes to the panel that is shown.

import { toDevice } from './defaults';
import type { App, Panel, PanelKind } from './panel';
import type { Actions } from './header';
import { tabOfKey } from './tabs';

export interface KeyTargets {
  readonly kinds: readonly PanelKind[];
  readonly search: HTMLInputElement;
  readonly actions: Actions;
  shown(): Panel | null;
}

const TYPED_INTO = 'input:not([type=radio]):not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]';
const PRESSED = 'button, a[href], summary, label, input';

function stepDevice(app: App, by: number): void {
  const { model, store } = app, { run, device } = store.state, count = app.run().devices.length;
  if (count > 1) store.set(toDevice(model, store.state, run, (device + by + count) % count));
}

/** Unpins and clears; false: there was nothing to. */
function clear(app: App): boolean {
  const { pinned, stack, search } = app.store.state;
  if (pinned === null && stack === null && search === '') return false;
  app.store.set({ pinned: null, stack: null, search: '' });
  return true;
}

function use(app: App, targets: KeyTargets, event: KeyboardEvent): boolean {
  const { actions } = targets;
  const tab = tabOfKey(targets.kinds, event.key);
  if (tab !== null) {
    app.store.set({ tab });
    return true;
  }
  switch (event.key) {
    case '?':
      actions.help();
      return true;
    case '/':
      targets.search.focus();
      targets.search.select();
      return true;
    case 't':
      actions.nextTheme();
      return true;
    case 'e':
      actions.exportPng();
      return true;
    case 'c':
      actions.exportCsv();
      return true;
    case 'f':
      actions.nextFrames();
      return true;
    case '[':
    case ']':
      stepDevice(app, event.key === '[' ? -1 : 1);
      return true;
    case 'Escape':
      return clear(app);
    default:
      return false;
  }
}

function leaveSearch(app: App, search: HTMLInputElement): void {
  if (search.value === '') search.blur();
  search.value = '';
  app.store.set({ search: '' });
}

export function listenToKeys(app: App, targets: KeyTargets): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector('dialog[open]') !== null) return; // it has keys of its own
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.key === 'Escape' && target === targets.search) {
      leaveSearch(app, targets.search);
      event.preventDefault();
      return;
    }
    if (target.matches(TYPED_INTO) && event.key !== 'Escape') return;
    if ((event.key === ' ' || event.key === 'Enter') && target.matches(PRESSED)) return;
    if (use(app, targets, event) || targets.shown()?.key?.(event) === true) event.preventDefault();
  });
}
