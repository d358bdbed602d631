// A canvas that fills its box and is as sharp as the screen: one unit of the context is a CSS pixel.

import { h } from './h';

export interface Surface {
  /** Give it a size by style; the canvas follows. */
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  readonly width: number; // CSS pixels, whole
  readonly height: number;
  readonly ratio: number; // device pixels in one
  /** Takes the box's size; true: it changed, and what was drawn is gone. */
  measure(): boolean;
  /** Stops watching. */
  end(): void;
}

/** `resized` is called when there is something to draw again: another size, or another screen. */
export function makeSurface(resized: () => void, label?: string): Surface {
  const canvas = h('canvas', { role: label === undefined ? null : 'img', 'aria-label': label });
  const element = h('div', { class: 'surface' }, canvas);
  const context = canvas.getContext('2d');
  if (context === null) throw new Error('this browser gives no canvas to draw on');
  let width = 0, height = 0, ratio = 0;

  const measure = (): boolean => {
    const nowWidth = Math.max(1, Math.floor(element.clientWidth)), nowHeight = Math.max(1, Math.floor(element.clientHeight));
    const nowRatio = window.devicePixelRatio || 1;
    if (nowWidth === width && nowHeight === height && nowRatio === ratio) return false;
    [width, height, ratio] = [nowWidth, nowHeight, nowRatio];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return true;
  };
  const look = (): void => {
    if (element.clientWidth > 0 && measure()) resized(); // hidden: nothing to draw
  };
  const observer = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(look);
  observer?.observe(element);
  window.addEventListener('resize', look); // the ratio changes with zoom, without a change of the box
  measure();

  return {
    element,
    canvas,
    context,
    get width() {
      return width;
    },
    get height() {
      return height;
    },
    get ratio() {
      return ratio;
    },
    measure,
    end() {
      observer?.disconnect();
      window.removeEventListener('resize', look);
    },
  };
}
