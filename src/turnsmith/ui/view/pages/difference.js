// Difference of two lists of lines: a longest common subsequence.

const MAX_CELLS = 16_000_000;

/** Return lines with signs, `- ` (only in the first list), `+ ` (only in the second) or two spaces; null if they are too long. */
export function compareLines(one, other) {
  let start = 0;
  while (start < Math.min(one.length, other.length) && one[start] === other[start]) start++;
  let end = 0;
  while (end < Math.min(one.length, other.length) - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  const middle = compareMiddle(one.slice(start, one.length - end), other.slice(start, other.length - end));
  const same = (line) => `  ${line}`;
  return middle && [...one.slice(0, start).map(same), ...middle, ...one.slice(one.length - end).map(same)];
}

/** Walk through the table of the longest common subsequences of all ends of both lists. */
function compareMiddle(one, other) {
  const width = other.length + 1;
  if ((one.length + 1) * width > MAX_CELLS) return null;
  const longest = new Uint32Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = other.length - 1; j >= 0; j--)
      longest[i * width + j] = one[i] === other[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < one.length || j < other.length) {
    const below = i < one.length ? longest[(i + 1) * width + j] : -1;
    const right = j < other.length ? longest[i * width + j + 1] : -1;
    if (i < one.length && one[i] === other[j]) {
      lines.push(`  ${one[i++]}`);
      j++;
    } else if (below >= right) lines.push(`- ${one[i++]}`);
    else lines.push(`+ ${other[j++]}`);
  }
  return lines;
}
