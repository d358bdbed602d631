// All keys, in a dialog.

import { h } from '../look/h';
import type { PanelKind } from './panel';

type Keys = NonNullable<PanelKind['keys']>;

const EVERYWHERE: Keys = [
  ['1 - 8', 'go to a tab'],
  ['[  ]', 'the device before, the next one'],
  ['/', 'search'],
  ['Esc', 'unpin, clear the highlighted stack and the search'],
  ['e', 'save the picture as PNG'],
  ['c', 'save the table as CSV'],
  ['f', 'hide frames of libraries and of the interpreter, or show them again'],
  ['t', 'system, light or dark colours'],
  ['?', 'this list'],
];

function table(title: string, keys: Keys): HTMLElement {
  const rows = keys.flatMap(([key, what]) => [
    h('dt', {}, ...key.split('  ').flatMap((one, i) => [i > 0 ? ' ' : null, h('kbd', {}, one)])),
    h('dd', {}, what),
  ]);
  return h('section', {}, h('h3', {}, title), h('dl', { class: 'keys' }, ...rows));
}

export interface Help {
  readonly element: HTMLDialogElement;
  open(): void;
}

export function makeHelp(version: string, kinds: readonly PanelKind[]): Help {
  const close = h('button', { type: 'button', class: 'plain', onclick: () => element.close() }, 'Close');
  const element = h(
    'dialog',
    { class: 'help', 'aria-label': 'Keys' },
    h('h2', {}, 'Keys'),
    table('Everywhere', EVERYWHERE),
    ...kinds.map((kind) => kind.keys && table(kind.title, kind.keys)),
    h('p', { class: 'muted' }, `Written by vramwise ${version}. The page keeps to itself: it asks no other host for anything.`),
    h('p', { class: 'right' }, close),
  );
  element.addEventListener('click', (event) => {
    if (event.target === element) element.close(); // beside the dialog's content
  });
  return {
    element,
    open() {
      if (element.open) return;
      element.showModal();
      element.scrollTop = 0; // the button that has the focus is at the end
    },
  };
}
