// @vitest-environment jsdom
// The panels in a page without a canvas: what they say, what a click does, and that texts stay texts.
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { App, Panel, PanelKind } from '../app/panel';
import type { DiffReport } from '../data/header';
import type { Device, Model } from '../data/model';
import { EVIL, sampleDoctor, sampleFinding, withDoctor } from '../testing/doctor';
import { sampleApp, sampleModel } from '../testing/model';
import { diff } from './diff/kind';
import { findings } from './findings/kind';
import { leaks } from './leaks/kind';
import { whatIf } from './what-if/kind';

// uPlot measures and draws, for which jsdom has nothing; it gets numbers only.
vi.mock('uplot', () => ({
  default: class {
    static paths = {};
    static pxRatio = 1;
    readonly over = document.createElement('div');
    width = 0;
    height = 0;
    destroy(): void {}
    setSize(): void {}
    setData(): void {}
  },
}));

const GIB = 1024 ** 3;
const sample = {
  lastInstant: 8,
  stacks: [
    { frames: [{ file: EVIL, line: 7, functionName: EVIL }], where: 0 },
    { frames: [{ file: 'train.py', line: 9, functionName: 'main' }], where: 0 },
  ],
  blocks: [
    { begin: 1, size: GIB, stack: 0 },
    { begin: 3, end: 7, size: 2 * GIB, stack: 1 },
  ],
  reserved: [[0, 0], [1, GIB], [3, 4 * GIB]] as [number, number][],
  stepEnds: [4, 8],
};

function withDevice(model: Model, change: Partial<Device>): Model {
  return { ...model, runs: model.runs.map((run) => ({ ...run, devices: run.devices.map((device) => ({ ...device, ...change })) })) };
}

function show(kind: PanelKind, app: App): Panel {
  expect(kind.missing(app)).toBeNull();
  const panel = kind.make(app);
  document.body.append(panel.element);
  app.store.subscribe((state) => panel.update(state));
  panel.update(app.store.state);
  return panel;
}

const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));
const all = (panel: Panel, query: string): HTMLElement[] => [...panel.element.querySelectorAll<HTMLElement>(query)];
const isHarmless = (panel: Panel): boolean => panel.element.querySelector('img, script') === null && !('harmed' in window);

function type(panel: Panel, text: string): void {
  const input = panel.element.querySelector<HTMLInputElement>('input[type=text]')!;
  input.value = text;
  input.dispatchEvent(new Event('input'));
}

function exported(panel: Panel): SVGSVGElement {
  const parent = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  panel.picture()!.drawSvg(parent);
  return parent;
}

afterEach(() => document.body.replaceChildren());

describe('what-if', () => {
  const line = { instant: Uint32Array.of(0, 2), bytes: Float64Array.of(GIB, 3 * GIB) };
  const replays = [
    { policy: 'vramwise', conf: EVIL, is_complete: true, peak_reserved_bytes: 3 * GIB, peak_live_bytes: 3 * GIB, ratio: 1, retries: 1200, device_ns: 9e6, oom_instant: null, points: 2, line },
    { policy: EVIL, conf: '', is_complete: false, peak_reserved_bytes: 3 * GIB, peak_live_bytes: 3 * GIB, ratio: 1, retries: 0, device_ns: 9e6, oom_instant: 5, points: 2, line },
  ];

  it('says why there are no replays', () => {
    expect(whatIf.missing(sampleApp(sampleModel(sample)))).toContain('not asked for');
  });

  it('lists the policies and keeps texts as texts', () => {
    const panel = show(whatIf, sampleApp(withDevice(sampleModel(sample), { whatIf: replays })));
    const rows = all(panel, 'tbody tr').map((row) => row.textContent);
    expect(rows[0]).toContain('recorded4.00 GiB');
    expect(rows[1]).toContain('3.00 GiB1.00 GiB less1.0001,2009.00 msto the end');
    expect(rows[2]).toContain('out of memory at event 4');
    expect(isHarmless(panel)).toBe(true);
    expect(exported(panel).querySelectorAll('path').length).toBeGreaterThan(5);
  });

  it('compares with a card that is typed', () => {
    const app = sampleApp(withDevice(sampleModel(sample), { whatIf: replays })), panel = show(whatIf, app);
    type(panel, '3.5GiB');
    expect(panel.element.querySelector('.fit')!.textContent).toContain('Below 3.50 GiB stay: vramwise');
    type(panel, 'much');
    expect(panel.element.querySelector('.fit')!.textContent).toBe('');
    expect(panel.element.querySelector('input')!.getAttribute('aria-invalid')).toBe('true');
  });

  it('moves the cursor of all tabs with the keys, and zooms', async () => {
    const app = sampleApp(withDevice(sampleModel(sample), { whatIf: replays }), { cursor: 4 }), panel = show(whatIf, app);
    const plot = panel.element.querySelector('.plot')!;
    const press = (key: string): boolean => plot.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true, bubbles: true }));
    press('ArrowRight');
    await settle();
    expect(app.store.state.cursor).toBe(5);
    press('+');
    await settle();
    expect([app.store.state.from, app.store.state.to]).toEqual([3, 7]);
    press('Escape');
    await settle();
    expect([app.store.state.from, app.store.state.to]).toEqual([0, 8]);
    expect(press('x')).toBe(true);
  });
});

