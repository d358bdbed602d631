// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from 'vitest';
import { makeSurface } from './canvas';
import { canvasFont, themeColours } from './colours';
import { makeMenu } from './menu';
import { makePicker } from './picker';
import { makeSegmented } from './segmented';

afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

const press = (target: Element, key: string): boolean => target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));

describe('segmented choices', () => {
  it('tell what was picked, and not what was set', () => {
    const picked = vi.fn();
    const choice = makeSegmented('Colours', [{ value: 'a', title: '<b>A</b>' }, { value: 'b', title: 'B' }], picked);
    document.body.append(choice.element);
    const [a, b] = [...choice.element.querySelectorAll('input')];
    choice.set('b');
    expect([a!.checked, b!.checked]).toEqual([false, true]);
    expect(picked).not.toHaveBeenCalled();
    a!.click();
    expect(picked).toHaveBeenCalledWith('a');
    expect(choice.element.querySelector('b')).toBeNull();
  });

  it('of two groups do not disturb each other', () => {
    const make = (): HTMLElement => makeSegmented('x', [{ value: 'a', title: 'A' }], () => undefined).element;
    const names = [make(), make()].map((element) => element.querySelector('input')!.name);
    expect(names[0]).not.toBe(names[1]);
  });
});

describe('a picker', () => {
  it('tells what was picked and takes other choices', () => {
    const picked = vi.fn();
    const picker = makePicker<string>('Device', [{ value: '0', title: 'GPU 0' }], picked);
    picker.setChoices([{ value: '0', title: 'GPU 0' }, { value: '1', title: '<i>' }]);
    const select = picker.element.querySelector('select')!;
    picker.set('1');
    expect(select.value).toBe('1');
    expect(select.selectedOptions[0]!.textContent).toBe('<i>');
    select.value = '0';
    select.dispatchEvent(new Event('change'));
    expect(picked).toHaveBeenCalledWith('0');
  });
});

describe('a menu', () => {
  it('opens, moves with the arrows, does what was chosen and closes', () => {
    const first = vi.fn(), second = vi.fn();
    const menu = makeMenu('Save', [{ title: 'PNG', key: 'e', run: first }, { title: 'SVG', run: second }]);
    document.body.append(menu.element);
    const button = menu.element.querySelector('button')!, list = menu.element.querySelector('[role=menu]') as HTMLElement;
    const items = [...list.querySelectorAll('button')];
    button.click();
    expect(list.hidden).toBe(false);
    expect(button.getAttribute('aria-expanded')).toBe('true');
    expect(document.activeElement).toBe(items[0]);
    press(items[0]!, 'ArrowDown');
    expect(document.activeElement).toBe(items[1]);
    press(items[1]!, 'ArrowDown');
    expect(document.activeElement).toBe(items[0]);
    press(items[0]!, 'End');
    items[1]!.click();
    expect(second).toHaveBeenCalledOnce();
    expect(first).not.toHaveBeenCalled();
    expect(list.hidden).toBe(true);
    expect(document.activeElement).toBe(button);
  });

  it('closes with Escape, which then means nothing else, and with a press beside it', () => {
    const menu = makeMenu('Save', [{ title: 'PNG', run: () => undefined }]);
    document.body.append(menu.element);
    const button = menu.element.querySelector('button')!, list = menu.element.querySelector('[role=menu]') as HTMLElement;
    const outside = vi.fn();
    document.addEventListener('keydown', outside);
    button.click();
    press(list, 'Escape');
    expect(list.hidden).toBe(true);
    expect(outside).not.toHaveBeenCalled();
    button.click();
    document.body.dispatchEvent(new Event('pointerdown', { bubbles: true }));
    expect(list.hidden).toBe(true);
    document.removeEventListener('keydown', outside);
  });
});

describe('a surface', () => {
  it('has the pixels of the screen, and one unit is a CSS pixel', () => {
    const set = vi.fn(), resized = vi.fn();
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue({ setTransform: set } as never);
    const surface = makeSurface(resized, 'Timeline');
    let width = 300;
    Object.defineProperty(surface.element, 'clientWidth', { get: () => width });
    Object.defineProperty(surface.element, 'clientHeight', { get: () => 200 });
    vi.stubGlobal('devicePixelRatio', 1.5);
    expect(surface.measure()).toBe(true);
    expect(surface.measure()).toBe(false);
    expect([surface.width, surface.height, surface.ratio]).toEqual([300, 200, 1.5]);
    expect([surface.canvas.width, surface.canvas.height]).toEqual([450, 300]);
    expect(set).toHaveBeenLastCalledWith(1.5, 0, 0, 1.5, 0, 0);
    expect(surface.canvas.getAttribute('aria-label')).toBe('Timeline');
    width = 310;
    window.dispatchEvent(new Event('resize'));
    expect(resized).toHaveBeenCalledOnce();
    width = 0; // its tab is hidden
    window.dispatchEvent(new Event('resize'));
    expect(resized).toHaveBeenCalledOnce();
    surface.end();
    width = 320;
    window.dispatchEvent(new Event('resize'));
    expect(resized).toHaveBeenCalledOnce();
    vi.unstubAllGlobals();
  });
});

describe('colours of the theme', () => {
  it('are read anew when the theme changes', () => {
    const root = document.documentElement;
    root.dataset['theme'] = 'light';
    root.style.setProperty('--text', '#111111');
    expect(themeColours().text).toBe('#111111');
    root.style.setProperty('--text', '#eeeeee');
    root.dataset['theme'] = 'dark';
    expect(themeColours().text).toBe('#eeeeee');
    expect(canvasFont('mono', 12, 'bold')).toMatch(/^bold 12px .*monospace$/);
  });
});
