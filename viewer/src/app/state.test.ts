import { describe, expect, it, vi } from 'vitest';
import { sampleModel, sampleState } from '../testing/model';
import { Store } from './state';

const start = sampleState(sampleModel({ lastInstant: 10, blocks: [] }));
const turn = (): Promise<void> => Promise.resolve();

describe('the store', () => {
  it('tells once per turn, with the state that was told before', async () => {
    const store = new Store(start), told = vi.fn();
    store.subscribe(told);
    store.set({ cursor: 3 });
    store.set({ cursor: 4, search: 'a' });
    expect(store.state.cursor).toBe(4);
    expect(told).not.toHaveBeenCalled();
    await turn();
    expect(told).toHaveBeenCalledOnce();
    expect(told).toHaveBeenCalledWith({ ...start, cursor: 4, search: 'a' }, start);
    store.set({ cursor: 5 });
    await turn();
    expect(told.mock.calls[1]![1]).toEqual({ ...start, cursor: 4, search: 'a' });
  });

  it('does not tell what is no change', async () => {
    const store = new Store(start), told = vi.fn();
    store.subscribe(told);
    store.set({ cursor: start.cursor, tab: start.tab });
    await turn();
    expect(told).not.toHaveBeenCalled();
  });

  it('tells what a listener changes in a turn of its own', async () => {
    const store = new Store(start), cursors: number[] = [];
    store.subscribe((state) => {
      cursors.push(state.cursor);
      if (state.cursor === 1) store.set({ cursor: 2 });
    });
    store.set({ cursor: 1 });
    await turn();
    await turn();
    expect(cursors).toEqual([1, 2]);
  });

  it('stops telling who asked for that', async () => {
    const store = new Store(start), told = vi.fn();
    store.subscribe(told)();
    store.set({ cursor: 1 });
    await turn();
    expect(told).not.toHaveBeenCalled();
  });
});
