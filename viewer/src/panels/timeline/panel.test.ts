// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sampleApp, sampleModel, type Sample } from '../../testing/model';
import type { Panel } from '../../app/panel';
import { spanOf } from '../../picture/columns';
import { timeline } from './kind';

const WIDTH = 880, HEIGHT = 480;

/** A context that takes everything and remembers the texts. */
function fakeContext(texts: string[]): CanvasRenderingContext2D {
  const calls: Record<string, unknown> = {
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string) => texts.push(text),
    getTransform: () => ({ a: 1 }),
  };
  return new Proxy(calls, { get: (target, name) => target[String(name)] ?? (() => undefined), set: () => true }) as unknown as CanvasRenderingContext2D;
}

const sample: Sample = {
  lastInstant: 1000,
  blocks: [
    { begin: 0, size: 4 * 1024 ** 2, stack: 0 },
    ...Array.from({ length: 100 }, (_, i) => ({ begin: 5 + 9 * i, end: 12 + 9 * i, size: 1024 ** 2, stack: 1 })),
    { begin: 950, end: 960, size: 8 * 1024 ** 2, stack: 1 },
  ],
  stacks: [
    { category: 'weights', frames: [{ functionName: 'init', file: '/x/model.py', line: 4 }] },
    { category: 'activations', frames: [{ functionName: '<script>alert(1)</script>', file: '/x/model.py', line: 40 }] },
  ],
  reserved: [[0, 6 * 1024 ** 2], [950, 14 * 1024 ** 2]],
  marks: [
    { kind: 'annotation', instant: 300, bytes: null, text: 'half' },
    { kind: 'oom', instant: 955, bytes: 512, text: null },
  ],
};

let texts: string[] = [];

beforeEach(() => {
  texts = [];
  vi.stubGlobal('ImageData', class {
    readonly data: Uint8ClampedArray;
    constructor(readonly width: number, readonly height: number) {
      this.data = new Uint8ClampedArray(4 * width * height);
    }
  });
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockImplementation((() => fakeContext(texts)) as never);
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(WIDTH);
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(HEIGHT);
  window.matchMedia = (() => ({ matches: true })) as never; // no motion: heights are there at once
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

const frame = (): Promise<void> => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve())));

async function shown(given: Sample = sample, change = {}): Promise<{ panel: Panel; app: ReturnType<typeof sampleApp>; canvas: HTMLCanvasElement }> {
  const app = sampleApp(sampleModel(given), change), panel = timeline.make(app);
  document.body.appendChild(panel.element);
  app.store.subscribe((state) => panel.update(state));
  panel.update(app.store.state);
  await frame();
  return { panel, app, canvas: panel.element.querySelector('canvas')! };
}

const press = (panel: Panel, key: string): boolean => panel.key!(new KeyboardEvent('keydown', { key }));

function point(canvas: HTMLCanvasElement, type: string, x: number, y: number, more: MouseEventInit = {}): void {
  const event = new MouseEvent(type, { clientX: x, clientY: y, bubbles: true, ...more });
  Object.assign(event, { pointerId: 1 });
  canvas.dispatchEvent(event);
}

