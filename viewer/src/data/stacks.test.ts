import { describe, expect, it } from 'vitest';
import { NONE } from './columns';
import { baseName, frameLabel, makeStacks } from './stacks';

const stacks = makeStacks({
  strings: ['main', '/home/a/train.py', 'empty', 'C:\\torch\\nn.py', ''],
  functionName: Uint32Array.of(0, 2, 4, 77),
  file: Uint32Array.of(1, 3, 4, 77),
  line: Uint32Array.of(152, 0, 0, 9),
  users: Uint8Array.of(1, 0, 0, 0),
  first: Uint32Array.of(0, 2, 2, 3, 4, 5),
  frames: Uint32Array.of(1, 0, 2, 3, 99),
  category: Uint8Array.of(1, 0, 0, 0, 0),
  where: Uint32Array.of(1, NONE, NONE, 0, 0),
  categories: ['other', 'weights', 'unknown'],
});

describe('stacks', () => {
  it('are known by the innermost frame outside libraries', () => {
    expect(stacks.count).toBe(5);
    expect(stacks.labelOf(0)).toBe('train.py:152 main');
    expect(stacks.framesOf(0).map((frame) => frame.functionName)).toEqual(['empty', 'main']);
    expect(Array.from(stacks.frameIdsOf(0))).toEqual([1, 0]);
    expect(stacks.categoryOf(0)).toBe(1);
  });

  it('can be shown without the frames of libraries, unless there are no others', () => {
    const own = stacks.usersOnly();
    expect(own.framesOf(0).map((frame) => frame.functionName)).toEqual(['main']);
    expect(own.labelOf(0)).toBe(stacks.labelOf(0));
    expect(Array.from(own.frameIdsOf(2))).toEqual([2]);
    expect(own.framesOf(1)).toEqual([]);
    expect(own.usersOnly()).toBe(own);
    expect(stacks.usersOnly()).toBe(own);
    expect(stacks.framesOf(0).length).toBe(2);
  });

  it('without frames, and no stack at all, have words too', () => {
    expect(stacks.labelOf(1)).toBe('no frame was recorded');
    expect(stacks.whereOf(1)).toBeNull();
    expect(stacks.labelOf(NONE)).toBe('no stack was recorded');
    expect(stacks.framesOf(NONE)).toEqual([]);
    expect(stacks.categoryOf(NONE)).toBe(2);
  });

  it('whose frames have no name, or none that exists, are unknown', () => {
    expect(stacks.labelOf(2)).toBe('unknown');
    expect(stacks.labelOf(3)).toBe('unknown');
    expect(stacks.labelOf(4)).toBe('unknown');
    expect(stacks.labelOf(123456)).toBe('no frame was recorded');
  });

  it('of a run without any are none', () => {
    const none = makeStacks({ strings: [], functionName: new Uint32Array(), file: new Uint32Array(), line: new Uint32Array(), users: new Uint8Array(), first: new Uint32Array(), frames: new Uint32Array(), category: new Uint8Array(), where: new Uint32Array(), categories: [] });
    expect(none.count).toBe(0);
    expect(none.framesOf(0)).toEqual([]);
    expect(none.categoryOf(0)).toBe(0);
  });
});

describe('a frame', () => {
  it('is told in one line, with what there is of it', () => {
    expect(frameLabel({ functionName: 'f', file: '', line: 3 })).toBe('f');
    expect(frameLabel({ functionName: '', file: 'a/b.py', line: 0 })).toBe('b.py');
    expect(baseName('C:\\a\\b.py')).toBe('b.py');
    expect(baseName('b.py')).toBe('b.py');
  });
});
