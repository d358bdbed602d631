import { describe, expect, it } from 'vitest';
import { sampleRun } from '../testing/model';
import { NONE, type Frame, type Stacks } from './model';
import { blockMatcher, isOnlySize, matches, matchesFrame, parseSearch, parseSize } from './search';

const frame = (file: string, line: number, functionName: string): Frame => ({ file, line, functionName });

const { stacks } = sampleRun({
  lastInstant: 1,
  blocks: [],
  stacks: [
    { category: 'weights', frames: [frame('/lib/torch/nn/Linear.py', 96, '__init__'), frame('/home/me/train.py', 12, 'main')] },
    { category: 'optimizer', frames: [frame('/lib/torch/optim/adam.py', 140, '_init_group'), frame('/home/me/train.py', 30, 'step once')] },
    { category: 'other', frames: [] },
  ],
});

const MIB = 1024 ** 2;

function found(text: string, size = MIB): number[] {
  const search = parseSearch(text)!;
  return [0, 1, 2, NONE].filter((stack) => matches(search, stacks, stack, size));
}

describe('a search', () => {
  it('of nothing is none', () => {
    expect(parseSearch('')).toBeNull();
    expect(parseSearch('  \t')).toBeNull();
    expect(parseSearch('""')).toBeNull();
  });

  it('finds words in functions, files and lines, in any case', () => {
    expect(found('train.py')).toEqual([0, 1]);
    expect(found('TRAIN.py:30')).toEqual([1]);
    expect(found('linear')).toEqual([0]);
    expect(found('_INIT_')).toEqual([0, 1]);
    expect(found('nowhere')).toEqual([]);
  });

  it('wants all words, in whichever frames', () => {
    expect(found('adam.py main')).toEqual([]);
    expect(found('adam.py once')).toEqual([1]);
  });

  it('keeps quoted words together', () => {
    expect(found('"step once"')).toEqual([1]);
    expect(found('"once step"')).toEqual([]);
    expect(found('"step on')).toEqual([1]);
  });

  it('looks into one field only where it is named', () => {
    expect(found('function:main')).toEqual([0]);
    expect(found('file:main')).toEqual([]);
    expect(found('file:"adam.py:140"')).toEqual([1]);
    expect(found('category:weights')).toEqual([0]);
    expect(found('weights')).toEqual([]);
    expect(found('c10::Alloc')).toEqual([]);
  });

  it('leaves out what is not wanted', () => {
    expect(found('-adam')).toEqual([0, 2, NONE]);
    expect(found('train.py -category:weights')).toEqual([1]);
  });

  it('finds stacks that are none by the words shown for them', () => {
    expect(found('"no stack"')).toEqual([NONE]);
    expect(found('"no frame"')).toEqual([2]);
  });

  it('limits sizes', () => {
    expect(found('>1MiB')).toEqual([]);
    expect(found('>=1MiB')).toEqual([0, 1, 2, NONE]);
    expect(found('> 1 MiB', MIB + 1)).toHaveLength(4);
    expect(found('<1m', MIB - 1)).toHaveLength(4);
    expect(found('<1m')).toEqual([]);
    expect(found('=1048576')).toHaveLength(4);
    expect(found('512k..2MiB')).toHaveLength(4);
    expect(found('>1k <1MiB')).toEqual([]);
    expect(found('adam >100MiB', 200 * MIB)).toEqual([1]);
    expect(isOnlySize(parseSearch('>1k')!)).toBe(true);
    expect(isOnlySize(parseSearch('>1k adam')!)).toBe(false);
  });

  it('finds a size that is printed so', () => {
    expect(found('1MiB', 1.2 * MIB)).toHaveLength(4);
    expect(found('1.00 MiB', 1.2 * MIB)).toEqual([]);
    expect(found('1.50GiB', 1.496 * 1024 * MIB)).toHaveLength(4);
    expect(found('512b', 512)).toHaveLength(4);
    expect(found('512b', 1024)).toEqual([]);
    expect(found('30', 30)).toEqual([1]); // a line
  });

  it('takes what is no size for a word', () => {
    expect(found('>abc')).toEqual([]);
    expect(found('..')).toEqual([]);
    expect(parseSearch('>1k..')!.words).toHaveLength(1);
    expect(parseSearch('operator< 5')!.words).toHaveLength(2);
  });

  it('takes no more words than it can hold', () => {
    const many = Array.from({ length: 80 }, (_, i) => `word${i}`).join(' ');
    expect(found(many)).toEqual([]);
  });

  it('looks at a stack once', () => {
    let looked = 0;
    const counted: Stacks = { ...stacks, frame: (id) => (looked++, stacks.frame(id)) };
    const search = parseSearch('train.py')!;
    for (let i = 0; i < 100; i++) matches(search, counted, i % 2, 5);
    expect(looked).toBe(4);
  });

  it('says which frame it found', () => {
    const search = parseSearch('adam >1k')!;
    expect(stacks.framesOf(1).map((one) => matchesFrame(search, one))).toEqual([true, false]);
    expect(matchesFrame(parseSearch('-adam')!, stacks.framesOf(1)[0]!)).toBe(false);
  });
});

describe('a matcher of blocks', () => {
  it('asks for their stack and size', () => {
    const blocks = { size: Float64Array.of(512, MIB, 512), stack: Uint32Array.of(0, 1, NONE) };
    const found = (text: string): number[] => [0, 1, 2].filter(blockMatcher(stacks, blocks, text)!);
    expect(found('train.py')).toEqual([0, 1]);
    expect(found('train.py >1k')).toEqual([1]);
    expect(found('<1k')).toEqual([0, 2]);
    expect(blockMatcher(stacks, blocks, ' ')).toBeNull();
  });
});

describe('a size', () => {
  it('has the units of 1024', () => {
    expect(parseSize('1.5GiB')).toBe(1.5 * 1024 ** 3);
    expect(parseSize('2 kb')).toBe(2048);
    expect(parseSize('512')).toBe(512);
    expect(parseSize('7b')).toBe(7);
    expect(parseSize('1 byte')).toBe(1);
    expect(parseSize('1T')).toBe(1024 ** 4);
    expect(parseSize('many')).toBeNull();
    expect(parseSize('1x')).toBeNull();
    expect(parseSize('')).toBeNull();
  });
});
