// The picture as a file: the same drawing, with its title, for a canvas or as SVG.

import type { Picture } from '../../app/panel';
import { svg } from '../../look/h';
import type { ThemeColours } from '../../look/colours';
import type { Scheme } from '../../picture/schemes';
import { cssOf } from '../../picture/paint';
import { mergedRects, type Rect } from '../../picture/rects';
import { blockOf, GROUND, pixelOf, Sweep } from '../../picture/sweep';
import { drawAxes, lanesOf, type Scene } from './axes';
import { BlockPicture } from './blocks';
import { groupsOf } from './marks';
import { canvasPen, shortened, svgPen, type Pen } from './pen';
import { plotIn } from './plot';

export interface ExportInput {
  readonly title: string;
  readonly width: number;
  readonly height: number;
  readonly scene: Omit<Scene, 'plot' | 'groups' | 'lanes'>;
  readonly from: number;
  readonly to: number;
  readonly highest: number;
  readonly colours: Int32Array;
  readonly scheme: Scheme;
  readonly theme: ThemeColours;
}

const MOST_RECTS = 13_000; // and edges, up to
const MOST_ELEMENTS = 19_000;
const TITLE = 24;
const LEGEND_LINE = 18;
const LEGEND = 2 * LEGEND_LINE + 4;

/** Rectangles of blocks; where these are too many, of colours, and then ever coarser. */
export function rectsOf(picture: BlockPicture, scene: Scene, colours: Int32Array): { rects: Rect[]; columns: number; rows: number; isByBlock: boolean } {
  const { plot, device } = scene, sweep = new Sweep();
  for (let coarse = 1; ; coarse *= 2) {
    const columns = Math.max(1, Math.floor(plot.width / coarse)), rows = Math.max(1, Math.floor(plot.height / coarse));
    sweep.run(picture.levelsOf(device), {
      from: plot.from, to: plot.to, columns, rows, bytesPerRow: plot.highest / rows, lastInstant: device.lastInstant,
    });
    const byBlock = mergedRects(sweep.pixels, columns, rows, blockOf, MOST_RECTS);
    if (byBlock !== null) return { rects: byBlock, columns, rows, isByBlock: true };
    const colourOf = (pixel: number): number | null => (pixel === GROUND ? null : colours[pixel & ~1]!);
    const byColour = mergedRects(sweep.pixels, columns, rows, colourOf, MOST_RECTS);
    if (byColour !== null) return { rects: byColour, columns, rows, isByBlock: false };
  }
}

function drawRects(parent: SVGElement, picture: BlockPicture, scene: Scene, colours: Int32Array): void {
  const { plot } = scene, { rects, columns, rows, isByBlock } = rectsOf(picture, scene, colours);
  const across = plot.width / columns, down = plot.height / rows;
  const group = svg('g', { 'shape-rendering': 'crispEdges' });
  let left = MOST_ELEMENTS - rects.length;
  for (const rect of rects) {
    const fillColour = isByBlock ? colours[pixelOf(rect.key, false)]! : rect.key;
    const x = plot.left + rect.x * across, y = plot.top + (rows - rect.y - rect.height) * down;
    const place = { x: tidy(x), width: tidy(rect.width * across) };
    group.appendChild(svg('rect', { ...place, y: tidy(y), height: tidy(rect.height * down), fill: cssOf(fillColour) }));
    if (isByBlock && rect.height * down > 6 && rect.width * across > 2 && left-- > 0)
      group.appendChild(svg('rect', { ...place, y: tidy(y), height: 1, fill: cssOf(colours[pixelOf(rect.key, true)]!) }));
  }
  parent.appendChild(group);
}

const tidy = (value: number): number => Math.round(value * 100) / 100;

function drawLegend(pen: Pen, input: ExportInput): void {
  const { theme, scheme } = input;
  let x = 12, y = input.height - LEGEND + LEGEND_LINE / 2;
  for (const key of scheme.keys) {
    const name = shortened(pen, scheme.nameOf(key), 260), width = pen.widthOf(name) + 32;
    if (x + width > input.width) {
      x = 12;
      y += LEGEND_LINE;
      if (y > input.height) break;
    }
    pen.rect(x, y - 5, 10, 10, scheme.colourOf(key));
    pen.text(x + 15, y, name, { colour: theme.text });
    x += width;
  }
}

export function makePicture(input: ExportInput): Picture {
  const { width, height, theme, colours } = input, picture = new BlockPicture();
  const lanes = lanesOf(input.scene.device);
  const inner = plotIn(width, height - TITLE - LEGEND, lanes, input, input.highest);
  const plot = { ...inner, top: inner.top + TITLE };
  const scene: Scene = { ...input.scene, plot, lanes, groups: groupsOf(input.scene.device.marks, plot) };
  const drawAround = (pen: Pen): void => {
    pen.text(12, 13, shortened(pen, input.title, width - 24, 13), { colour: theme.text, size: 13, weight: 'bold' });
    drawAxes(pen, scene, theme);
    drawLegend(pen, input);
  };
  return {
    name: 'timeline',
    width,
    height,
    draw(context) {
      picture.draw(context, context.getTransform().a || 1, input.scene.device, plot, colours, false);
      drawAround(canvasPen(context));
    },
    drawSvg(parent) {
      drawRects(parent, picture, scene, colours);
      drawAround(svgPen(parent));
    },
  };
}
