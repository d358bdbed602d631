// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sampleDevice, sampleModel, sampleRun } from '../testing/model';
import type { Model } from '../data/model';
import type { App, Panel, PanelKind } from './panel';
import { showEmpty, showFailure, showLoading } from './notice';
import { showShell } from './shell';
import { TABS } from './state';

const SAMPLE = { lastInstant: 100, blocks: [{ begin: 10, size: 512 }] };
const made: string[] = [], updates: string[] = [], keys: string[] = [];
let root: HTMLElement, app: App, listeners: [string, EventListenerOrEventListenerObject][];

function kind(tab: (typeof TABS)[number]): PanelKind {
  return {
    tab,
    title: tab.toUpperCase(),
    keys: [['w  s', `zoom ${tab}`]],
    missing: (given) => (tab === 'leaks' && given.device().lastInstant === 100 ? 'no <b>steps</b>' : null),
    make(): Panel {
      made.push(tab);
      if (tab === 'findings') throw new Error('broken panel');
      const element = document.createElement('section');
      return { element, update: () => updates.push(tab), picture: () => null, key: (event) => keys.push(event.key) > 0 && event.key === 'w' };
    },
  };
}

const turn = (): Promise<void> => Promise.resolve();
const $ = <T extends HTMLElement>(selector: string): T => root.querySelector<T>(selector)!;

/** True: nobody used it. */
function press(key: string, target: Element = document.body, more: KeyboardEventInit = {}): boolean {
  return target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
}

function show(model: Model): void {
  app = showShell(root, model, TABS.map(kind));
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'requestAnimationFrame'] }); // none is left when the page is gone
  made.length = updates.length = keys.length = 0;
  listeners = [];
  const add = document.addEventListener.bind(document);
  vi.spyOn(document, 'addEventListener').mockImplementation((type: string, listener: EventListenerOrEventListenerObject) => {
    listeners.push([type, listener]);
    add(type, listener);
  });
  window.history.replaceState(null, '', '#');
  window.localStorage.clear();
  root = document.createElement('div');
  document.body.replaceChildren(root);
  HTMLDialogElement.prototype.showModal = function () {
    this.scrollTop = 900; // a browser goes to the button that gets the focus
    this.setAttribute('open', '');
  };
  HTMLDialogElement.prototype.close = function () {
    this.removeAttribute('open');
  };
});

