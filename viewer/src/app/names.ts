// What recordings are called where there is little room: without the folders that they share.

export function shortNames(files: readonly string[]): string[] {
  const parts = files.map((file) => file.split('/'));
  let shared = Math.min(...parts.map((one) => one.length - 1));
  for (let i = 0; i < shared; i++) if (parts.some((one) => one[i] !== parts[0]![i])) shared = i;
  return parts.map((one) => one.slice(shared).join('/'));
}
