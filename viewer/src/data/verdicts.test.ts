import { expect, it } from 'vitest';
import { findingName, toneOf } from './verdicts';

const VERDICTS = ['genuine', 'fragmentation', 'leak', 'kept-graph', 'stranded', 'outside', 'capped', 'refused', 'too-large', 'host', 'healthy', 'not-oom', 'unknown'];

it('verdicts have a tone', () => {
  expect(['healthy', 'not-oom', 'unknown', 'leak', 'fragmentation'].map(toneOf)).toEqual(['good', 'good', 'warn', 'danger', 'danger']);
});

it('a finding is called by the verdict, or by no verdict', () => {
  for (const kind of [...VERDICTS.filter((one) => toneOf(one) === 'danger'), 'peak', 'warning'])
    for (const verdict of VERDICTS) {
      const name = findingName(kind, verdict);
      expect(name === verdict || !VERDICTS.includes(name), `${kind} beside ${verdict} is called ${name}`).toBe(true);
    }
});
