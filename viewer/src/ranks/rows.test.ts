import { describe, expect, it } from 'vitest';
import { ranOut, sampleRank, sampleRanks } from '../testing/ranks';
import { answerOf, firstRank, oomText, sortRanks, tellingRank } from './rows';

const first = { rank: 1, lead_us: 1_200_000, reason: null };
const failed = sampleRanks([sampleRank(0, { oom: ranOut(3_200_000) }), sampleRank(1, { oom: ranOut(2_000_000) }), sampleRank(2)], { first_oom: first });

describe('who ran out', () => {
  it('is told by how long after the first', () => {
    const one = firstRank(failed);
    expect(failed.ranks.map((rank) => oomText(rank, one))).toEqual(['1.20 s later', 'first', '']);
  });

  it('is told without a time where two kinds of time cannot be compared', () => {
    const rank = sampleRank(3, { oom: ranOut(null, 9_000_000) });
    expect(oomText(rank, firstRank(failed))).toBe('ran out');
    expect(oomText(rank, null)).toBe('ran out');
  });

  it('is told by local times where all have those', () => {
    const ranks = [sampleRank(0, { oom: ranOut(null, 5_000_000) }), sampleRank(1, { oom: ranOut(null, 2_000_000) })];
    expect(oomText(ranks[0]!, ranks[1]!)).toBe('3.00 s later');
  });

  it('is the answer', () => {
    expect(answerOf(failed)).toBe('Rank 1 ran out of memory first, 1.20 s before the next; 2 of 3 ranks ran out');
    expect(answerOf(sampleRanks([sampleRank(0)]))).toBe('1 rank, none ran out of memory');
    expect(answerOf(sampleRanks([sampleRank(4, { oom: ranOut(1) }), sampleRank(5)], { first_oom: { rank: 4, lead_us: null, reason: null } }))).toBe(
      'Rank 4 ran out of memory, alone of 2 ranks',
    );
    const unknown = sampleRanks([sampleRank(0, { oom: ranOut(null) }), sampleRank(1, { oom: ranOut(1) })], { first_oom: { rank: null, lead_us: null, reason: 'no time' } });
    expect(answerOf(unknown)).toBe('2 of 2 ranks ran out of memory; which was first is not known: no time');
  });
});

describe('the rows', () => {
  const ranks = [sampleRank(0, { peak_live_bytes: 7 }), sampleRank(1, { peak_live_bytes: null }), sampleRank(2, { peak_live_bytes: 9, oom: ranOut(5) })];
  const numbers = (key: 'rank' | 'live' | 'oom', isFalling: boolean): (number | null)[] => sortRanks(ranks, { key, isFalling }, null).map((rank) => rank.rank);

  it('are sorted either way, with the unknown last', () => {
    expect(numbers('live', true)).toEqual([2, 0, 1]);
    expect(numbers('live', false)).toEqual([0, 2, 1]);
    expect(numbers('rank', true)).toEqual([2, 1, 0]);
    expect(numbers('oom', false)).toEqual([2, 0, 1]);
  });

  it('begin with the one that tells most', () => {
    expect(tellingRank(failed)!.rank).toBe(1);
    expect(tellingRank(sampleRanks(ranks))!.rank).toBe(2);
    expect(tellingRank(sampleRanks([sampleRank(0), sampleRank(1, { problem: true })]))!.rank).toBe(1);
    expect(tellingRank(sampleRanks([]))).toBeNull();
  });
});
