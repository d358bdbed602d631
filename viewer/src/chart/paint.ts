// Shapes into a canvas, or below an <svg>.

import { FONT_PX, type Shape } from './shapes';

const FONT = `${FONT_PX}px system-ui, sans-serif`;
const SVG = 'http://www.w3.org/2000/svg';

const short = (value: number): string => String(Math.round(value * 10) / 10);

/** "M0 10L5 10L5 20", to a tenth of a pixel. */
export function pathData(points: readonly number[], isClosed = false): string {
  let out = '';
  for (let i = 0; i + 1 < points.length; i += 2) out += `${i === 0 ? 'M' : 'L'}${short(points[i]!)} ${short(points[i + 1]!)}`;
  return isClosed && out !== '' ? `${out}Z` : out;
}

function trace(canvas: CanvasRenderingContext2D, points: readonly number[]): void {
  canvas.beginPath();
  for (let i = 0; i + 1 < points.length; i += 2) {
    if (i === 0) canvas.moveTo(points[i]!, points[i + 1]!);
    else canvas.lineTo(points[i]!, points[i + 1]!);
  }
}

export function paintCanvas(canvas: CanvasRenderingContext2D, shapes: readonly Shape[]): void {
  canvas.save();
  canvas.font = FONT;
  canvas.textBaseline = 'alphabetic';
  canvas.lineJoin = 'round';
  for (const shape of shapes) {
    switch (shape.kind) {
      case 'rect':
        canvas.fillStyle = shape.colour;
        canvas.fillRect(shape.x, shape.y, shape.width, shape.height);
        break;
      case 'area':
        trace(canvas, shape.points);
        canvas.globalAlpha = shape.opacity;
        canvas.fillStyle = shape.colour;
        canvas.fill();
        canvas.globalAlpha = 1;
        break;
      case 'line':
        trace(canvas, shape.points);
        canvas.setLineDash([...shape.dash]);
        canvas.lineWidth = shape.width;
        canvas.strokeStyle = shape.colour;
        canvas.stroke();
        break;
      case 'text':
        canvas.textAlign = shape.anchor === 'middle' ? 'center' : shape.anchor;
        canvas.fillStyle = shape.colour;
        canvas.fillText(shape.text, shape.x, shape.y);
        break;
    }
  }
  canvas.restore();
}

function element(parent: SVGElement, name: string, attributes: Readonly<Record<string, string>>): SVGElement {
  const made = parent.ownerDocument.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.appendChild(made);
  return made;
}

export function paintSvg(parent: SVGSVGElement, shapes: readonly Shape[]): void {
  for (const shape of shapes) {
    switch (shape.kind) {
      case 'rect':
        element(parent, 'rect', {
          x: short(shape.x), y: short(shape.y), width: short(shape.width), height: short(shape.height), fill: shape.colour,
        });
        break;
      case 'area':
        element(parent, 'path', { d: pathData(shape.points, true), fill: shape.colour, 'fill-opacity': String(shape.opacity) });
        break;
      case 'line':
        element(parent, 'path', {
          d: pathData(shape.points),
          fill: 'none',
          stroke: shape.colour,
          'stroke-width': String(shape.width),
          'stroke-linejoin': 'round',
          ...(shape.dash.length > 0 ? { 'stroke-dasharray': shape.dash.join(' ') } : {}),
        });
        break;
      case 'text':
        element(parent, 'text', {
          x: short(shape.x), y: short(shape.y), 'text-anchor': shape.anchor, fill: shape.colour,
          'font-family': 'system-ui, sans-serif', 'font-size': String(FONT_PX),
        }).textContent = shape.text;
        break;
    }
  }
}
