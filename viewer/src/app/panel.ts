// What a tab is made of. The shell makes each panel when its tab is first shown, and keeps it.

import type { Device, Model, Run, Stacks } from '../data/model';
import type { Highest } from '../data/live';
import type { State, Store, Tab } from './state';

/** Everything a panel may use. */
export interface App {
  readonly model: Model;
  readonly store: Store;
  /** Of the present state. */
  run(): Run;
  device(): Device;
  /** Those of the run, with the frames that are to be shown. Searches look at all: `run().stacks`. */
  stacks(): Stacks;
  /** Live bytes at every instant of a device; made once. */
  liveOf(device: Device): Float64Array;
  highestLiveOf(device: Device): Highest;
  /** Says something for a moment at the edge of the page: "copied", "saved as ...". */
  say(text: string): void;
}

/** A picture for export: drawn again at the size asked for. */
export interface Picture {
  readonly name: string; // for the file: "timeline"
  readonly width: number; // CSS pixels
  readonly height: number;
  /** Into a canvas of that size; `scale` device pixels per CSS pixel are already set. */
  draw(canvas: CanvasRenderingContext2D): void;
  /** The same as SVG elements below an <svg> of that size. */
  drawSvg(parent: SVGSVGElement): void;
}

export interface Table {
  readonly name: string; // for the file: "leaks"
  readonly csv: string;
}

export interface Panel {
  readonly element: HTMLElement;
  /** It was shown, or the state or the window's size changed while it is shown. */
  update(state: State): void;
  /** null: nothing to export. */
  picture(): Picture | null;
  /** Its table as CSV, all rows that are found in the order in which they stand; null: it has no rows. */
  table?(): Table | null;
  /** A key that the shell does not know; true: it was used. */
  key?(event: KeyboardEvent): boolean;
}

export interface PanelKind {
  readonly tab: Tab;
  readonly title: string;
  /** Its own keys, for the help: [['w  s', 'zoom in, zoom out']]; two spaces between keys. */
  readonly keys?: readonly (readonly [keys: string, what: string])[];
  /** null: it can be shown; else why not ("the recording has no trace"). */
  missing(app: App): string | null;
  make(app: App): Panel;
}
