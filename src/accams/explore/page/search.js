// Search titles, with errors of typing: the twin of accams/use/search.py, with the same order and the same scores.

import { pauses } from "./pauses.js";
import { lowerBound } from "./scoring.js";

const [EXACT, PREFIX, WORDS] = [1, 0.9, 0.8];
const [LONGEST, LONGEST_WORD, LONGEST_QUERY, MOST_WORDS] = [500, 40, 200, 16];
const [ONE_EDIT, TWO_EDITS] = [3, 8]; // letters from which on a word may have so many
const NONE = 255;
const [CHUNK, PIECE] = [200, 4000]; // what is indexed at a time, and sorted
const PLAIN = { ß: "ss", ς: "σ", ø: "o", đ: "d", ð: "d", ł: "l", æ: "ae", œ: "oe", þ: "th", ı: "i" };
const APOSTROPHE = /['’](?=(?:s|t|d|m|re|ll|ve)(?![\p{L}\p{N}]))/gu; // which people leave out: schindlers list
const ASCII = /^[\0-\x7f]*$/;

/** Return text without case and accents. */
export function fold(text) {
  if (ASCII.test(text)) return text.toLowerCase();
  const lower = text.normalize("NFKD").toLowerCase().replace(/\p{M}/gu, "");
  return lower.replace(/[ßςøđðłæœþı]/g, (x) => PLAIN[x]);
}

/** Return the first n characters. */
function cut(text, n) {
  return text.length <= n ? text : Array.from(text.slice(0, 2 * n)).slice(0, n).join("");
}

/** Return the words of a text side by side, or what else there is of a text without any, and the words. */
export function wordsOf(text) {
  const folded = fold(text);
  const words = (folded.replace(APOSTROPHE, "").match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => cut(word, LONGEST_WORD));
  return [words.length ? words.join(" ") : folded.trim(), words];
}

/** Return the edits between two words (arrays of letters), or `allowed` + 1 where there are more. */
export function distance(a, b, allowed) {
  let before = null;
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const line = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      let x = Math.min(line[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      if (before && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) x = Math.min(x, before[j - 2] + 1);
      line.push(x);
      least = Math.min(least, x);
    }
    if (least > allowed + 1) return allowed + 1; // a swap may go back two lines, whose least is one lower
    [before, last] = [last, line];
  }
  return Math.min(last[b.length], allowed + 1);
}

/** Return a set of the letters of a word in 32 bits; different ones may share a bit. */
function maskOf(letters) {
  let mask = 0;
  for (const letter of letters) mask |= 1 << (letter.codePointAt(0) & 31);
  return mask;
}

function ones(x) {
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return (((x + (x >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}

const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const pause = pauses();

/** Do something for each, with pauses in between. */
async function slowly(all, what) {
  for (let p = 0; p < all.length; p++) {
    what(all[p], p);
    if (p % CHUNK === CHUNK - 1) await pause();
  }
}

/** Sort in pieces that are then merged, with pauses in between. */
async function sorted(all, compare) {
  let runs = [];
  for (let p = 0; p < all.length; p += PIECE) {
    runs.push(all.slice(p, p + PIECE).sort(compare));
    await pause();
  }
  while (runs.length > 1) {
    const longer = [];
    for (let r = 0; r < runs.length; r += 2) {
      longer.push(r + 1 < runs.length ? await merged(runs[r], runs[r + 1], compare) : runs[r]);
    }
    runs = longer;
  }
  return runs[0] ?? [];
}

async function merged(one, two, compare) {
  const out = [];
  let [a, b] = [0, 0];
  while (a < one.length && b < two.length) {
    out.push(compare(one[a], two[b]) <= 0 ? one[a++] : two[b++]);
    if (out.length % CHUNK === 0) await pause();
  }
  while (a < one.length) out.push(one[a++]);
  while (b < two.length) out.push(two[b++]);
  return out;
}

/** Find titles by a few words; `await Search.of(...)` builds the index in pieces, so that a page does not freeze. */
export class Search {
  static async of(titles, weights, ids = null) {
    const search = new Search();
    const vocabulary = new Map();
    const [ofTitle, ofWord, texts] = [[], [], []];
    await slowly(titles, (title, p) => {
      const [text, words] = wordsOf(cut(title, LONGEST));
      texts.push(text);
      for (const word of new Set(words)) {
        let number = vocabulary.get(word);
        if (number === undefined) vocabulary.set(word, (number = vocabulary.size));
        ofTitle.push(p);
        ofWord.push(number);
      }
    });
    search.weights = weights;
    await search.indexWords(vocabulary, ofTitle, ofWord);
    await search.indexTexts(texts);
    search.ids = new Map();
    await slowly(ids ?? [], (id, p) => {
      const key = fold(id);
      if (!search.ids.has(key)) search.ids.set(key, p);
    });
    return search;
  }

  /** Keep the words in order, the titles of each, its letters as bits of a mask, and its length. */
  async indexWords(vocabulary, ofTitle, ofWord) {
    this.names = await sorted([...vocabulary.keys()], byText);
    const rank = new Uint32Array(this.names.length);
    this.names.forEach((name, place) => (rank[vocabulary.get(name)] = place));
    this.starts = new Uint32Array(this.names.length + 1);
    await slowly(ofWord, (word) => this.starts[rank[word] + 1]++);
    for (let p = 0; p < this.names.length; p++) this.starts[p + 1] += this.starts[p];
    const at = this.starts.slice();
    this.postings = new Uint32Array(ofTitle.length);
    await slowly(ofWord, (word, p) => (this.postings[at[rank[word]]++] = ofTitle[p]));
    this.lengths = new Uint8Array(this.names.length);
    this.masks = new Uint32Array(this.names.length);
    await slowly(this.names, (name, p) => {
      const letters = Array.from(name);
      this.lengths[p] = letters.length;
      this.masks[p] = maskOf(letters);
    });
  }

  async indexTexts(texts) {
    const order = await sorted([...texts.keys()], (a, b) => byText(texts[a], texts[b]) || a - b);
    this.byText = Uint32Array.from(order);
    this.texts = order.map((p) => texts[p]);
  }

  /** Return the best n titles as {position, score}. */
  find(query, n = 10) {
    const asked = cut(query, LONGEST_QUERY);
    const [text, words] = wordsOf(asked);
    if (!text || n < 1) return [];
    const scores = words.length ? this.scores(words.slice(0, MOST_WORDS)) : new Float64Array(this.texts.length);
    for (let p = lowerBound(this.texts, text); p < this.texts.length && this.texts[p].startsWith(text); p++) {
      scores[this.byText[p]] = this.texts[p] === text ? EXACT : PREFIX;
    }
    const itself = this.ids.get(fold(asked));
    if (itself !== undefined) scores[itself] = EXACT;
    return this.best(scores, n);
  }

  /** Return the best n by score, then weight, then position. */
  best(scores, n) {
    const { weights } = this;
    const isBefore = (a, b) => scores[a] > scores[b] || (scores[a] === scores[b] && weights[a] > weights[b]);
    const best = [];
    for (let p = 0; p < scores.length; p++) {
      if (scores[p] === 0 || (best.length === n && !isBefore(p, best[n - 1]))) continue;
      let place = best.length;
      while (place > 0 && isBefore(p, best[place - 1])) place--;
      best.splice(place, 0, p);
      if (best.length > n) best.pop();
    }
    return best.map((position) => ({ position, score: scores[position] }));
  }

  /** Return the score of each title by its words, 0 where one of them is missing. */
  scores(words) {
    const total = new Uint16Array(this.texts.length);
    for (const word of words) {
      const best = new Uint8Array(this.texts.length).fill(NONE);
      const near = this.near(word);
      for (const edits of [2, 1]) for (const p of near[edits]) this.mark(best, p, p + 1, edits);
      const lo = lowerBound(this.names, word);
      let hi = lo;
      for (; hi < this.names.length && this.names[hi].startsWith(word); hi++);
      this.mark(best, lo, hi, 0);
      for (let p = 0; p < total.length; p++) total[p] += best[p];
    }
    const scores = new Float64Array(total.length);
    for (let p = 0; p < total.length; p++) if (total[p] < NONE) scores[p] = WORDS / (1 + total[p]);
    return scores;
  }

  mark(best, lo, hi, edits) {
    for (let q = this.starts[lo]; q < this.starts[hi]; q++) best[this.postings[q]] = edits;
  }

  /** Return the words of the vocabulary that are one edit and two edits from a word. */
  near(word) {
    const letters = Array.from(word);
    const allowed = letters.length < ONE_EDIT ? 0 : letters.length < TWO_EDITS ? 1 : 2;
    const found = [[], [], []];
    const mask = maskOf(letters);
    for (let p = 0; p < this.names.length && allowed; p++) {
      if (Math.abs(this.lengths[p] - letters.length) > allowed) continue;
      const other = this.masks[p];
      if (ones(other & ~mask) > allowed || ones(~other & mask) > allowed) continue;
      const edits = distance(letters, Array.from(this.names[p]), allowed);
      if (edits <= allowed) found[edits].push(p);
    }
    return found;
  }
}
