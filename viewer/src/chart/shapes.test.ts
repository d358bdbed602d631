// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { paintSvg, pathData } from './paint';
import { chartShapes, stretches, type Shape } from './shapes';
import { isLevelInside, topOf, type ChartSpec } from './spec';
import { byteTicks, countTicks } from './ticks';

const THEME = { ground: '#fff', text: '#000', muted: '#555', line: '#ddd', danger: '#b00' };
const GIB = 1024 ** 3;

function spec(change: Partial<ChartSpec> = {}): ChartSpec {
  return {
    xs: [0, 1, 2, 3],
    from: 0,
    to: 3,
    isStepped: true,
    series: [{ name: 'native', colour: '#d55e00', width: 2, dash: [7, 4], isFilled: false, values: [GIB, 2 * GIB, null, GIB] }],
    levels: [],
    marks: [],
    cursor: null,
    xTitle: 'instants',
    xTicks: [0, 1, 2, 3],
    xText: String,
    ...change,
  };
}

const linesOf = (shapes: readonly Shape[], colour: string) => shapes.flatMap((shape) => (shape.kind === 'line' && shape.colour === colour ? [shape] : []));
const same = (value: number): number => value;

describe('the corners of a line', () => {
  it('of steps hold their height until the next', () => {
    expect(stretches([0, 1, 2], [5, 7, 6], true, same, same)).toEqual([[0, 5, 1, 5, 1, 7, 2, 7, 2, 6]]);
    expect(stretches([0, 1, 2], [5, 7, 6], false, same, same)).toEqual([[0, 5, 1, 7, 2, 6]]);
  });

  it('are apart where nothing is known, and steps reach to there', () => {
    expect(stretches([0, 1, 2, 3], [5, null, 6, 8], true, same, same)).toEqual([[0, 5, 1, 5], [2, 6, 3, 6, 3, 8]]);
    expect(stretches([0, 1], [null, null], true, same, same)).toEqual([]);
  });

  it('of a flat line are its ends', () => {
    expect(stretches([0, 1, 2, 3, 4], [5, 5, 5, 5, 5], true, same, same)).toEqual([[0, 5, 4, 5]]);
  });
});

describe('a chart', () => {
  it('begins at 0 and leaves room above the highest', () => {
    expect(topOf(spec())).toBeGreaterThan(2 * GIB);
    expect(topOf(spec({ series: [] }))).toBe(1);
  });

  it('shows a limit that is near, or that was asked for', () => {
    const level = { name: 'limit', value: 40 * GIB, colour: '#b00', isWanted: false };
    expect(isLevelInside(spec(), level)).toBe(false);
    expect(isLevelInside(spec(), { ...level, value: 3 * GIB })).toBe(true);
    expect(topOf(spec({ levels: [level] }))).toBeLessThan(3 * GIB);
    expect(topOf(spec({ levels: [{ ...level, isWanted: true }] }))).toBeGreaterThan(40 * GIB);
  });

  it('draws lines with their dashes, inside the picture', () => {
    const lines = linesOf(chartShapes(spec(), THEME, 800, 400), '#d55e00');
    expect(lines).toHaveLength(3); // two stretches and the legend's
    for (const { points, dash } of lines) {
      expect(dash).toEqual([7, 4]);
      points.forEach((value, i) => expect(value >= 0 && value <= (i % 2 === 0 ? 800 : 400)).toBe(true));
    }
    expect(lines[0]!.points[0]).toBe(72);
    expect(lines[0]!.points[3]).toBe(lines[0]!.points[1]);
  });

  it('marks where a line ended, if that is shown', () => {
    const marked = spec({ marks: [{ x: 1, y: GIB, colour: '#b00' }, { x: 9, y: GIB, colour: '#b00' }] });
    expect(linesOf(chartShapes(marked, THEME, 800, 400), '#b00')).toHaveLength(2);
  });

  it('as SVG has paths and texts, and whatever a line is called stays text', () => {
    const name = '</text><script>alert(1)</script><img src=x onerror=alert(1)>';
    const evil = spec({ series: [{ ...spec().series[0]!, name, isFilled: true }] });
    const parent = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    paintSvg(parent, chartShapes(evil, THEME, 800, 400));
    expect(parent.querySelector('script, img')).toBeNull();
    expect([...parent.querySelectorAll('text')].map((text) => text.textContent)).toContain(name);
    expect(parent.querySelectorAll('path[stroke-dasharray="7 4"]').length).toBe(3);
    expect(parent.querySelector('path[fill-opacity]')!.getAttribute('d')).toMatch(/^M72 .*Z$/);
  });
});

describe('a path', () => {
  it('is written to a tenth of a pixel', () => {
    expect(pathData([0, 10.04, 5.26, 10])).toBe('M0 10L5.3 10');
    expect(pathData([0, 1, 2, 3], true)).toBe('M0 1L2 3Z');
    expect(pathData([])).toBe('');
  });
});

describe('an axis', () => {
  it('of bytes has powers of two', () => {
    expect(byteTicks(7.5 * GIB, 4)).toEqual([0, 2, 4, 6].map((value) => value * GIB));
    expect(byteTicks(0, 4)).toEqual([0]);
  });

  it('of counts has round numbers', () => {
    expect(countTicks(0, 11_327, 12)).toEqual(Array.from({ length: 12 }, (_, i) => i * 1000));
    expect(countTicks(120, 180, 4)).toEqual([120, 140, 160, 180]);
    expect(countTicks(0, 3, 10)).toEqual([0, 1, 2, 3]);
    expect(countTicks(5, 5, 10)).toEqual([5]);
  });
});