describe('leaks', () => {
  const growth = { step: Uint32Array.of(0, 1, 2), instant: Uint32Array.of(3, 5, 8), stack: Uint32Array.of(0, 1), bytesPerStep: Float64Array.of(GIB, 0), bytes: Float64Array.of(0, GIB, 2 * GIB, 5, 900, 5), reason: null };

  it('say why there is no growth to see, and when nothing grows', () => {
    expect(leaks.missing(sampleApp(sampleModel(sample)))).toContain('no steps were found');
    const none = { ...growth, stack: new Uint32Array(0), bytes: new Float64Array(0) };
    expect(leaks.missing(sampleApp(withDevice(sampleModel(sample), { growth: none })))).toContain('Nothing grows');
    const healthy = { ...growth, bytesPerStep: Float64Array.of(0, 0) };
    expect(show(leaks, sampleApp(withDevice(sampleModel(sample), { growth: healthy }))).element.textContent).toContain('Nothing grows');
  });

  it('say how fast it grows and how long a card lasts', () => {
    const panel = show(leaks, sampleApp(withDevice(sampleModel(sample), { growth })));
    expect(panel.element.querySelector('.said')!.textContent).toContain('One stack grows, by 1.00 GiB a step');
    type(panel, '10G');
    expect(panel.element.querySelector('.said')!.textContent).toContain('10.00 GiB (the card) are full in 7 steps');
    expect(isHarmless(panel)).toBe(true);
  });

  it('highlight the stack that is clicked, and let it go again', async () => {
    const app = sampleApp(withDevice(sampleModel(sample), { growth })), panel = show(leaks, app);
    all(panel, 'tbody .link')[1]!.focus();
    all(panel, 'tbody .link')[1]!.click();
    await settle();
    expect(app.store.state.stack).toBe(1);
    expect(all(panel, 'tr.taken')).toHaveLength(1);
    expect(document.activeElement).toBe(all(panel, 'tbody .link')[1]);
    all(panel, 'tbody .link')[1]!.click();
    await settle();
    expect(app.store.state.stack).toBeNull();
  });

  it('draw the stacks that are chosen', () => {
    const panel = show(leaks, sampleApp(withDevice(sampleModel(sample), { growth })));
    expect(all(panel, '.legend li')).toHaveLength(1);
    all(panel, 'input[type=checkbox]')[1]!.click();
    expect(all(panel, '.legend li')).toHaveLength(2);
  });
});

