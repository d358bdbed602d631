import { describe, expect, it } from 'vitest';
import { inkOn, luminance, mixed } from './ink';
import { DISTINCT, NEUTRAL } from './palette';

describe('text on a colour', () => {
  it('has a contrast of 4.5 on every colour of the palette', () => {
    for (const colour of [...DISTINCT, NEUTRAL]) {
      const [dark, light] = [luminance(colour), luminance(inkOn(colour))].sort((a, b) => a - b);
      expect((light! + 0.05) / (dark! + 0.05)).toBeGreaterThanOrEqual(4.5);
    }
  });

  it('is black on white and white on black', () => {
    expect([inkOn('#ffffff'), inkOn('#000000')]).toEqual(['#000000', '#ffffff']);
  });
});

describe('a mixed colour', () => {
  it('is between the two', () => {
    expect(mixed('#000000', '#ff8040', 0)).toBe('#000000');
    expect(mixed('#000000', '#ff8040', 1)).toBe('#ff8040');
    expect(mixed('#000000', '#ff8040', 0.5)).toBe('#804020');
  });
});
