// Texts of a recording, for showing: names of functions and files may hold anything.

// Control characters but for tab and line end, and those that turn the direction of what follows: with them
// a name could make the words beside it read differently from what they say.
const MISLEADING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function cleanText(text: string): string {
  return text.replace(MISLEADING, '\ufffd');
}

/** For JSON.parse: every text in it is cleaned. */
export function cleanTexts(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? cleanText(value) : value;
}
