// A chart as a list of shapes, for pictures that are saved. Pure: the same numbers make the same
// shapes, whether they end up in a canvas or in an SVG.

import { isLevelInside, topOf, type ChartSeries, type ChartSpec, type ChartTheme } from './spec';
import { roundBytes } from '../look/units';
import { byteTicks } from './ticks';

export type Anchor = 'start' | 'middle' | 'end';

export type Shape =
  | { readonly kind: 'rect'; readonly x: number; readonly y: number; readonly width: number; readonly height: number; readonly colour: string }
  | { readonly kind: 'line'; readonly points: readonly number[]; readonly colour: string; readonly width: number; readonly dash: readonly number[] }
  | { readonly kind: 'area'; readonly points: readonly number[]; readonly colour: string; readonly opacity: number }
  | { readonly kind: 'text'; readonly x: number; readonly y: number; readonly text: string; readonly anchor: Anchor; readonly colour: string };

export const FONT_PX = 12;
export const AREA_OPACITY = 0.18;
const LEFT = 72, RIGHT = 16, TOP = 14, BELOW = 44, LEGEND_LINE = 20, SWATCH = 26, LETTER = 6.6;

interface Frame {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  x(value: number): number;
  y(value: number): number;
}

/** The corners of a line through its values, in stretches without a gap: [x, y, x, y, ...]. */
export function stretches(
  xs: readonly number[],
  values: readonly (number | null)[],
  isStepped: boolean,
  x: (value: number) => number,
  y: (value: number) => number,
): number[][] {
  const out: number[][] = [];
  let present: number[] | null = null;
  for (let i = 0; i < xs.length; i++) {
    const value = values[i];
    if (value === null || value === undefined) {
      if (present !== null && isStepped) present.push(x(xs[i]!), present[present.length - 1]!);
      present = null;
      continue;
    }
    if (present === null) out.push((present = []));
    else if (isStepped) present.push(x(xs[i]!), present[present.length - 1]!);
    present.push(x(xs[i]!), y(value));
  }
  return out.map(withoutIdle);
}

/** Without corners between two equal heights: a flat line has two ends and no more. */
function withoutIdle(points: readonly number[]): number[] {
  const out: number[] = [];
  for (let i = 0; i < points.length; i += 2) {
    const isFlat = i > 0 && i + 2 < points.length && points[i - 1] === points[i + 1] && points[i + 3] === points[i + 1];
    if (!isFlat) out.push(points[i]!, points[i + 1]!);
  }
  return out;
}

function seriesShapes(spec: ChartSpec, series: ChartSeries, frame: Frame): Shape[] {
  const lines = stretches(spec.xs, series.values, spec.isStepped, frame.x, frame.y);
  return lines.flatMap((points): Shape[] => {
    const line: Shape = { kind: 'line', points, colour: series.colour, width: series.width, dash: series.dash };
    if (!series.isFilled) return [line];
    const closed = [points[0]!, frame.bottom, ...points, points[points.length - 2]!, frame.bottom];
    return [{ kind: 'area', points: closed, colour: series.colour, opacity: AREA_OPACITY }, line];
  });
}

function axisShapes(spec: ChartSpec, frame: Frame, theme: ChartTheme): Shape[] {
  const out: Shape[] = [];
  for (const tick of byteTicks(topOf(spec), 6)) {
    const y = frame.y(tick);
    out.push({ kind: 'line', points: [frame.left, y, frame.right, y], colour: theme.line, width: 1, dash: [] });
    out.push({ kind: 'text', x: frame.left - 8, y: y + 4, text: roundBytes(tick), anchor: 'end', colour: theme.muted });
  }
  for (const tick of spec.xTicks.filter((tick) => tick >= spec.from && tick <= spec.to))
    out.push({ kind: 'text', x: frame.x(tick), y: frame.bottom + 18, text: spec.xText(tick), anchor: 'middle', colour: theme.muted });
  const middle = (frame.left + frame.right) / 2;
  out.push({ kind: 'text', x: middle, y: frame.bottom + 36, text: spec.xTitle, anchor: 'middle', colour: theme.muted });
  return out;
}

interface LegendEntry {
  readonly name: string;
  readonly colour: string;
  readonly dash: readonly number[];
  readonly width: number;
}

function legendShapes(entries: readonly LegendEntry[], width: number, top: number, theme: ChartTheme): { shapes: Shape[]; lines: number } {
  const shapes: Shape[] = [];
  let x = LEFT, row = 0;
  for (const entry of entries) {
    const length = SWATCH + 8 + entry.name.length * LETTER + 20;
    if (x > LEFT && x + length > width - RIGHT) {
      x = LEFT;
      row++;
    }
    const y = top + row * LEGEND_LINE;
    shapes.push({ kind: 'line', points: [x, y - 4, x + SWATCH, y - 4], colour: entry.colour, width: entry.width, dash: entry.dash });
    shapes.push({ kind: 'text', x: x + SWATCH + 8, y, text: entry.name, anchor: 'start', colour: theme.text });
    x += length;
  }
  return { shapes, lines: entries.length === 0 ? 0 : row + 1 };
}

const CROSS = 5;

/** The whole chart in a picture of that size. */
export function chartShapes(spec: ChartSpec, theme: ChartTheme, width: number, height: number): Shape[] {
  const levels = spec.levels.filter((level) => isLevelInside(spec, level));
  const entries: LegendEntry[] = [
    ...spec.series,
    ...levels.map((level) => ({ name: level.name, colour: level.colour, dash: [2, 2], width: 1.5 })),
  ];
  const legendLines = legendShapes(entries, width, 0, theme).lines;
  const bottom = Math.max(TOP + 20, height - BELOW - legendLines * LEGEND_LINE);
  const top = topOf(spec), span = spec.to > spec.from ? spec.to - spec.from : 1;
  const frame: Frame = {
    left: LEFT,
    right: width - RIGHT,
    top: TOP,
    bottom,
    x: (value) => LEFT + ((value - spec.from) / span) * (width - RIGHT - LEFT),
    y: (value) => bottom - (value / top) * (bottom - TOP),
  };
  const shapes: Shape[] = [{ kind: 'rect', x: 0, y: 0, width, height, colour: theme.ground }];
  shapes.push(...axisShapes(spec, frame, theme));
  for (const series of spec.series) shapes.push(...seriesShapes(spec, series, frame));
  for (const level of levels) {
    const y = frame.y(level.value);
    shapes.push({ kind: 'line', points: [frame.left, y, frame.right, y], colour: level.colour, width: 1.5, dash: [2, 2] });
  }
  for (const mark of spec.marks.filter((mark) => mark.x >= spec.from && mark.x <= spec.to)) {
    const x = frame.x(mark.x), y = frame.y(mark.y);
    for (const sign of [1, -1])
      shapes.push({ kind: 'line', points: [x - CROSS, y - sign * CROSS, x + CROSS, y + sign * CROSS], colour: mark.colour, width: 2.5, dash: [] });
  }
  shapes.push(...legendShapes(entries, width, bottom + BELOW + 12, theme).shapes);
  return shapes;
}