describe('the timeline', () => {
  it('draws its axes and says what is seen', async () => {
    const { canvas } = await shown();
    expect(texts).toContain('4 MiB');
    expect(texts).toContain('event');
    expect(canvas.getAttribute('aria-label')).toContain('The most that is live is 12.0 MiB, at event 949.');
  });

  it('moves and zooms by keys, within the run', async () => {
    const { panel, app } = await shown();
    expect(press(panel, 'w')).toBe(true);
    const { from, to } = app.store.state, span = spanOf({ from, to });
    expect(span).toBeLessThan(1001);
    press(panel, 'a');
    expect(spanOf(app.store.state)).toBeCloseTo(span, 6);
    expect(app.store.state.from).toBeLessThan(from);
    for (let i = 0; i < 40; i++) press(panel, 'd');
    expect(app.store.state.to).toBe(1000);
    press(panel, 'Home');
    expect([app.store.state.from, app.store.state.to]).toEqual([0, 1000]);
    press(panel, 'p');
    expect(app.store.state.cursor).toBe(950);
    expect(app.store.state.from).toBeGreaterThan(800);
    expect(press(panel, 'x')).toBe(false);
  });

  it('goes from mark to mark', async () => {
    const { panel, app } = await shown(sample, { cursor: 0 });
    press(panel, 'n');
    expect(app.store.state.cursor).toBe(300);
    press(panel, 'n');
    expect(app.store.state.cursor).toBe(955);
    press(panel, 'n');
    press(panel, 'b');
    expect(app.store.state.cursor).toBe(300);
    expect(app.said).toEqual(['annotation: half (event 299)', 'out of memory: 512 B (event 954)', 'There is no later mark', 'annotation: half (event 299)']);
  });

  it('pins what is clicked, and unpins on the ground', async () => {
    const { panel, app, canvas } = await shown();
    point(canvas, 'pointerdown', 400, 440);
    point(canvas, 'pointerup', 400, 440);
    expect(app.store.state.pinned).toBe(0);
    expect(app.store.state.stack).toBe(0);
    expect(app.store.state.cursor).toBeGreaterThan(300);
    await frame();
    const details = panel.element.querySelector<HTMLElement>('.timeline-details')!;
    expect(details.hidden).toBe(false);
    expect(details.textContent).toContain('4.00 MiB (4,194,304 bytes)');
    point(canvas, 'pointerdown', 400, 40);
    point(canvas, 'pointerup', 400, 40);
    await frame();
    expect([app.store.state.pinned, app.store.state.stack, details.hidden]).toEqual([null, null, true]);
  });

  it('pans by a drag and takes a range with shift', async () => {
    const { app, canvas } = await shown(sample, { from: 200, to: 399 });
    point(canvas, 'pointerdown', 400, 200);
    point(canvas, 'pointermove', 300, 200);
    expect(app.store.state.from).toBeCloseTo(200 + (100 / (WIDTH - 80)) * 200, 6);
    point(canvas, 'pointerup', 300, 200);
    expect(app.store.state.pinned).toBeNull();
    await frame();
    const before = spanOf(app.store.state);
    point(canvas, 'pointerdown', 266, 200, { shiftKey: true });
    point(canvas, 'pointermove', 466, 200, { shiftKey: true });
    point(canvas, 'pointerup', 466, 200, { shiftKey: true });
    expect(spanOf(app.store.state)).toBeCloseTo(before / 4, 6);
  });

  it('zooms with the wheel around the pointer', async () => {
    const { app, canvas } = await shown();
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -200, clientX: 66, clientY: 100, cancelable: true }));
    expect(app.store.state.from).toBe(0);
    expect(app.store.state.to).toBeLessThan(800);
  });

  it('tells of a block under the pointer, as text', async () => {
    const { canvas } = await shown(sample, { from: 940, to: 969 });
    point(canvas, 'pointermove', 500, 250);
    await frame();
    const tooltip = document.querySelector('.tooltip')!;
    expect(tooltip.textContent).toContain('8.00 MiB (8,388,608 bytes)');
    expect(tooltip.textContent).toContain('<script>alert(1)</script>');
    expect(document.querySelector('script')).toBeNull();
  });

  it('presses a line of the legend', async () => {
    const { panel, app } = await shown();
    const buttons = [...panel.element.querySelectorAll<HTMLButtonElement>('.timeline-legend button')];
    buttons[0]!.click();
    await frame();
    expect(app.store.state.stack).toBe(1); // the most bytes at the peak
    expect(panel.element.querySelector('.timeline-legend [aria-pressed=true]')).not.toBeNull();
  });

  it('says how much a search finds', async () => {
    const { panel, app } = await shown(sample, { search: '>=8MiB' });
    expect(panel.element.textContent).toContain('the search finds 1 block');
    app.store.set({ search: 'nowhere' });
    await frame();
    expect(panel.element.textContent).toContain('the search finds no block');
  });

  it('lets go of a line of the legend with Escape', async () => {
    const { panel } = await shown(sample, { colour: 'category' });
    panel.element.querySelector<HTMLButtonElement>('.timeline-legend button')!.click();
    expect(panel.element.querySelector('.timeline-legend [aria-pressed=true]')).not.toBeNull();
    expect(press(panel, 'Escape')).toBe(true);
    expect(panel.element.querySelector('.timeline-legend [aria-pressed=true]')).toBeNull();
    expect(press(panel, 'Escape')).toBe(false);
  });

  it('is a picture for a file, of few enough elements', async () => {
    const { panel } = await shown();
    const picture = panel.picture()!, parent = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    picture.drawSvg(parent);
    const words = [...parent.querySelectorAll('text')].map((text) => text.textContent);
    expect(words[0]).toContain('sample.pickle: live memory of GPU 0, all 1,000 events');
    expect(words).toContain('event');
    const count = parent.querySelectorAll('g > rect').length;
    expect(count).toBeGreaterThan(100);
    expect(count).toBeLessThan(20_000);
  });

  it('shows an end state without a trace, with a sentence', async () => {
    const { panel } = await shown({ lastInstant: 0, blocks: [{ begin: 0, size: 2 * 1024 ** 2 }, { begin: 0, size: 512 }] });
    expect(panel.element.querySelector('.timeline-sentence')?.textContent).toContain('no trace of events');
    expect(press(panel, 'w')).toBe(false);
    expect(panel.picture()).not.toBeNull();
  });

  it('says so where there is no block', () => {
    expect(timeline.missing(sampleApp(sampleModel({ lastInstant: 0, blocks: [] })))).toBe('No block of GPU 0 is in the recording.');
    expect(timeline.missing(sampleApp(sampleModel(sample)))).toBeNull();
  });
});
