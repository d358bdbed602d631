// What axes and lines are drawn with: onto a canvas, or into an SVG, by the same calls.

import { canvasFont } from '../../look/colours';
import { svg } from '../../look/h';

export interface TextStyle {
  readonly colour: string;
  readonly size?: number;
  readonly align?: 'left' | 'center' | 'right';
  readonly weight?: 'normal' | 'bold';
  /** A ground behind it, where it stands on a picture. */
  readonly ground?: string;
}

export interface LineStyle {
  readonly colour: string;
  readonly width?: number;
  readonly dash?: readonly number[];
  readonly alpha?: number;
}

export type Points = readonly (readonly [x: number, y: number])[];

export interface Pen {
  rect(x: number, y: number, width: number, height: number, colour: string, alpha?: number): void;
  frame(x: number, y: number, width: number, height: number, style: LineStyle): void;
  line(points: Points, style: LineStyle): void;
  area(points: Points, fill: string, stroke?: string): void;
  circle(x: number, y: number, radius: number, fill: string, stroke?: string): void;
  /** y is the middle of the text. */
  text(x: number, y: number, text: string, style: TextStyle): void;
  widthOf(text: string, size?: number): number;
}

export const TEXT_SIZE = 11;

/** Shortened in its middle where it is wider than there is room; '' where nothing fits. */
export function shortened(pen: Pick<Pen, 'widthOf'>, text: string, width: number, size = TEXT_SIZE): string {
  if (pen.widthOf(text, size) <= width) return text;
  let kept = Math.floor((text.length * width) / Math.max(1, pen.widthOf(text, size)));
  for (; kept > 1; kept--) {
    const head = Math.ceil(kept / 2);
    const shorter = `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`;
    if (pen.widthOf(shorter, size) <= width) return shorter;
  }
  return '';
}

function trace(context: CanvasRenderingContext2D, points: Points): void {
  context.beginPath();
  points.forEach(([x, y], i) => (i === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
}

export function canvasPen(context: CanvasRenderingContext2D): Pen {
  const stroke = (style: LineStyle): void => {
    context.strokeStyle = style.colour;
    context.lineWidth = style.width ?? 1;
    context.globalAlpha = style.alpha ?? 1;
    context.setLineDash([...(style.dash ?? [])]);
    context.stroke();
    context.globalAlpha = 1;
    context.setLineDash([]);
  };
  const widthOf = (text: string, size = TEXT_SIZE): number => {
    context.font = canvasFont('font', size);
    return context.measureText(text).width;
  };
  return {
    widthOf,
    rect(x, y, width, height, colour, alpha = 1) {
      context.globalAlpha = alpha;
      context.fillStyle = colour;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
    },
    frame(x, y, width, height, style) {
      context.beginPath();
      context.rect(x, y, width, height);
      stroke(style);
    },
    line(points, style) {
      trace(context, points);
      stroke(style);
    },
    area(points, fill, edge) {
      trace(context, points);
      context.closePath();
      context.fillStyle = fill;
      context.fill();
      if (edge !== undefined) stroke({ colour: edge });
    },
    circle(x, y, radius, fill, edge) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fillStyle = fill;
      context.fill();
      if (edge !== undefined) stroke({ colour: edge });
    },
    text(x, y, text, style) {
      const size = style.size ?? TEXT_SIZE, align = style.align ?? 'left';
      if (style.ground !== undefined) {
        const width = widthOf(text, size) + 6;
        const left = align === 'left' ? x - 3 : align === 'right' ? x - width + 3 : x - width / 2;
        context.fillStyle = style.ground;
        context.globalAlpha = 0.85;
        context.fillRect(left, y - size / 2 - 2, width, size + 4);
        context.globalAlpha = 1;
      }
      context.font = canvasFont('font', size, style.weight ?? 'normal');
      context.textAlign = align;
      context.textBaseline = 'middle';
      context.fillStyle = style.colour;
      context.fillText(text, x, y);
    },
  };
}

const round = (value: number): number => Math.round(value * 100) / 100;

export function svgPen(parent: SVGElement): Pen {
  const add = (tag: 'rect' | 'path' | 'circle', attributes: Record<string, string | number | null>): void => {
    parent.appendChild(svg(tag, attributes));
  };
  const path = (points: Points): string =>
    points.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${round(x)} ${round(y)}`).join('');
  const stroked = (style: LineStyle): Record<string, string | number | null> => ({
    fill: 'none',
    stroke: style.colour,
    'stroke-width': style.width ?? 1,
    'stroke-opacity': style.alpha ?? null,
    'stroke-dasharray': style.dash?.join(' ') ?? null,
  });
  const widthOf = (text: string, size = TEXT_SIZE): number => text.length * size * 0.56; // no font to measure in a file
  return {
    widthOf,
    rect(x, y, width, height, colour, alpha) {
      add('rect', { x: round(x), y: round(y), width: round(width), height: round(height), fill: colour, 'fill-opacity': alpha ?? null });
    },
    frame(x, y, width, height, style) {
      add('rect', { x: round(x), y: round(y), width: round(width), height: round(height), ...stroked(style) });
    },
    line(points, style) {
      add('path', { d: path(points), ...stroked(style) });
    },
    area(points, fill, edge) {
      add('path', { d: `${path(points)}Z`, fill, stroke: edge ?? null });
    },
    circle(x, y, radius, fill, edge) {
      add('circle', { cx: round(x), cy: round(y), r: radius, fill, stroke: edge ?? null });
    },
    text(x, y, text, style) {
      const size = style.size ?? TEXT_SIZE, align = style.align ?? 'left';
      if (style.ground !== undefined) {
        const width = widthOf(text, size) + 6;
        const left = align === 'left' ? x - 3 : align === 'right' ? x - width + 3 : x - width / 2;
        add('rect', { x: round(left), y: round(y - size / 2 - 2), width: round(width), height: size + 4, fill: style.ground, 'fill-opacity': 0.85 });
      }
      parent.appendChild(
        svg(
          'text',
          {
            x: round(x),
            y: round(y + size * 0.35),
            fill: style.colour,
            'font-size': size,
            'font-family': 'system-ui, sans-serif',
            'font-weight': style.weight ?? null,
            'text-anchor': align === 'left' ? null : align === 'center' ? 'middle' : 'end',
          },
          text,
        ),
      );
    },
  };
}
