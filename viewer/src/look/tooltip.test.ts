// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { makeTooltip, placeTooltip } from './tooltip';

describe('the tooltip', () => {
  const room = { width: 1000, height: 600 }, box = { width: 200, height: 100 };

  it('stands right below the pointer', () => {
    expect(placeTooltip(100, 100, box, room)).toEqual({ left: 114, top: 114 });
  });

  it('goes to the other side at the edges', () => {
    expect(placeTooltip(950, 580, box, room)).toEqual({ left: 736, top: 466 });
  });

  it('never leaves the window, not even one that is too small for it', () => {
    expect(placeTooltip(50, 50, { width: 90, height: 90 }, { width: 100, height: 100 })).toEqual({ left: 6, top: 6 });
    expect(placeTooltip(50, 50, { width: 900, height: 900 }, { width: 100, height: 100 })).toEqual({ left: 6, top: 6 });
  });

  it('shows texts as texts and hides', () => {
    const tooltip = makeTooltip();
    tooltip.show(1, 2, '<b>file</b>.py');
    expect(tooltip.element.hidden).toBe(false);
    expect(tooltip.element.childElementCount).toBe(0);
    expect(tooltip.element.textContent).toBe('<b>file</b>.py');
    tooltip.hide();
    expect(tooltip.element.hidden).toBe(true);
  });
});
