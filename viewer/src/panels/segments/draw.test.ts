// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { NONE } from '../../data/model';
import { parseSearch } from '../../data/search';
import { themeColours } from '../../look/colours';
import { svg } from '../../look/h';
import { DISTINCT } from '../../look/palette';
import { SvgPen } from '../../look/pen';
import { makeScheme } from '../../picture/schemes';
import { sampleRun } from '../../testing/model';
import { drawMap, type MapView } from './draw';
import { layoutAt } from './layout';
import { MEASURES, placeRows } from './rows';

const MIB = 1024 ** 2;
const run = sampleRun({
  lastInstant: 5,
  blocks: [
    { begin: 0, size: 40 * MIB, address: 0, stack: 0 },
    { begin: 0, freed: 1, end: 4, size: 40 * MIB, address: 40 * MIB },
    { begin: 0, size: 512, address: 90 * MIB },
  ],
  pieces: [
    { address: 0, size: 100 * MIB, segment: 1, isExpandable: true },
    { address: 400 * MIB, size: 100 * MIB, segment: 1, isExpandable: true },
    { address: 900 * MIB, size: 20 * MIB, segment: 2, pool: 0xffff },
  ],
  stacks: [{ frames: [{ functionName: 'step', file: 'train.py', line: 7 }] }],
});
const device = run.devices[0]!, layout = layoutAt(device, 2);

function drawn(change: Partial<MapView>, top = 0, height = 4000): SVGSVGElement {
  const parent = svg('svg'), rows = placeRows(layout, { ...MEASURES, width: 1000, bytesPerRow: 256 * MIB });
  const scheme = makeScheme('stack', run, device);
  const view: MapView = { device, stacks: run.stacks, layout, rows, scheme, search: null, stack: null, pinned: null, chosen: null, hovered: null, ...change };
  drawMap(new SvgPen(parent), themeColours(), view, top, height);
  return parent;
}

const texts = (parent: SVGSVGElement): string => [...parent.querySelectorAll('text')].map((one) => one.textContent).join('\n');

describe('a drawn address map', () => {
  it('names pools and streams with their sums, blocks and idle ranges', () => {
    const words = texts(drawn({}));
    expect(words).toContain('default pool, stream 0x0');
    expect(words).toContain('pool not known, stream 0x0');
    expect(words).toContain('200 MiB reserved in 1 segment, 80.0 MiB live (40.0 MiB waiting), 120 MiB idle (largest 100 MiB)');
    expect(words).toContain('40.0 MiB  train.py:7');
    expect(words).toContain('40.0 MiB waits');
    expect(words).toContain('100 MiB idle');
  });

  it('has patterns for what is idle and what waits', () => {
    expect(drawn({}).querySelectorAll('pattern')).toHaveLength(2);
    expect(drawn({}).querySelector('polyline')!.getAttribute('stroke-dasharray')).toBe('2 3');
  });

  it('draws the smallest block', () => {
    const slim = [...drawn({}).querySelectorAll('rect')].filter((rect) => rect.getAttribute('width') === '1' && rect.getAttribute('fill') === '#8a8f98');
    expect(slim).toHaveLength(1);
  });

  it('marks the stack, the pinned block and the range that was chosen', () => {
    const frames = (change: Partial<MapView>): number => drawn(change).querySelectorAll('rect[fill=none]').length;
    expect(frames({})).toBe(0);
    expect(frames({ stack: 0 })).toBe(1);
    expect(frames({ pinned: 0 })).toBe(1);
    expect(frames({ chosen: 2, hovered: 0 })).toBe(2);
  });

  it('pales what is not searched for', () => {
    const fills = (change: Partial<MapView>): (string | null)[] => [...drawn(change).querySelectorAll('rect')].map((rect) => rect.getAttribute('fill'));
    const own = DISTINCT[0]!;
    expect(fills({})).toContain(own);
    expect(fills({ search: parseSearch('step') })).toContain(own);
    expect(fills({ search: parseSearch('>50MiB') })).not.toContain(own);
    expect(fills({ stack: NONE })).not.toContain(own);
  });

  it('leaves out what cannot be seen', () => {
    expect(texts(drawn({}, 3000, 100))).toBe('');
  });
});
