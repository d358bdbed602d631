// A chart in plain words: what uPlot shows, and what is drawn again for export.

export interface ChartSeries {
  readonly name: string;
  readonly colour: string;
  readonly width: number;
  readonly dash: readonly number[]; // empty: solid
  readonly isFilled: boolean;
  readonly values: readonly (number | null)[]; // one for each of xs
}

/** A horizontal line: a limit. */
export interface ChartLevel {
  readonly name: string;
  readonly value: number;
  readonly colour: string;
  /** It is in the picture even if all lines lie far below. */
  readonly isWanted: boolean;
}

/** A cross: here a line ended. */
export interface ChartMark {
  readonly x: number;
  readonly y: number;
  readonly colour: string;
}

export interface ChartSpec {
  readonly xs: readonly number[]; // rising
  readonly from: number;
  readonly to: number;
  readonly isStepped: boolean;
  readonly series: readonly ChartSeries[];
  readonly levels: readonly ChartLevel[];
  readonly marks: readonly ChartMark[];
  readonly cursor: number | null; // a vertical line
  readonly xTitle: string; // a constant of the page
  readonly xTicks: readonly number[];
  readonly xText: (x: number) => string;
}

/** Colours of the page, by its present theme. */
export interface ChartTheme {
  readonly ground: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  readonly danger: string;
}

const ROOM_ABOVE = 1.06;
const FAR_ABOVE = 2.5; // times the highest line: a limit up there would press the lines flat

function highestValue(spec: ChartSpec): number {
  let most = 0;
  for (const series of spec.series) for (const value of series.values) most = Math.max(most, value ?? 0);
  return most;
}

export function isLevelInside(spec: ChartSpec, level: ChartLevel): boolean {
  return level.isWanted || level.value <= highestValue(spec) * FAR_ABOVE;
}

/** The value at the upper edge. */
export function topOf(spec: ChartSpec): number {
  let most = highestValue(spec);
  for (const level of spec.levels) if (isLevelInside(spec, level)) most = Math.max(most, level.value);
  return most > 0 ? most * ROOM_ABOVE : 1;
}
