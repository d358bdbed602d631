// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';
import type { Panel } from '../../app/panel';
import { svgText } from '../../app/export';
import { sampleApp, sampleModel, type Sample } from '../../testing/model';
import { table } from './kind';

const EVIL = '<img src=x onerror="alert(1)">';

const sample: Sample = {
  lastInstant: 4,
  blocks: [
    { begin: 0, size: 4096, stack: 0 },
    { begin: 1, size: 1024, stack: 1 },
    { begin: 1, size: 1024, stack: 1 },
    { begin: 1, end: 3, size: 8192, stack: 2 },
  ],
  stacks: [
    { category: 'weights', frames: [{ functionName: 'build', file: '/me/model.py', line: 3 }] },
    { category: 'activations', frames: [{ functionName: EVIL, file: '/me/a.py', line: 9 }] },
    { category: 'backward', frames: [{ functionName: 'run', file: '/me/z.py', line: 1 }] },
  ],
};

describe('the table', () => {
  let app: ReturnType<typeof sampleApp>, panel: Panel;
  const all = (selector: string): HTMLElement[] => [...panel.element.querySelectorAll<HTMLElement>(selector)];
  const wheres = (): string[] => all('.table-row').map((row) => row.querySelectorAll('[role=cell]')[6]!.textContent!);
  const update = async (): Promise<void> => {
    await Promise.resolve();
    panel.update(app.store.state);
  };

  beforeEach(() => {
    app = sampleApp(sampleModel(sample), { tab: 'table', cursor: 4 });
    expect(table.missing(app)).toBeNull();
    panel = table.make(app);
    document.body.replaceChildren(panel.element);
    panel.update(app.store.state);
  });

  it('shows who holds the peak, most first, with its total', () => {
    expect(wheres()).toEqual(['z.py:1 run', 'model.py:3 build', `a.py:9 ${EVIL}`]);
    expect(panel.element.textContent).toContain('14.0 KiB in 4 blocks live at event 0');
    expect(all('[role=columnheader]')[1]!.getAttribute('aria-sort')).toBe('descending');
  });

  it('makes no markup of what a recording says', () => {
    expect(all('img')).toHaveLength(0);
    all('.twist')[2]!.click();
    expect(all('img')).toHaveLength(0);
    expect(panel.element.textContent).toContain(EVIL);
    const text = svgText(panel.picture()!);
    expect(text).not.toContain('<img');
    expect(text).toContain('&lt;img');
  });

  it('sorts by a column, and by it the other way', () => {
    const where = all('[role=columnheader] button')[5]!;
    where.click();
    expect(wheres().map((text) => text[0])).toEqual(['a', 'm', 'z']);
    where.click();
    expect(wheres().map((text) => text[0])).toEqual(['z', 'm', 'a']);
    expect(all('[role=columnheader]')[6]!.getAttribute('aria-sort')).toBe('descending');
  });

  it('goes to the cursor and to the whole run', () => {
    panel.element.querySelector<HTMLInputElement>('input[value=cursor]')!.click();
    expect(wheres()).toHaveLength(2);
    expect(panel.element.textContent).toContain('6.00 KiB in 3 blocks live at event 3');
    panel.element.querySelector<HTMLInputElement>('input[value=run]')!.click();
    expect(panel.element.textContent).toContain('14.0 KiB in 4 blocks allocated');
  });

  it('sets and clears the highlighted stack', async () => {
    all('.table-row [role=row]')[1]!.click();
    await update();
    expect(app.store.state.stack).toBe(0);
    expect(all('[aria-selected=true]')).toHaveLength(1);
    all('.table-row [role=row]')[1]!.click();
    await update();
    expect(app.store.state.stack).toBeNull();
  });

  it('is walked with the keys', async () => {
    const press = (key: string): boolean =>
      document.activeElement!.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    all('.table-row [role=row]')[0]!.focus();
    press('ArrowDown');
    expect(document.activeElement!.getAttribute('aria-rowindex')).toBe('3');
    press('ArrowRight');
    expect(all('.detail')).toHaveLength(1);
    expect(document.activeElement!.getAttribute('aria-rowindex')).toBe('3');
    press('ArrowLeft');
    expect(all('.detail')).toHaveLength(0);
    press('End');
    press('Enter');
    await update();
    expect(app.store.state.stack).toBe(1);
  });

  it('shows what is searched for, and says when that is nothing', async () => {
    app.store.set({ search: '<2k' });
    await update();
    expect(wheres()).toEqual([`a.py:9 ${EVIL}`]);
    expect(panel.element.textContent).toContain('2.00 KiB in 2 blocks found, of 14.0 KiB in 4 blocks');
    app.store.set({ search: 'nowhere' });
    await update();
    expect(panel.element.textContent).toContain('No block of this moment is what you search for.');
    expect(panel.picture()).toBeNull();
  });

  it('has a reason where there is no block', () => {
    expect(table.missing(sampleApp(sampleModel({ lastInstant: 1, blocks: [] })))).toContain('no block');
  });
});
