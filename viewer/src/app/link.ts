// The state in the address, behind the #: what differs from the default, so that a link says what its
// sender looked at. A link comes from anywhere: what does not fit the model is left out or brought into range.

import { NONE, type Model } from '../data/model';
import { defaultState } from './defaults';
import { COLOURS, FRAMES, TABS, type State, type Store, type Theme } from './state';

const SEARCH_MAX = 500;

/** Without the #; empty for the default. */
export function linkOf(model: Model, state: State): string {
  const usual = defaultState(model, state.theme);
  const here = defaultState(model, state.theme, state.run, state.device);
  const out = new URLSearchParams();
  if (state.tab !== usual.tab) out.set('tab', state.tab);
  if (state.run !== usual.run) out.set('run', String(state.run));
  if (state.run !== usual.run || state.device !== usual.device) out.set('dev', String(state.device));
  if (state.from !== here.from || state.to !== here.to) out.set('view', `${Math.round(state.from)}-${Math.round(state.to)}`);
  if (state.cursor !== here.cursor) out.set('at', String(Math.round(state.cursor)));
  if (state.pinned !== null) out.set('block', String(state.pinned));
  if (state.stack !== null) out.set('stack', state.stack === NONE ? 'none' : String(state.stack));
  if (state.colour !== here.colour) out.set('by', state.colour);
  if (state.frames !== here.frames) out.set('frames', state.frames);
  if (state.search !== '') out.set('q', state.search.slice(0, SEARCH_MAX));
  return out.toString();
}

function whole(text: string | null | undefined): number | null {
  if (text === null || text === undefined || !/^\d{1,15}$/.test(text)) return null;
  return Number(text);
}

function below(text: string | null, count: number): number | null {
  const value = whole(text);
  return value !== null && value < count ? value : null;
}

function one<T extends string>(text: string | null, choices: readonly T[]): T | null {
  return choices.find((choice) => choice === text) ?? null;
}

function view(text: string | null, last: number): { from: number; to: number } | null {
  const [from, to, ...more] = (text ?? '').split('-').map(whole);
  if (from === null || from === undefined || to === null || to === undefined || more.length > 0) return null;
  const range = { from: Math.min(from, last), to: Math.min(to, last) };
  return range.from < range.to ? range : null;
}

export function stateOf(model: Model, hash: string, theme: Theme): State {
  const link = new URLSearchParams(hash.replace(/^#/, ''));
  const usual = defaultState(model, theme);
  const run = below(link.get('run'), model.runs.length) ?? usual.run;
  const device = below(link.get('dev'), model.runs[run]?.devices.length ?? 0) ?? model.runs[run]?.busiest ?? 0;
  const here = defaultState(model, theme, run, device);
  const blocks = model.runs[run]?.devices[device]?.blocks.count ?? 0;
  const stacks = model.runs[run]?.stacks.count ?? 0;
  const last = model.runs[run]?.devices[device]?.lastInstant ?? 0;
  return {
    ...here,
    tab: one(link.get('tab'), TABS) ?? usual.tab,
    ...view(link.get('view'), last),
    cursor: Math.min(whole(link.get('at')) ?? here.cursor, last),
    pinned: below(link.get('block'), blocks),
    stack: link.get('stack') === 'none' ? NONE : below(link.get('stack'), stacks),
    colour: one(link.get('by'), COLOURS) ?? here.colour,
    frames: one(link.get('frames'), FRAMES) ?? here.frames,
    search: (link.get('q') ?? '').slice(0, SEARCH_MAX),
  };
}

const QUIET_MS = 250;

export interface Link {
  /** Writes now what waits to be written. */
  settle(): void;
  end(): void;
}

/** Keeps address and state the same. A tab is an entry of the history, everything else is not. */
export function followLink(model: Model, store: Store, page: Window = window): Link {
  let timer: number | null = null;
  const address = (state: State): string => `#${linkOf(model, state)}`;

  const write = (state: State, isNew: boolean): void => {
    if (address(state) === (page.location.hash || '#')) return;
    try {
      if (isNew) page.history.pushState(null, '', address(state));
      else page.history.replaceState(null, '', address(state));
    } catch {
      // Some browsers allow none of this in a file, or only so often. The page works without.
    }
  };
  const settle = (): void => {
    if (timer !== null) page.clearTimeout(timer);
    timer = null;
    write(store.state, false);
  };
  const read = (): void => {
    if (timer !== null) page.clearTimeout(timer);
    timer = null;
    store.set(stateOf(model, page.location.hash, store.state.theme));
  };
  const unsubscribe = store.subscribe((state, before) => {
    const isRead = address(state) === (page.location.hash || '#');
    if (state.tab !== before.tab && !isRead) {
      if (timer !== null) write(before, false);
      write(state, true);
    }
    if (timer !== null) page.clearTimeout(timer);
    timer = page.setTimeout(settle, QUIET_MS);
  });
  page.addEventListener('popstate', read);
  page.addEventListener('hashchange', read);
  return {
    settle,
    end() {
      if (timer !== null) page.clearTimeout(timer);
      unsubscribe();
      page.removeEventListener('popstate', read);
      page.removeEventListener('hashchange', read);
    },
  };
}
