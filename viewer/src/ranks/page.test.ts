// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';
import { EVIL } from '../testing/doctor';
import { packContainer } from '../testing/container';
import { ranOut, sampleRank, sampleRanks } from '../testing/ranks';
import { readContainer } from '../data/container';
import { mostOf, rankBar } from './bars';
import { makeRanks, showRanks } from './page';

const report = sampleRanks(
  [
    sampleRank(0, { peak_live_bytes: 1024 ** 3 }),
    sampleRank(1, { oom: ranOut(1_000_000), verdict: 'leak', sentence: `Leak: ${EVIL}`, problem: true }),
    sampleRank(2, { out_of_line: ['peak_live_bytes'], peak_live_bytes: 8 * 1024 ** 3, peak_reserved_bytes: 10 * 1024 ** 3, view: null }),
  ],
  {
    folder: EVIL,
    first_oom: { rank: 1, lead_us: null, reason: null },
    unassigned: [sampleRank(null, { recording: EVIL, peak_live_bytes: null, peak_reserved_bytes: null })],
    outliers: [{ rank: 2, measure: 'peak_live_bytes', value: 8 * 1024 ** 3, median: 4 * 1024 ** 3 }],
    sites: [{ rank: 2, where: EVIL, category: 'activations', bytes: 2048, median_bytes: 4096 }],
    settings: [{ key: EVIL, rank: 2, value: EVIL, usual: '' }],
    files: [{ path: EVIL, kind: 'unreadable', reason: EVIL }],
    missing: [3],
    notes: [EVIL],
  },
);

describe('the page of ranks', () => {
  let ranks: ReturnType<typeof makeRanks>;
  const all = (selector: string): HTMLElement[] => [...document.querySelectorAll<HTMLElement>(selector)];
  const numbers = (): string[] => all('table.ranks tbody tr').map((row) => row.querySelector('button')!.textContent!);

  beforeEach(() => {
    ranks = makeRanks(report, () => undefined);
    document.body.replaceChildren(ranks.element);
  });

  it('has a row for each rank and for what has none, and shows the first to fail', () => {
    expect(numbers()).toEqual(['0', '1', '2', '?']);
    expect(all('tr.first button')[0]!.textContent).toBe('1');
    expect(all('.rank-detail')[0]!.textContent).toContain('vramwise view job/run.rank1.pickle');
    expect(all('td.out').map((cell) => cell.textContent)).toEqual(['8.00 GiB *']);
  });

  it('sorts by a column, and by it the other way', () => {
    const live = all('th button')[1]!;
    live.click();
    expect(numbers()).toEqual(['2', '1', '0', '?']);
    expect(all('th[aria-sort=descending]')[0]!.textContent).toContain('live peak');
    all('th button')[1]!.click();
    expect(numbers()).toEqual(['0', '1', '2', '?']);
  });

  it('shows the rank that is picked, and the next by a key', () => {
    all('table.ranks tbody tr')[2]!.click();
    expect(all('.rank-detail')[0]!.textContent).toContain('Rank 2');
    expect(all('.rank-detail .command')).toHaveLength(1);
    ranks.step(-1);
    expect(all('.rank-detail h3')[0]!.textContent).toBe('Rank 1');
    ranks.step(-9);
    expect(all('.rank-detail h3')[0]!.textContent).toBe('Rank 0');
  });

  it('counts the files, and lists those that are set aside', () => {
    const said = (more: Partial<typeof report>): string => {
      document.body.replaceChildren(makeRanks({ ...report, missing: [], notes: [], ...more }, () => undefined).element);
      return all('.files')[0]!.textContent!;
    };
    const read = { path: 'a', kind: 'recording', reason: null } as const;
    expect(all('.files > summary')[0]!.textContent).toBe('1 file, 1 of no known rank or not read');
    expect(said({ files: [read] })).toBe('1 file');
    expect(said({ files: [read, read] })).toBe('2 files');
    expect(all('.files li')).toHaveLength(0);
    expect(said({ files: [read, { ...read, reason: 'no rank' }] })).toBe('2 files, 1 of no known rank or not reada: no rank');
  });

  it('makes no markup of names', () => {
    expect(all('img, script')).toHaveLength(0);
    expect(document.body.textContent!.split(EVIL).length).toBeGreaterThan(6);
  });

  it('has keys and colours', () => {
    const root = document.createElement('div');
    document.body.replaceChildren(root);
    showRanks(root, report);
    const before = all('.actions button')[0]!.textContent;
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 't', bubbles: true }));
    expect(all('.actions button')[0]!.textContent).not.toBe(before);
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
    expect(all('.rank-detail h3')[0]!.textContent).toBe('Rank 2');
    expect(document.title).toBe(`${EVIL} - vramwise`);
  });
});

describe('bars', () => {
  it('are as long as the rank has of the most', () => {
    expect(mostOf(report.ranks)).toBe(10 * 1024 ** 3);
    const [reserved, live] = [...rankBar(report.ranks[2]!, 10 * 1024 ** 3).querySelectorAll('rect')].map((rect) => rect.getAttribute('width'));
    expect([reserved, live]).toEqual(['100.00', '80.00']);
  });
});

it('a container may have ranks in place of runs, but not neither', async () => {
  const bare = { format: 1, vramwise: '0.0.0', runs: [], diff: null };
  expect((await readContainer(await packContainer({ ...bare, ranks: report }, []))).ranks!.ranks).toHaveLength(3);
  await expect(readContainer(await packContainer(bare, []))).rejects.toThrow("lacks 'runs'");
  const spoilt = await packContainer({ ...bare, ranks: report }, [], (header) => delete (header.ranks as Partial<typeof report>).sites);
  await expect(readContainer(spoilt)).rejects.toThrow("lacks 'sites'");
});
