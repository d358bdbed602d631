import { describe, expect, it } from 'vitest';
import type { Finding } from '../data/header';
import type { Frame, Model } from '../data/model';
import { sampleDoctor, sampleFinding, withDoctor } from '../testing/doctor';
import { sampleModel, sampleState } from '../testing/model';
import { bytesByStack, framesKey, isPlace, MOST_FRAMES, stackOfPlace, stacksByFrames, tabOf, targetOf } from './places';

const frame = (file: string, line: number, functionName: string): Frame => ({ file, line, functionName });
const MAIN = frame('/home/me/train.py', 152, 'main'), LINEAR = frame('/lib/torch/linear.py', 134, 'forward');

const sample = {
  lastInstant: 10,
  stacks: [
    { frames: [MAIN], where: 0 },
    { frames: [LINEAR, MAIN], where: 1 },
    { frames: [frame('/home/me/train.py', 15, 'main')], where: 0 },
  ],
  blocks: [
    { begin: 1, end: 9, size: 1000, stack: 0 },
    { begin: 2, size: 4000, stack: 1 },
    { begin: 3, end: 6, size: 9000, stack: 2 },
  ],
  reserved: [[0, 0], [8, 20000]] as [number, number][],
};

const finding = (kind: string, where: string[] = ['train.py:152 main']): Finding => sampleFinding({ kind, where });
const doctored = (model: Model): Model => withDoctor(model, sampleDoctor());

describe('a place of a report', () => {
  it('is a frame with that file, line and function, with or without folders', () => {
    expect(isPlace('train.py:152 main', MAIN)).toBe(true);
    expect(isPlace('/home/me/train.py:152 main', MAIN)).toBe(true);
    expect(isPlace('/elsewhere/train.py:152 main', frame('train.py', 152, 'main'))).toBe(true);
    expect(isPlace('C:\\my files\\train.py:152 main', frame('C:\\my files\\train.py', 152, 'main'))).toBe(true);
    expect(isPlace('mytrain.py:152 main', MAIN)).toBe(false);
    expect(isPlace('train.py:15 main', MAIN)).toBe(false);
    expect(isPlace('train.py:152 main2', MAIN)).toBe(false);
  });

  it('is the stack through it that weighs most', () => {
    const { stacks, devices } = sampleModel(sample).runs[0]!;
    expect(stackOfPlace(stacks, 'train.py:152 main', bytesByStack(devices[0]!, 4))).toBe(1);
    expect(stackOfPlace(stacks, 'train.py:152 main', new Map([[0, 5]]))).toBe(0);
    expect(stackOfPlace(stacks, 'train.py:15 main', new Map())).toBe(2);
    expect(stackOfPlace(stacks, 'other.py:1 f', new Map())).toBeNull();
  });

  it('is found by as many frames as the reports have', () => {
    const deep = Array.from({ length: MOST_FRAMES + 9 }, (_, line) => frame('train.py', line + 1, 'f'));
    const known = stacksByFrames(sampleModel({ ...sample, stacks: [{ frames: deep }] }).runs[0]!.stacks);
    const spelled = deep.map((one) => `train.py:${one.line} f`);
    expect(known.get(framesKey(spelled.slice(0, MOST_FRAMES)))).toEqual([0]);
    expect(known.get(framesKey(spelled))).toBeUndefined();
  });

  it('is found by all frames as the reports spell them', () => {
    const { stacks } = sampleModel({ ...sample, stacks: [...sample.stacks, { frames: [frame('', 0, 'kernel')] }, { frames: [] }] }).runs[0]!;
    const known = stacksByFrames(stacks);
    expect(known.get(framesKey(['/lib/torch/linear.py:134 forward', '/home/me/train.py:152 main']))).toEqual([1]);
    expect(known.get(framesKey(['? kernel']))).toEqual([3]);
    expect(known.get(framesKey([]))).toEqual([4]);
  });
});

describe('a finding', () => {
  it('has a tab that shows it', () => {
    expect(['fragmentation', 'stranded', 'leak', 'kept-graph', 'peak', 'genuine', 'warning', 'new-kind'].map((kind) => tabOf(kind, true))).toEqual([
      'segments', 'segments', 'leaks', 'timeline', 'table', 'table', 'findings', 'findings',
    ]);
    expect(tabOf('leak', false)).toBe('timeline');
  });

  it('leads to the peak, and to the failure where there was one', () => {
    const model = doctored(sampleModel(sample)), state = sampleState(model);
    expect(targetOf(model, state, 0, finding('peak'))).toEqual({ tab: 'table', cursor: 3, stack: 1 });
    expect(targetOf(model, state, 0, finding('fragmentation'))).toEqual({ tab: 'segments', cursor: 8, stack: 1 });
    const failed = doctored(sampleModel({ ...sample, marks: [{ kind: 'oom', instant: 7, bytes: 5, text: null }] }));
    expect(targetOf(failed, state, 0, finding('fragmentation')).cursor).toBe(7);
    expect(targetOf(failed, state, 0, finding('peak')).cursor).toBe(7);
    expect(targetOf(failed, state, 0, finding('leak')).cursor).toBe(3);
  });

  it('leads to one of its places, or to none', () => {
    const model = doctored(sampleModel(sample)), state = sampleState(model);
    expect(targetOf(model, state, 0, finding('peak'), 'train.py:15 main').stack).toBe(2);
    expect(targetOf(model, state, 0, finding('peak', [])).stack).toBeNull();
    expect(targetOf(model, state, 0, finding('warning', []))).toEqual({ tab: 'findings' });
  });

  it('of the other run takes everything there with it', () => {
    const model = doctored(sampleModel(sample, { ...sample, lastInstant: 20 })), state = sampleState(model);
    expect(targetOf(model, state, 1, finding('peak'))).toMatchObject({ run: 1, device: 0, from: 0, to: 20, tab: 'table', pinned: null });
  });

  it('of a leak is the stack that grew most', () => {
    const model = doctored(sampleModel(sample)), device = model.runs[0]!.devices[0]!;
    const growth = { step: Uint32Array.of(0, 1), instant: Uint32Array.of(4, 8), stack: Uint32Array.of(1, 0), bytesPerStep: Float64Array.of(0, 1000), bytes: Float64Array.of(4000, 4000, 0, 1000), reason: null };
    const grown: Model = { ...model, runs: [{ ...model.runs[0]!, devices: [{ ...device, growth }] }] };
    expect(targetOf(grown, sampleState(grown), 0, finding('leak'))).toMatchObject({ tab: 'leaks', stack: 0 });
  });
});
