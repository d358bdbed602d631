// The line on top: what is looked at, and what can be done with it.

import { h } from '../look/h';
import { makeMenu } from '../look/menu';
import { makePicker } from '../look/picker';
import type { Choice } from '../look/segmented';
import { bytes } from '../look/units';
import { toDevice } from './defaults';
import { shortNames } from './names';
import type { App } from './panel';
import type { State } from './state';
import type { Run } from '../data/model';

const SEARCH_QUIET_MS = 120;

export interface Actions {
  copyLink(): void;
  exportPng(): void;
  exportSvg(): void;
  exportCsv(): void;
  nextFrames(): void;
  help(): void;
  nextTheme(): void;
}

export interface Header {
  readonly element: HTMLElement;
  readonly search: HTMLInputElement;
  update(state: State): void;
}

function devicesOf(run: Run): Choice<string>[] {
  return run.devices.map((device, i) => ({ value: String(i), title: `${device.name}, peak ${bytes(device.header.peak_live_bytes)}` }));
}

function makeSearch(app: App): HTMLInputElement {
  let timer = 0;
  const take = (): void => {
    window.clearTimeout(timer);
    app.store.set({ search: search.value });
  };
  const search = h('input', {
    type: 'search',
    placeholder: 'Search functions and files',
    'aria-label': 'Search functions and files (/)',
    title: 'Search functions and files (/)',
    spellcheck: 'false',
    autocomplete: 'off',
    maxlength: 500,
    oninput: () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(take, SEARCH_QUIET_MS);
    },
    onchange: take,
  });
  return search;
}

export function makeHeader(app: App, actions: Actions): Header {
  const { model, store } = app;
  const files = model.runs.map((run) => run.file), names = shortNames(files);
  const runs = makePicker(
    'Recording',
    names.map((name, i) => ({ value: String(i), title: names.length > 1 ? `${'AB'[i] ?? i + 1}: ${name}` : name })),
    (value) => store.set(toDevice(model, store.state, Number(value))),
  );
  const devices = makePicker('Device ([ and ])', [], (value) => store.set(toDevice(model, store.state, store.state.run, Number(value))));
  const search = makeSearch(app);
  const frames = h(
    'button',
    { type: 'button', class: 'plain', title: 'Hide frames of libraries and of the interpreter in stacks, table and flame graph (f)', 'aria-pressed': 'false', onclick: () => actions.nextFrames() },
    'Own frames',
  );
  const theme = h('button', { type: 'button', class: 'plain theme', onclick: () => actions.nextTheme() });
  const button = (title: string, what: string, run: () => void): HTMLElement =>
    h('button', { type: 'button', class: 'plain', title: what, onclick: run }, title);
  const file = names.length > 1 ? runs.element : h('span', { class: 'file', title: files[0] }, h('bdi', {}, names[0]));
  let shownRun = -1;
  if (files.length > 1) runs.element.title = names.map((_, i) => `${'AB'[i] ?? i + 1}: ${files[i]}`).join('\n');

  return {
    search,
    element: h(
      'header',
      { class: 'top' },
      h('span', { class: 'brand' }, 'vramwise'),
      file,
      devices.element,
      h('span', { class: 'spring' }),
      search,
      h(
        'span',
        { class: 'actions' },
        h('button', { type: 'button', class: 'plain wide-only', title: 'Copies the address, which holds what you look at', onclick: () => actions.copyLink() }, 'Copy link'),
        frames,
        makeMenu('Save', [
          { title: 'Picture as PNG', key: 'e', run: () => actions.exportPng() },
          { title: 'Picture as SVG', run: () => actions.exportSvg() },
          { title: 'Table as CSV', key: 'c', run: () => actions.exportCsv() },
          { title: 'Link, to the clipboard', run: () => actions.copyLink() },
        ]).element,
        theme,
        button('?', 'Keys (?)', () => actions.help()),
      ),
    ),
    update(state) {
      if (shownRun !== state.run) {
        devices.setChoices(devicesOf(app.run()));
        devices.element.hidden = app.run().devices.length === 0;
        shownRun = state.run;
      }
      runs.set(String(state.run));
      devices.set(String(state.device));
      frames.setAttribute('aria-pressed', String(state.frames === 'own'));
      theme.textContent = `Theme: ${state.theme}`;
      theme.title = 'System, light or dark colours (t)';
      if (document.activeElement !== search && search.value !== state.search) search.value = state.search;
    },
  };
}
