// One way to draw for the screen, for PNG and for SVG: what draws with a pen is drawn the same in all.

import { canvasFont } from './colours';
import { svg } from './h';

export type Hatch = 'rising' | 'falling' | 'dots';

export interface TextStyle {
  readonly colour: string;
  readonly size?: number; // CSS pixels
  readonly family?: 'font' | 'mono';
  readonly weight?: 'normal' | 'bold';
  readonly align?: 'left' | 'right' | 'center';
  /** No longer than this: cut, with an ellipsis. */
  readonly room?: number;
}

export interface Pen {
  rect(x: number, y: number, width: number, height: number, fill: string, opacity?: number): void;
  /** Lines or dots over what is there. */
  hatch(x: number, y: number, width: number, height: number, hatch: Hatch, colour: string): void;
  /** Inside of the rectangle. */
  frame(x: number, y: number, width: number, height: number, colour: string, thickness?: number): void;
  /** [x, y, x, y, ...] */
  line(points: readonly number[], colour: string, width?: number, dash?: readonly number[]): void;
  area(points: readonly number[], fill: string, opacity?: number): void;
  /** `y` is the middle of the line. */
  text(x: number, y: number, text: string, style: TextStyle): void;
}

/** Of a letter of the mono family, in its size. Other families are narrower on average. */
const LETTER = { mono: 0.605, font: 0.56 };
const NARROWEST = 0.4;

/** A text cut to some pixels by the width of its letters; empty where not even two would fit. */
export function fitted(text: string, room: number, size: number, family: 'font' | 'mono'): string {
  const letters = Math.floor(room / (size * LETTER[family]));
  if (text.length <= letters) return text;
  return letters < 3 ? '' : `${text.slice(0, letters - 1)}\u2026`;
}

const TILE = 6;

function tile(ratio: number, hatch: Hatch, colour: string): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = Math.round(TILE * ratio);
  const context = canvas.getContext('2d')!;
  context.scale(canvas.width / TILE, canvas.height / TILE);
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1;
  if (hatch === 'dots') {
    context.fillRect(1, 1, 1.5, 1.5);
    context.fillRect(4, 4, 1.5, 1.5);
    return canvas;
  }
  context.beginPath();
  // Thrice, so that the corners of the tile meet those of its neighbours.
  for (const move of [-TILE, 0, TILE]) {
    context.moveTo(move - 1, hatch === 'rising' ? TILE + 1 : -1);
    context.lineTo(move + TILE + 1, hatch === 'rising' ? -1 : TILE + 1);
  }
  context.stroke();
  return canvas;
}

export class CanvasPen implements Pen {
  private readonly patterns = new Map<string, CanvasPattern | null>();

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly ratio = 2,
  ) {}

  rect(x: number, y: number, width: number, height: number, fill: string, opacity = 1): void {
    this.context.globalAlpha = opacity;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
    this.context.globalAlpha = 1;
  }

  hatch(x: number, y: number, width: number, height: number, hatch: Hatch, colour: string): void {
    const key = `${hatch} ${colour}`;
    if (!this.patterns.has(key)) {
      const made = this.context.createPattern(tile(this.ratio, hatch, colour), 'repeat');
      made?.setTransform(new DOMMatrix().scale(1 / this.ratio));
      this.patterns.set(key, made);
    }
    const pattern = this.patterns.get(key);
    if (pattern === null || pattern === undefined) return;
    this.context.fillStyle = pattern;
    this.context.fillRect(x, y, width, height);
  }

  frame(x: number, y: number, width: number, height: number, colour: string, thickness = 1): void {
    this.context.strokeStyle = colour;
    this.context.lineWidth = thickness;
    this.context.strokeRect(x + thickness / 2, y + thickness / 2, Math.max(0, width - thickness), Math.max(0, height - thickness));
  }

  private trace(points: readonly number[]): void {
    this.context.beginPath();
    for (let i = 0; i + 1 < points.length; i += 2) this.context.lineTo(points[i]!, points[i + 1]!);
  }

  line(points: readonly number[], colour: string, width = 1, dash: readonly number[] = []): void {
    this.trace(points);
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.setLineDash([...dash]);
    this.context.stroke();
    this.context.setLineDash([]);
  }

  area(points: readonly number[], fill: string, opacity = 1): void {
    this.trace(points);
    this.context.closePath();
    this.context.globalAlpha = opacity;
    this.context.fillStyle = fill;
    this.context.fill();
    this.context.globalAlpha = 1;
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const { colour, size = 12, family = 'font', weight = 'normal', align = 'left', room = Infinity } = style;
    this.context.font = canvasFont(family, size, weight);
    let cut = fitted(text, room, size, family);
    // It may fit after all. Measuring takes time: only where it is likely.
    if (cut !== text && text.length * size * NARROWEST < room && this.context.measureText(text).width <= room) cut = text;
    if (cut === '') return;
    this.context.textAlign = align;
    this.context.textBaseline = 'middle';
    this.context.fillStyle = colour;
    this.context.fillText(cut, x, y);
  }
}