afterEach(() => {
  for (const [type, listener] of listeners) document.removeEventListener(type, listener);
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe('the shell', () => {
  it('makes a panel when its tab is first shown, and keeps it', async () => {
    show(sampleModel(SAMPLE));
    expect(made).toEqual(['timeline']);
    expect(updates).toEqual(['timeline']);
    $<HTMLButtonElement>('#tab-flame').click();
    await turn();
    press('1');
    await turn();
    expect(made).toEqual(['timeline', 'flame']);
    expect(updates).toEqual(['timeline', 'flame', 'timeline']);
    expect($('#panel-flame').hidden).toBe(true);
    expect($('#panel-timeline').hidden).toBe(false);
  });

  it('has tabs that arrows move through', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    show(sampleModel(SAMPLE));
    const selected = (): string[] => [...root.querySelectorAll('[role=tab][aria-selected=true]')].map((tab) => tab.id);
    $('#tab-timeline').focus();
    press('ArrowLeft', document.activeElement!);
    await turn();
    expect(selected()).toEqual(['tab-findings']);
    expect(document.activeElement).toBe($('#tab-findings'));
    press('ArrowRight', document.activeElement!);
    await turn();
    expect(selected()).toEqual(['tab-timeline']);
    expect([...root.querySelectorAll('[role=tab][tabindex="0"]')].length).toBe(1);
  });

  it('shows a reason in place of a panel that is missing or that failed', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    show(sampleModel(SAMPLE));
    press('6');
    await turn();
    expect($('#panel-leaks').textContent).toBe('no <b>steps</b>');
    expect($('#panel-leaks b')).toBeNull();
    expect(made).not.toContain('leaks');
    press('8');
    await turn();
    expect($('#panel-findings').textContent).toBe('FINDINGS could not be drawn: broken panel');
    press('1');
    await turn();
    expect(updates[updates.length - 1]).toBe('timeline');
  });

  it('chooses devices and runs, and leaves behind what was of the one before', async () => {
    const run = sampleRun(SAMPLE), devices = [sampleDevice(SAMPLE), sampleDevice({ lastInstant: 7, blocks: [] })];
    show({ vramwise: '0', diff: null, runs: [{ ...run, devices }, { ...run, file: '<i>b</i>' }] });
    app.store.set({ pinned: 0, cursor: 50 });
    press(']');
    expect(app.store.state).toMatchObject({ device: 1, to: 7, cursor: 0, pinned: null });
    press(']');
    expect(app.store.state).toMatchObject({ device: 0, to: 100, cursor: 10 });
    press('[');
    await turn();
    const [runs, deviceChoice] = [...root.querySelectorAll('select')];
    expect(deviceChoice!.value).toBe('1');
    runs!.value = '1';
    runs!.dispatchEvent(new Event('change'));
    await turn();
    expect(app.store.state).toMatchObject({ run: 1, device: 0 });
    expect(deviceChoice!.options.length).toBe(1);
    expect(root.querySelector('i')).toBeNull();
  });

  it('says so where one of two runs is empty', async () => {
    show({ vramwise: '0', diff: null, runs: [sampleRun(SAMPLE), { ...sampleRun(SAMPLE), file: 'b.pickle', devices: [] }] });
    app.store.set({ run: 1, device: 0 });
    await turn();
    expect($('#panel-timeline').textContent).toBe('b.pickle has no device in it.');
    app.store.set({ run: 0 });
    await turn();
    expect($('#panel-timeline section')).not.toBeNull();
  });

  it('clears with Escape, and gives other keys to the panel', () => {
    show(sampleModel(SAMPLE));
    app.store.set({ pinned: 0, stack: 1, search: 'x' });
    expect(press('Escape')).toBe(false);
    expect(app.store.state).toMatchObject({ pinned: null, stack: null, search: '' });
    expect(press('w')).toBe(false);
    expect(press('x')).toBe(true);
    expect(keys).toEqual(['w', 'x']);
    press('w', document.body, { ctrlKey: true });
    expect(keys).toEqual(['w', 'x']);
  });

  it('leaves the keys of a field to the field', () => {
    show(sampleModel(SAMPLE));
    const search = $<HTMLInputElement>('input[type=search]');
    press('/');
    expect(document.activeElement).toBe(search);
    for (const key of ['2', 't', '/', '?', 'w']) expect(press(key, search)).toBe(true);
    expect(app.store.state.tab).toBe('timeline');
    search.value = 'adam';
    search.dispatchEvent(new Event('change'));
    expect(app.store.state.search).toBe('adam');
    press('Escape', search);
    expect(app.store.state.search).toBe('');
    expect(document.activeElement).toBe(search);
    press('Escape', search);
    expect(document.activeElement).not.toBe(search);
  });

  it('goes through the themes and remembers', async () => {
    show(sampleModel(SAMPLE));
    press('t');
    press('t');
    await turn();
    expect(document.documentElement.dataset['theme']).toBe('dark');
    expect(window.localStorage.getItem('vramwise.theme')).toBe('dark');
    expect(updates.length).toBe(2);
    expect($('[role=status]').textContent).toBe('Colours: dark');
  });

  it('has its keys in a dialog, which takes them while it is open', () => {
    show(sampleModel(SAMPLE));
    press('?');
    expect($('dialog').hasAttribute('open')).toBe(true);
    expect($('dialog').scrollTop).toBe(0);
    expect([...$('dialog').querySelectorAll('dd')].map((what) => what.textContent)).toContain('zoom flame');
    press('2');
    expect(app.store.state.tab).toBe('timeline');
    $<HTMLButtonElement>('dialog button').click();
    expect($('dialog').hasAttribute('open')).toBe(false);
  });

  it('starts as the link says', () => {
    window.history.replaceState(null, '', '#tab=table&at=3&q=a');
    show(sampleModel(SAMPLE));
    expect(made).toEqual(['table']);
    expect($<HTMLInputElement>('input[type=search]').value).toBe('a');
  });
});

describe('a notice', () => {
  it('shows how far loading is', () => {
    const tell = showLoading(root);
    tell('Fetching', 0.5);
    expect($<HTMLProgressElement>('progress').value).toBe(0.5);
    tell('Unpacking', null);
    expect($('progress').hasAttribute('value')).toBe(false);
    expect($('p').textContent).toBe('Unpacking');
  });

  it('says what failed, and what is empty, in texts', () => {
    showFailure(root, new Error('<img src=x>'));
    expect(root.querySelector('img')).toBeNull();
    expect(root.textContent).toContain('What went wrong: <img src=x>.');
    showEmpty(root, ['a.pickle', 'b.pickle']);
    expect(root.textContent).toContain('a.pickle and b.pickle could be read');
  });
});