describe('diff', () => {
  const side = { file: 'a', device: 0, conf: '', events: 8, peak_event: 2, peak_live_bytes: GIB, peak_blocks: 1, peak_reserved_bytes: null };
  const change = { category: 'other', before_bytes: GIB, after_bytes: 3 * GIB, before_blocks: 1, after_blocks: 2 };
  const report: DiffReport = {
    same: false,
    before: side,
    after: { ...side, peak_live_bytes: 3 * GIB },
    categories: [change],
    change_count: 2,
    changes: [
      { ...change, where: 'train.py:9 main', frames: ['train.py:9 main'], before_where: 'train.py:8 main', after_where: 'train.py:9 main', stacks: 1 },
      { ...change, after_bytes: 0, where: EVIL, frames: [`${EVIL}:7 ${EVIL}`], before_where: EVIL, after_where: null, stacks: 1 },
    ],
    renames: [{ kind: 'file', before: 'train.py', after: EVIL }],
    notes: [EVIL],
  };
  const two = { ...sampleModel(sample, { ...sample, lastInstant: 20 }), diff: report };

  it('asks for two recordings', () => {
    expect(diff.missing(sampleApp(sampleModel(sample)))).toContain('vramwise view A B');
  });

  it('says why the peaks were not compared, and shows both runs all the same', () => {
    const panel = show(diff, sampleApp({ ...two, diff: null, diffReason: 'one has no blocks' }));
    expect(panel.element.querySelector('.peaks')!.textContent).toContain('one has no blocks');
    expect(all(panel, '.legend li')).toHaveLength(4);
  });

  it('shows what grew and shrank, and finds it in the run that has it', async () => {
    const app = sampleApp(two), panel = show(diff, app);
    expect(panel.element.querySelector('.peaks')!.textContent).toBe('At the peak 1.00 GiB were live before and 3.00 GiB after: 2.00 GiB more.');
    expect(all(panel, 'tbody tr').map((row) => row.querySelector('.number')!.textContent)).toEqual(['+2.00 GiB', '-1.00 GiB']);
    expect(all(panel, '.note').map((note) => note.textContent)).toContain(`train.py is now ${EVIL}.`);
    expect(isHarmless(panel)).toBe(true);
    all(panel, 'tbody .link')[0]!.click();
    await settle();
    expect(app.store.state).toMatchObject({ run: 1, stack: 1, to: 20 });
    all(panel, 'tbody .link')[1]!.click();
    await settle();
    expect(app.store.state).toMatchObject({ run: 0, stack: 0, to: 8 });
  });

  it('says that nothing differs', () => {
    const panel = show(diff, sampleApp({ ...two, diff: { ...report, same: true, changes: [], change_count: 0, after: side } }));
    expect(panel.element.querySelector('.peaks')!.textContent).toBe('No difference: at their peaks both hold 1.00 GiB, in the same places.');
    expect(panel.element.textContent).toContain('Nothing changed.');
  });

  it('is sorted, searched and turned to categories', async () => {
    const app = sampleApp(two), panel = show(diff, app);
    all(panel, '.sort')[0]!.click();
    expect(all(panel, 'th')[0]!.getAttribute('aria-sort')).toBe('ascending');
    app.store.set({ search: 'train.py' });
    await settle();
    expect(all(panel, 'tbody tr')).toHaveLength(1);
    app.store.set({ search: '' });
    all(panel, 'input[value=category]')[0]!.click();
    expect(all(panel, 'tbody tr')).toHaveLength(1);
    all(panel, 'input[value=shrank]')[0]!.click();
    expect(panel.element.textContent).toContain('Nothing of that kind is found.');
  });

  it('is walked through with the keys, over columns that are one instant', async () => {
    const app = sampleApp(two, { cursor: 0 }), panel = show(diff, app), plot = panel.element.querySelector('.plot')!;
    const press = async (key: string, times: number): Promise<number> => {
      for (let i = 0; i < times; i++) {
        plot.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
        await settle();
      }
      return app.store.state.cursor;
    };
    expect(await press('ArrowRight', 115)).toBe(8);
    expect(await press('ArrowLeft', 115)).toBe(0);
  }, 60_000);

  it('begins with steps where both have them, and is exported with both runs', () => {
    const panel = show(diff, sampleApp(two));
    expect(panel.element.querySelector<HTMLInputElement>('input[value=steps]')!.checked).toBe(true);
    const texts = [...exported(panel).querySelectorAll('text')].map((text) => text.textContent);
    expect(texts).toEqual(expect.arrayContaining(['live before (A)', 'live after (B)', 'reserved before (A)', 'reserved after (B)', 'steps; what came after the last is left out']));
  });
});

describe('findings', () => {
  it('say why there is no verdict', () => {
    expect(show(findings, sampleApp(sampleModel(sample))).element.textContent).toContain('There is no verdict: not asked for.');
  });

  it('show everything as text, and lead to the pictures', () => {
    const remedy = { action: EVIL, saves_bytes: 1024, saves_at_most_bytes: 4096, basis: 'replayed', cost: EVIL, how: EVIL };
    const finding = sampleFinding({ kind: 'fragmentation', title: EVIL, where: ['train.py:9 main'], evidence: [EVIL], parts: [{ name: EVIL, bytes: 5 }], remedies: [remedy] });
    const app = sampleApp(withDoctor(sampleModel(sample), sampleDoctor({ reasoning: [EVIL], findings: [finding] })));
    const panel = show(findings, app);
    expect(isHarmless(panel)).toBe(true);
    expect(panel.element.querySelector('pre')!.textContent).toBe(EVIL);
    expect(panel.element.textContent).toContain('gives back 1.00 KiB to 4.00 KiB');
    all(panel, '.places .link')[0]!.click();
    expect(app.store.state).toMatchObject({ tab: 'segments', stack: 1, cursor: 3 });
  });

  it('copy what is to be typed', async () => {
    const copied: string[] = [];
    Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText: async (text: string) => void copied.push(text) } });
    const remedy = { action: 'a', saves_bytes: null, saves_at_most_bytes: null, basis: 'rule', cost: null, how: 'export A=1' };
    const app = sampleApp(withDoctor(sampleModel(sample), sampleDoctor({ findings: [sampleFinding({ remedies: [remedy] })] })));
    all(show(findings, app), '.how button')[0]!.click();
    await settle();
    expect(copied).toEqual(['export A=1']);
    expect(app.said).toEqual(['copied']);
  });
});
