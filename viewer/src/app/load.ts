// Where the data comes from: base64 inside the page, or, for a page that is served, `data` beside it.

import { readContainer } from '../data/container';
import type { Model } from '../data/model';

/** How far it is, 0 to 1; null: not known. */
export type Progress = (what: string, share: number | null) => void;

const CHUNK = 1 << 22; // characters decoded in one go: some milliseconds

/** Lets the browser draw and answer. Unlike a timer, it is not slowed down in a tab behind others. */
function breathe(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const SKIP = 64, BAD = 65;

function makeValues(): Uint8Array {
  const values = new Uint8Array(128).fill(BAD);
  for (let i = 0; i < 64; i++) values[DIGITS.charCodeAt(i)] = i;
  for (const character of ' \t\n\r\f=') values[character.charCodeAt(0)] = SKIP;
  return values;
}

/** White space is skipped, as in any base64 in a page. */
export async function decodeBase64(text: string, tell: (share: number) => void = () => undefined): Promise<Uint8Array> {
  const values = makeValues();
  const out = new Uint8Array(Math.floor((text.length * 3) / 4) + 3);
  let length = 0, held = 0, bits = 0;
  for (let start = 0; start < text.length; start += CHUNK) {
    const end = Math.min(start + CHUNK, text.length);
    for (let i = start; i < end; i++) {
      const code = text.charCodeAt(i), value = code < 128 ? values[code]! : BAD;
      if (value === SKIP) continue;
      if (value === BAD) throw new Error(`character ${i} of the data is not base64`);
      held = ((held << 6) | value) & 0xffff;
      bits += 6;
      if (bits >= 8) {
        bits -= 8;
        out[length++] = held >>> bits;
      }
    }
    tell(end / text.length);
    if (end < text.length) await breathe();
  }
  return out.subarray(0, length);
}

/** Reads a body to its end. What arrives may be more than was announced, or nothing was. */
export async function readBody(response: Response, tell: (share: number | null) => void): Promise<Uint8Array> {
  const announced = Number(response.headers.get('Content-Length') ?? 0);
  if (response.body === null) return new Uint8Array(await response.arrayBuffer());
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
    tell(announced > 0 ? Math.min(1, length / announced) : null);
  }
  const out = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

async function fetchData(tell: Progress): Promise<Uint8Array> {
  let response: Response;
  try {
    response = await fetch('data', { credentials: 'same-origin', cache: 'no-store' });
  } catch {
    throw new Error('this page has no recording in it, and none is served beside it; `vramwise view FILE` writes a page with one');
  }
  if (!response.ok) throw new Error(`the recording was asked for and the server answered ${response.status} ${response.statusText}`.trim());
  return readBody(response, (share) => tell('Fetching the recording', share));
}

/** Takes the text out of the page, so that only the decoded bytes stay in memory. */
export function takeText(element: HTMLElement | null): string {
  const text = element?.textContent ?? '';
  if (element !== null) element.textContent = '';
  return /\S/.test(text) ? text : '';
}

async function bytesOf(element: HTMLElement | null, tell: Progress): Promise<Uint8Array> {
  const text = takeText(element);
  if (text === '') return fetchData(tell);
  return decodeBase64(text, (share) => tell('Reading the recording', share));
}

export async function loadModel(element: HTMLElement | null, tell: Progress): Promise<Model> {
  const bytes = await bytesOf(element, tell);
  tell('Unpacking', null);
  await breathe();
  return readContainer(bytes);
}
