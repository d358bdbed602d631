// The boxes of a flame graph with a pen: the same on the screen and in a file.

import { themeColours } from '../../look/colours';
import { inkOn, mixed } from '../../look/ink';
import { categoryColour, NEUTRAL } from '../../look/palette';
import type { Pen } from '../../look/pen';
import { bytes, count } from '../../look/units';
import { frameLabel } from '../../data/stacks';
import type { Stacks } from '../../data/model';
import { matchesFrame, type Search } from '../../data/search';
import type { Box } from './boxes';
import { ALL_STACKS, NO_STACK, type Tree } from './tree';

export const ROW = 21;
const BAR = 20;

export type FlameColour = 'file' | 'category';

export interface FlameView {
  readonly tree: Tree;
  readonly stacks: Stacks;
  readonly boxes: readonly Box[];
  readonly colour: FlameColour;
  readonly files: ReadonlyMap<string, string>; // their colours
  readonly search: Search | null;
  readonly path: ReadonlySet<number>; // of the highlighted stack
  readonly focused: number | null; // node
  readonly hovered: Box | null;
}

export function nodeLabel(tree: Tree, stacks: Stacks, node: number): string {
  const frame = tree.frame[node]!;
  if (frame === ALL_STACKS) return `all: ${bytes(tree.bytes[node]!)}`;
  return frame === NO_STACK ? 'no stack was recorded' : frameLabel(stacks.frame(frame));
}

function fillOf({ tree, stacks, colour, files }: FlameView, node: number): string {
  const frame = tree.frame[node]!, { surface, text } = themeColours();
  if (frame === ALL_STACKS) return mixed(surface, text, 0.12);
  if (frame === NO_STACK) return NEUTRAL;
  if (colour === 'category') return categoryColour(stacks.categories[tree.category[node]!] ?? 'unknown');
  return files.get(stacks.frame(frame).file) ?? NEUTRAL;
}

function isFound(view: FlameView, node: number): boolean {
  const frame = view.tree.frame[node]!;
  return view.search !== null && frame >= 0 && matchesFrame(view.search, view.stacks.frame(frame));
}

function drawMerged(pen: Pen, box: Box, y: number): void {
  const { line, muted, ground } = themeColours();
  pen.rect(box.x, y, box.width, BAR, mixed(ground, muted, 0.25));
  pen.hatch(box.x, y, box.width, BAR, 'dots', line);
  pen.text(box.x + 4, y + BAR / 2, `${count(box.merged)} more`, { colour: muted, size: 11, room: box.width - 8 });
}

function drawBox(pen: Pen, view: FlameView, box: Box, y: number): void {
  const { ground, pinned, accent } = themeColours(), { tree } = view;
  const isDim = view.search !== null && tree.matched[box.node]! === 0;
  const plain = fillOf(view, box.node), fill = isDim ? mixed(plain, ground, 0.75) : plain;
  const width = Math.max(1, box.width - (box.width > 3 ? 1 : 0));
  pen.rect(box.x, y, width, BAR, fill);
  if (tree.frame[box.node] === NO_STACK && width > 6) pen.hatch(box.x, y, width, BAR, 'falling', mixed(fill, ground, 0.35));
  if (!isDim && isFound(view, box.node)) pen.frame(box.x, y, width, BAR, accent, 2);
  if (view.path.has(box.node)) pen.frame(box.x, y, width, BAR, pinned, 2);
  if (view.focused === box.node || (view.hovered !== null && view.hovered.merged === 0 && view.hovered.node === box.node))
    pen.frame(box.x, y, width, BAR, pinned, 1.5);
  const share = tree.bytes[box.node]!;
  const label = nodeLabel(tree, view.stacks, box.node);
  const text = tree.frame[box.node] === ALL_STACKS ? label : `${label}  ${bytes(share)}`;
  const isWhole = text.length * 11.5 * 0.605 <= width - 10;
  pen.text(box.x + 5, y + BAR / 2, isWhole ? text : label, { colour: inkOn(fill), size: 11.5, family: 'mono', room: width - 10 });
}

/** What lies between two heights; the picture is moved up by `top`. */
export function drawFlame(pen: Pen, view: FlameView, top: number, height: number): void {
  for (const box of view.boxes) {
    const y = box.depth * ROW - top;
    if (y + ROW < 0 || y > height) continue;
    if (box.merged > 0) drawMerged(pen, box, y);
    else drawBox(pen, view, box, y);
  }
}