let drawings = 0;

export class SvgPen implements Pen {
  private readonly defs = svg('defs');
  private readonly patterns = new Map<string, string>();
  private readonly drawing = ++drawings;

  constructor(private readonly parent: SVGElement) {
    parent.appendChild(this.defs);
  }

  rect(x: number, y: number, width: number, height: number, fill: string, opacity = 1): void {
    this.parent.appendChild(svg('rect', { ...box(x, y, width, height), fill, opacity: opacity === 1 ? null : opacity }));
  }

  private pattern(hatch: Hatch, colour: string): string {
    const key = `${hatch} ${colour}`;
    let id = this.patterns.get(key);
    if (id === undefined) {
      id = `hatch-${this.drawing}-${this.patterns.size}`;
      this.patterns.set(key, id);
      const stroke =
        hatch === 'dots'
          ? svg('path', { d: 'M1 1h1.5v1.5h-1.5zM4 4h1.5v1.5h-1.5z', fill: colour })
          : svg('path', { d: hatch === 'rising' ? 'M-1 1L1 -1M0 6L6 0M5 7L7 5' : 'M-1 5L1 7M0 0L6 6M5 -1L7 1', stroke: colour });
      this.defs.appendChild(svg('pattern', { id, width: TILE, height: TILE, patternUnits: 'userSpaceOnUse' }, stroke));
    }
    return `url(#${id})`;
  }

  hatch(x: number, y: number, width: number, height: number, hatch: Hatch, colour: string): void {
    this.rect(x, y, width, height, this.pattern(hatch, colour));
  }

  frame(x: number, y: number, width: number, height: number, colour: string, thickness = 1): void {
    const half = thickness / 2;
    const inside = box(x + half, y + half, Math.max(0, width - thickness), Math.max(0, height - thickness));
    this.parent.appendChild(svg('rect', { ...inside, fill: 'none', stroke: colour, 'stroke-width': thickness }));
  }

  line(points: readonly number[], colour: string, width = 1, dash: readonly number[] = []): void {
    const attributes = { fill: 'none', stroke: colour, 'stroke-width': width, 'stroke-dasharray': dash.length > 0 ? dash.join(' ') : null };
    this.parent.appendChild(svg('polyline', { points: points.map(short).join(' '), ...attributes }));
  }

  area(points: readonly number[], fill: string, opacity = 1): void {
    this.parent.appendChild(svg('polygon', { points: points.map(short).join(' '), fill, opacity: opacity === 1 ? null : opacity }));
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const { colour, size = 12, family = 'font', weight = 'normal', align = 'left', room = Infinity } = style;
    const cut = fitted(text, weight === 'bold' ? room * 0.88 : room, size, family);
    if (cut === '') return;
    const anchor = { left: null, right: 'end', center: 'middle' }[align];
    const font = { 'font-family': family === 'mono' ? 'monospace' : 'system-ui, sans-serif', 'font-size': size, 'font-weight': weight === 'bold' ? 'bold' : null };
    // Not every program that opens SVG files knows dominant-baseline.
    this.parent.appendChild(svg('text', { x: short(x), y: short(y + size * 0.35), fill: colour, 'text-anchor': anchor, ...font }, cut));
  }
}

function short(value: number): number {
  return Math.round(value * 100) / 100;
}

function box(x: number, y: number, width: number, height: number): Record<string, number> {
  return { x: short(x), y: short(y), width: short(width), height: short(height) };
}
