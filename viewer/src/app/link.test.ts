// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NONE, type Model } from '../data/model';
import { sampleDevice, sampleModel, sampleRun } from '../testing/model';
import { defaultState, toDevice } from './defaults';
import { followLink, linkOf, stateOf, type Link } from './link';
import { COLOURS, Store, TABS, type State } from './state';

const SAMPLE = { lastInstant: 1000, blocks: [{ begin: 10, end: 20, size: 512 }, { begin: 30, size: 1024, stack: 1 }], stacks: [{ frames: [] }, { frames: [] }] };
const SMALL = { lastInstant: 50, blocks: [{ begin: 5, size: 512 }] };

function twoRuns(): Model {
  const run = sampleRun(SAMPLE);
  return { vramwise: '0', diff: null, runs: [{ ...run, devices: [sampleDevice(SMALL), sampleDevice(SAMPLE)], busiest: 1 }, sampleRun(SMALL)] };
}

const model = twoRuns();
const usual = defaultState(model, 'system');
const roundTrip = (state: State): State => stateOf(model, `#${linkOf(model, state)}`, state.theme);

describe('a link', () => {
  it('of what is shown at first is empty', () => {
    expect(usual.device).toBe(1);
    expect(linkOf(model, usual)).toBe('');
    expect(stateOf(model, '', 'system')).toEqual(usual);
    expect(stateOf(model, '#', 'system')).toEqual(usual);
  });

  it('brings back every field', () => {
    const states: State[] = [
      ...TABS.map((tab) => ({ ...usual, tab })),
      ...COLOURS.map((colour) => ({ ...usual, colour })),
      { ...usual, from: 3, to: 999, cursor: 0 },
      { ...usual, from: 0, to: 1 },
      { ...usual, pinned: 0, stack: 0 },
      { ...usual, pinned: 1, stack: NONE },
      { ...usual, ...toDevice(model, usual, 0, 0) },
      { ...usual, ...toDevice(model, usual, 1), cursor: 7, tab: 'leaks' },
      { ...usual, search: 'a&b=c #?%"<>\u00e9\u{1f600}+ x' },
    ];
    for (const state of states) expect(roundTrip(state)).toEqual(state);
  });

  it('is compact, and whole where the state is not', () => {
    expect(linkOf(model, { ...usual, tab: 'flame', cursor: 5, from: 1.5, to: 700.25 })).toBe('tab=flame&view=2-700&at=5');
  });

  it('keeps the theme of who opens it', () => {
    expect(stateOf(model, linkOf(model, { ...usual, theme: 'dark' }), 'light').theme).toBe('light');
  });

  it('from anywhere gives a state of this model', () => {
    const hostile = [
      'tab=nothing&by=__proto__&run=-1&dev=1e3&view=NaN-Infinity&at=-5&block=1.5&stack=0x1',
      'tab=constructor&by=toString&run=99999999999999999999&dev=99&view=5&at=&block=&stack=',
      'view=900-10&block=2&stack=2',
      'view=1-2-3&at=abc',
      'view=4000-5000',
      '%%%&=&&&=%ff',
      '__proto__=1&constructor=2',
      'tab=flame%00&q=',
      '<script>alert(1)</script>',
      'run=1&dev=7&block=1',
    ];
    for (const hash of hostile) {
      const state = stateOf(model, `#${hash}`, 'system');
      const run = model.runs[state.run]!, device = run.devices[state.device]!;
      expect(TABS, hash).toContain(state.tab);
      expect(COLOURS, hash).toContain(state.colour);
      expect([state.from, state.to], hash).toEqual([0, device.lastInstant]);
      expect(state.cursor >= 0 && state.cursor <= device.lastInstant, hash).toBe(true);
      expect([state.pinned, state.stack], hash).toEqual([null, null]);
    }
    expect(stateOf(model, 'at=123456&view=10-123456', 'system')).toEqual({ ...usual, cursor: 1000, from: 10 });
    expect(stateOf(model, `q=${'x'.repeat(9999)}`, 'system').search.length).toBe(500);
  });

  it('of a model without devices is the default', () => {
    const empty: Model = { vramwise: '0', diff: null, runs: [{ ...sampleRun(SMALL), devices: [] }] };
    expect(stateOf(empty, 'dev=3&at=7&block=1&view=1-2', 'dark')).toEqual(defaultState(empty, 'dark'));
  });
});

