// What the doctor's words mean for the page.

export type Tone = 'good' | 'warn' | 'danger';

/** Of a verdict: nothing is wrong, not known, or memory runs out. */
export function toneOf(verdict: string): Tone {
  if (verdict === 'healthy' || verdict === 'not-oom') return 'good';
  return verdict === 'unknown' ? 'warn' : 'danger';
}

// A finding may be of a kind that is a verdict too. Where it is not the verdict, its bytes are a fact beside it.
const FACTS: Readonly<Record<string, string>> = {
  fragmentation: 'idle in reserved',
  stranded: 'idle in pools',
  leak: 'growth',
  'kept-graph': 'kept by a graph',
  genuine: 'live',
  outside: 'outside PyTorch',
  capped: 'free beside a limit',
  refused: 'free on the card',
  'too-large': 'one request',
  host: 'host memory',
};

/** What a finding is called beside a verdict: never another verdict. */
export function findingName(kind: string, verdict: string): string {
  return kind === verdict ? kind : (FACTS[kind] ?? kind);
}
