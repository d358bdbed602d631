// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { svg } from './h';
import { fitted, SvgPen } from './pen';

describe('a text that is cut', () => {
  it('is whole where there is room, and ends in an ellipsis where not', () => {
    expect(fitted('train.py', 100, 10, 'mono')).toBe('train.py');
    expect(fitted('train.py:152 main', 50, 10, 'mono')).toBe('train.p\u2026');
    expect(fitted('train.py', Infinity, 10, 'mono')).toBe('train.py');
  });

  it('is nothing where it would say nothing', () => {
    expect(fitted('train.py', 12, 10, 'mono')).toBe('');
    expect(fitted('train.py', -5, 10, 'mono')).toBe('');
  });
});

describe('a pen for SVG', () => {
  it('makes one pattern for each hatching and colour', () => {
    const parent = svg('svg'), pen = new SvgPen(parent);
    pen.hatch(0, 0, 5, 5, 'rising', '#123456');
    pen.hatch(9, 0, 5, 5, 'rising', '#123456');
    pen.hatch(0, 0, 5, 5, 'dots', '#123456');
    const ids = [...parent.querySelectorAll('pattern')].map((pattern) => pattern.id);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(2);
    expect(parent.querySelectorAll('rect')[1]!.getAttribute('fill')).toBe(`url(#${ids[0]})`);
  });

  it('has other names for its patterns than another drawing in the same page', () => {
    const parent = svg('svg');
    for (let i = 0; i < 2; i++) new SvgPen(parent).hatch(0, 0, 5, 5, 'falling', '#123456');
    expect(new Set([...parent.querySelectorAll('pattern')].map((pattern) => pattern.id)).size).toBe(2);
  });

  it('keeps a frame inside of its rectangle', () => {
    const parent = svg('svg');
    new SvgPen(parent).frame(10, 10, 20, 6, '#123456', 2);
    const rect = parent.querySelector('rect')!;
    expect(['x', 'y', 'width', 'height'].map((name) => rect.getAttribute(name))).toEqual(['11', '11', '18', '4']);
  });
});
