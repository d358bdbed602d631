import { afterEach, describe, expect, it, vi } from 'vitest';
import { sampleContainer, toBase64 } from '../testing/container';
import { decodeBase64, loadModel, readBody, takeText } from './load';

const SAMPLE = { lastInstant: 2, blocks: [{ begin: 1, size: 512 }] };

/** As much of an element as loading looks at. */
function place(text: string): HTMLElement {
  return { textContent: text } as HTMLElement;
}

describe('base64', () => {
  it('comes back whatever its length', async () => {
    for (let length = 0; length < 70; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 97 + length * 13) & 255);
      expect(Array.from(await decodeBase64(toBase64(bytes)))).toEqual(Array.from(bytes));
    }
  });

  it('comes back in several goes, and tells how far it is', async () => {
    const bytes = new Uint8Array(5_000_000).map((_, i) => i & 255), shares: number[] = [];
    const text = toBase64(bytes);
    const back = await decodeBase64(text, (share) => shares.push(share));
    expect(back.length).toBe(bytes.length);
    expect(back.every((byte, i) => byte === bytes[i])).toBe(true);
    expect(shares.length).toBeGreaterThan(1);
    expect(shares[shares.length - 1]).toBe(1);
  });

  it('may have white space and no padding', async () => {
    expect(Array.from(await decodeBase64(' AQID\r\n\tBA '))).toEqual([1, 2, 3, 4]);
  });

  it('with anything else in it is refused', async () => {
    await expect(decodeBase64('AQ<D')).rejects.toThrow('character 2 of the data is not base64');
    await expect(decodeBase64('AQID\u00e9')).rejects.toThrow('character 4');
  });
});

describe('the text in the page', () => {
  it('is taken out of it', () => {
    const element = place('AQID');
    expect(takeText(element)).toBe('AQID');
    expect(element.textContent).toBe('');
  });

  it('is empty in a page that is served', () => {
    expect(takeText(null)).toBe('');
    expect(takeText(place('  \n'))).toBe('');
  });
});

describe('loading', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('reads a container inside the page', async () => {
    const fetched = vi.fn();
    vi.stubGlobal('fetch', fetched);
    const model = await loadModel(place(toBase64(await sampleContainer(SAMPLE))), () => undefined);
    expect(model.runs[0]!.devices[0]!.blocks.count).toBe(1);
    expect(fetched).not.toHaveBeenCalled();
  });

  it('fetches one beside the page, and tells how far it is', async () => {
    const bytes = await sampleContainer(SAMPLE), told: (number | null)[] = [];
    const answer = new Response(bytes, { headers: { 'Content-Length': String(bytes.length) } });
    const fetched = vi.fn((_address: string) => Promise.resolve(answer));
    vi.stubGlobal('fetch', fetched);
    const model = await loadModel(place(''), (_, share) => told.push(share));
    expect(fetched.mock.calls[0]![0]).toBe('data');
    expect(model.runs[0]!.devices[0]!.blocks.count).toBe(1);
    expect(told).toContain(1);
  });

  it('says what went wrong in words', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
    await expect(loadModel(null, () => undefined)).rejects.toThrow('this page has no recording in it');
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('', { status: 404, statusText: 'Not Found' })));
    await expect(loadModel(null, () => undefined)).rejects.toThrow('the server answered 404 Not Found');
    const text = toBase64(await sampleContainer(SAMPLE));
    await expect(loadModel(place(text.slice(0, 1001)), () => undefined)).rejects.toThrow('cut short');
  });
});

describe('a body', () => {
  it('may be longer than announced, or not announced at all', async () => {
    const shares: (number | null)[] = [];
    const lying = new Response(new Uint8Array(10), { headers: { 'Content-Length': '4' } });
    expect((await readBody(lying, (share) => shares.push(share))).length).toBe(10);
    expect(Math.max(...shares.map(Number))).toBe(1);
    shares.length = 0;
    expect((await readBody(new Response(new Uint8Array(10)), (share) => shares.push(share))).length).toBe(10);
    expect(new Set(shares)).toEqual(new Set([null]));
  });
});
