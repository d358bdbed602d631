// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { EVIL, sampleDoctor, sampleFinding, withDoctor } from '../testing/doctor';
import { sampleApp, sampleModel } from '../testing/model';
import { chipOf, keyNumbers, makeVerdictStrip } from './verdict';

const sample = {
  lastInstant: 4,
  stacks: [{ frames: [{ file: '/me/train.py', line: 7, functionName: 'main' }], where: 0 }],
  blocks: [{ begin: 1, end: 3, size: 4096, stack: 0 }],
  reserved: [[0, 0], [1, 8192]] as [number, number][],
};
const click = (button: Element | null): void => (button as HTMLElement).click();

describe('the words of the strip', () => {
  it('of a chip are the kind, the bytes and the line', () => {
    expect(chipOf(sampleFinding({ where: ['/me/train.py:152 main'] }), 'leak')).toEqual({ name: 'peak', rest: '2.00 KiB, train.py:152' });
    expect(chipOf(sampleFinding({ where: ['/me/train.py:152 main'] }), 'leak', true).name).toBe('live at the failure');
    expect(chipOf(sampleFinding({ kind: 'leak' }), 'leak', true).name).toBe('leak');
    expect(chipOf(sampleFinding({ kind: 'leak' }), 'genuine', true).name).toBe('growth');
    expect(chipOf(sampleFinding({ bytes: null }), 'leak')).toEqual({ name: 'peak', rest: '' });
  });

  it('of a warning are what it warns of, not the bytes of what did not happen', () => {
    const title = 'max_split_size_mb:128, which many pages recommend, would make this run reserve 65.78 GiB instead of 16.51 GiB.';
    expect(chipOf(sampleFinding({ kind: 'warning', title }), 'leak')).toEqual({ name: 'warning', rest: 'max_split_size_mb:128' });
  });

  it('are the numbers of stats, where there are any', () => {
    const run = sampleModel(sample).runs[0]!;
    expect(keyNumbers(run, run.devices[0]!)).toEqual([['peak live', '4.00 KiB'], ['peak reserved', '8.00 KiB'], ['ratio', '2.00'], ['events', '4']]);
  });
});

describe('the strip', () => {
  it('shows the verdict, and a finding leads to its place', async () => {
    const finding = sampleFinding({ where: ['train.py:7 main'] });
    const app = sampleApp(withDoctor(sampleModel(sample), sampleDoctor({ findings: [finding] })));
    const strip = makeVerdictStrip(app);
    strip.update(app.store.state);
    expect(strip.element.textContent).toContain('Leak: it grows.');
    expect(strip.element.textContent).toContain('confidence: high');
    click(strip.element.querySelector('.chip'));
    expect(app.store.state).toMatchObject({ tab: 'table', stack: 0, cursor: 1 });
  });

  it('folds', () => {
    const app = sampleApp(withDoctor(sampleModel(sample), sampleDoctor({ findings: [sampleFinding()] })));
    const strip = makeVerdictStrip(app);
    strip.update(app.store.state);
    click(strip.element.querySelector('.fold'));
    expect(strip.element.querySelector('.chip')).toBeNull();
    expect(strip.element.querySelector('.fold')!.getAttribute('aria-expanded')).toBe('false');
    click(strip.element.querySelector('.fold'));
    expect(strip.element.querySelector('.chip')).not.toBeNull();
  });

  it('says why there is no verdict', () => {
    const app = sampleApp(sampleModel(sample)), strip = makeVerdictStrip(app);
    strip.update(app.store.state);
    expect(strip.element.textContent).toContain('not asked for');
  });

  it('has both verdicts of two runs, and changes over', () => {
    const app = sampleApp(withDoctor(sampleModel(sample, { ...sample, lastInstant: 9 }), sampleDoctor()));
    const strip = makeVerdictStrip(app);
    strip.update(app.store.state);
    expect(strip.element.querySelectorAll('.word')).toHaveLength(2);
    click(strip.element.querySelector('.other'));
    expect(app.store.state).toMatchObject({ run: 1, to: 9 });
  });

  it('keeps hostile texts as text', () => {
    const findings = [sampleFinding({ kind: EVIL, title: EVIL, where: [EVIL] })];
    const app = sampleApp(withDoctor(sampleModel(sample), sampleDoctor({ verdict: EVIL, sentence: EVIL, confidence: EVIL, findings })));
    const strip = makeVerdictStrip(app);
    document.body.append(strip.element);
    strip.update(app.store.state);
    expect(strip.element.querySelector('img, script')).toBeNull();
    expect(strip.element.querySelector('.sentence')!.textContent).toBe(EVIL);
    expect('harmed' in window).toBe(false);
  });
});
