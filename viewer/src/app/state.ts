// What the person looks at: all of it fits into a link, and every panel draws from it.

export const TABS = ['timeline', 'segments', 'table', 'flame', 'what-if', 'leaks', 'diff', 'findings'] as const;
export type Tab = (typeof TABS)[number];

export const COLOURS = ['stack', 'category', 'size', 'stream', 'age'] as const;
export type Colour = (typeof COLOURS)[number];

/** Of stacks: all frames, or those outside libraries and the interpreter. */
export const FRAMES = ['all', 'own'] as const;
export type Frames = (typeof FRAMES)[number];

export type Theme = 'system' | 'light' | 'dark';

export interface State {
  readonly tab: Tab;
  readonly run: number; // of the model's
  readonly device: number; // index in the run's devices
  readonly from: number; // instants that the timeline shows
  readonly to: number;
  readonly cursor: number; // the instant of Segments, Table and Flame graph
  readonly pinned: number | null; // block
  readonly stack: number | null; // highlighted everywhere; NONE is a stack too
  readonly colour: Colour;
  readonly search: string;
  readonly frames: Frames;
  readonly theme: Theme;
}

export type Change = Partial<State>;
export type Listener = (state: State, before: State) => void;

/** Holds the state and tells who asked when it changes, once per turn of the event loop. */
export class Store {
  private readonly listeners = new Set<Listener>();
  private told: State;
  private isTelling = false;

  constructor(private present: State) {
    this.told = present;
  }

  get state(): State {
    return this.present;
  }

  set(change: Change): void {
    const next = { ...this.present, ...change };
    if ((Object.keys(next) as (keyof State)[]).every((key) => next[key] === this.present[key])) return;
    this.present = next;
    if (this.isTelling) return;
    this.isTelling = true;
    queueMicrotask(() => {
      this.isTelling = false;
      const before = this.told;
      this.told = this.present;
      for (const listener of [...this.listeners]) listener(this.present, before);
    });
  }

  /** Returns what ends it. */
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
