// A rank's bar: what it reserved, and in it what was live, against the most that any rank has.

import { svg } from '../look/h';
import { DISTINCT } from '../look/palette';
import type { RankReport } from '../data/header';

export const LIVE = DISTINCT[0]!, RESERVED = DISTINCT[4]!;

/** The most that a bar of these ranks has to show; 1 where nothing is known. */
export function mostOf(ranks: readonly RankReport[]): number {
  return ranks.reduce((so, rank) => Math.max(so, rank.peak_reserved_bytes ?? 0, rank.peak_live_bytes ?? 0), 1);
}

export function rankBar(rank: RankReport, most: number): SVGSVGElement {
  const width = (size: number | null): string => (((size ?? 0) / most) * 100).toFixed(2);
  return svg(
    'svg',
    { class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { x: 0, y: 0, width: width(rank.peak_reserved_bytes), height: 10, fill: RESERVED, 'fill-opacity': 0.55 }),
    svg('rect', { x: 0, y: 2, width: width(rank.peak_live_bytes), height: 6, fill: LIVE }),
  );
}
