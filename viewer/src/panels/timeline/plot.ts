// Where instants and bytes are on the canvas.

import { spanOf, type Range } from '../../picture/columns';

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Plot extends Box, Range {
  readonly highest: number; // bytes at the upper edge
}

export const LEFT = 66;
export const RIGHT = 14;
export const TOP = 22; // the marks
const LANE = 15;

export interface Lanes {
  readonly hasTime: boolean;
  readonly hasSteps: boolean;
}

export function bottomOf(lanes: Lanes): number {
  return 6 + LANE + (lanes.hasTime ? LANE : 0) + (lanes.hasSteps ? LANE : 0);
}

/** The middle of a lane below the plot. */
export function laneAt(plot: Plot, lane: number): number {
  return plot.top + plot.height + 6 + LANE * (lane + 0.5);
}

/** CSS pixels, whole. */
export function plotIn(width: number, height: number, lanes: Lanes, range: Range, highest: number): Plot {
  return {
    left: LEFT,
    top: TOP,
    width: Math.max(1, width - LEFT - RIGHT),
    height: Math.max(1, height - TOP - bottomOf(lanes)),
    from: range.from,
    to: range.to,
    highest,
  };
}

export function xOf(plot: Plot, instant: number): number {
  return plot.left + ((instant - plot.from) / spanOf(plot)) * plot.width;
}

export function yOf(plot: Plot, bytes: number): number {
  return plot.top + plot.height - (bytes / plot.highest) * plot.height;
}

/** On the axis, not whole. */
export function instantAt(plot: Plot, x: number): number {
  return plot.from + ((x - plot.left) / plot.width) * spanOf(plot);
}

export function isInside(box: Box, x: number, y: number): boolean {
  return x >= box.left && y >= box.top && x < box.left + box.width && y < box.top + box.height;
}

/** CSS pixels of one instant. */
export function instantWidth(plot: Plot): number {
  return plot.width / spanOf(plot);
}