describe('what is shown at first', () => {
  it('is the diff of two runs, and no timeline without a trace', () => {
    expect(defaultState({ ...model, diff: {} as NonNullable<Model['diff']> }, 'light').tab).toBe('diff');
    expect(defaultState(sampleModel({ lastInstant: 0, blocks: [{ begin: 0, size: 1 }] }), 'light').tab).toBe('segments');
  });

  it('is the first failure, and without one the peak', () => {
    const oom = (instant: number) => ({ kind: 'oom' as const, instant, text: null, bytes: 512 });
    expect(defaultState(sampleModel({ ...SAMPLE, marks: [oom(700), oom(800)] }), 'light').cursor).toBe(700);
    expect(defaultState(sampleModel(SAMPLE), 'light').cursor).toBe(30);
  });

  it('of another device has no block or instant of the one before', () => {
    const change = toDevice(model, { ...usual, pinned: 1, stack: 1, cursor: 900 }, 0, 0);
    expect(change).toEqual({ run: 0, device: 0, from: 0, to: 50, cursor: 5, pinned: null, stack: 1 });
    expect(toDevice(model, { ...usual, stack: 1 }, 1).stack).toBeNull();
  });
});

describe('the address', () => {
  let store: Store, link: Link;
  const turn = (): Promise<void> => Promise.resolve();

  beforeEach(() => {
    vi.useFakeTimers();
    window.history.replaceState(null, '', '#');
    store = new Store(usual);
    link = followLink(model, store, window);
  });
  afterEach(() => {
    link.end();
    vi.useRealTimers();
  });

  it('follows after a pause, in the same entry of the history', async () => {
    const entries = window.history.length;
    for (let cursor = 1; cursor < 50; cursor++) {
      store.set({ cursor });
      await turn();
    }
    expect(window.location.hash).toBe('');
    vi.advanceTimersByTime(1000);
    expect(window.location.hash).toBe('#at=49');
    expect(window.history.length).toBe(entries);
  });

  it('makes an entry for a tab, and leaves what was seen in the one before', async () => {
    const entries = window.history.length, replaced = vi.spyOn(window.history, 'replaceState');
    store.set({ cursor: 3 });
    await turn();
    store.set({ tab: 'flame' });
    await turn();
    expect(replaced).toHaveBeenCalledWith(null, '', '#at=3');
    expect(window.location.hash).toBe('#tab=flame&at=3');
    expect(window.history.length).toBe(entries + 1);
  });

  it('is read when it changes', async () => {
    window.history.replaceState(null, '', '#tab=leaks&at=9');
    window.dispatchEvent(new Event('hashchange'));
    expect(store.state).toEqual({ ...usual, tab: 'leaks', cursor: 9 });
    const entries = window.history.length;
    await turn();
    vi.advanceTimersByTime(1000);
    expect(window.history.length).toBe(entries);
    expect(window.location.hash).toBe('#tab=leaks&at=9');
  });

  it('may be refused by the browser', async () => {
    vi.spyOn(window.history, 'pushState').mockImplementation(() => {
      throw new Error('denied');
    });
    store.set({ tab: 'table' });
    await turn();
    expect(store.state.tab).toBe('table');
  });

  it('is written at once when somebody copies it', async () => {
    store.set({ cursor: 8 });
    await turn();
    link.settle();
    expect(window.location.hash).toBe('#at=8');
  });
});
