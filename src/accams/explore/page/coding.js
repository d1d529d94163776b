// Coded labels and integers: asymmetric numeral systems with a state of 32 bits, and packed bits.

import { need, NUMBERS } from "./container.js";

const PRECISIONS = [8, 10, 12, 14];
const MOST_PRECISION = 14;
export const MOST_LABELS = 1 << MOST_PRECISION;
const LONGEST = 64; // bits of an integer
const HEAD = 6; // bytes: precision, number of frequencies, length of the coded lengths
const EXACT = 53; // bits of an integer that a number holds
const CUT = "its labels or numbers are cut short or damaged";

/** Return the narrowest array for labels below k. */
export function labelArray(size, k) {
  return k <= 256 ? new Uint8Array(size) : k <= 65536 ? new Uint16Array(size) : new Uint32Array(size);
}

/**
 * Decode segments of symbols: segment q has lengths[q] of them, below k[q], with frequencies in `freq` (those of all
 * segments side by side) out of 2^precision[q].
 */
function decodeSymbols(stream, lengths, k, freq, precision) {
  need(stream.length % 2 === 0 && stream.length >= 4, CUT);
  const words = (at) => stream[2 * at] | (stream[2 * at + 1] << 8);
  const nWords = stream.length / 2;
  let state = words(0) * 65536 + words(1);
  let at = 2;
  let first = 0;
  const symbolAt = new Uint16Array(MOST_LABELS);
  const out = [];
  for (let q = 0; q < k.length; q++) {
    const bits = precision[q];
    need(k[q] <= MOST_LABELS && PRECISIONS.includes(bits), "its label frequencies are invalid");
    const begin = new Int32Array(k[q]);
    let total = 0;
    for (let a = 0; a < k[q]; a++) {
      const f = freq[first + a];
      need(f >= 0 && total + f <= 1 << bits, "its label frequencies are invalid");
      begin[a] = total;
      symbolAt.fill(a, total, total + f);
      total += f;
    }
    need(total === 1 << bits, "its label frequencies are invalid");
    const mask = (1 << bits) - 1;
    const symbols = labelArray(lengths[q], k[q]);
    for (let p = 0; p < symbols.length; p++) {
      const slot = state & mask;
      const a = symbolAt[slot];
      state = freq[first + a] * (state >>> bits) + slot - begin[a];
      if (state < 65536) {
        need(at < nWords, CUT);
        state = state * 65536 + words(at++);
      }
      symbols[p] = a;
    }
    out.push(symbols);
    first += k[q];
  }
  need(state === 65536 && at === nWords, CUT);
  return out;
}

/** Decode labels: one array for each length, whose labels are below its k. */
export function decodeLabels(stream, models, lengths, k) {
  const numbers = decodeNumbers(models, k.length + k.reduce((sum, x) => sum + x, 0));
  const precision = numbers.slice(0, k.length);
  const freq = numbers.slice(k.length);
  let first = 0;
  k.forEach((size, q) => {
    if (precision[q] === 0 && size <= MOST_LABELS) { // all equally frequent
      precision[q] = MOST_PRECISION;
      const left = MOST_LABELS % size;
      for (let a = 0; a < size; a++) freq[first + a] += Math.floor(MOST_LABELS / size) + (a < left ? 1 : 0);
    }
    first += size;
  });
  return decodeSymbols(stream.bytes, lengths, k, freq, precision);
}

/** Decode integers: as a Float64Array, or a BigInt64Array where numbers would not be exact. */
export function decodeInts({ dtype, shape, bytes }, size) {
  need(dtype === "U8" && shape.length === 1 && bytes.length >= HEAD, CUT);
  NUMBERS.check(size, bytes.length);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [precision, nLengths, nBytes] = [view.getUint8(0), view.getUint8(1), view.getUint32(2, true)];
  const begin = HEAD + 2 * nLengths;
  need(nLengths >= 1 && nLengths <= LONGEST + 1 && bytes.length >= begin + nBytes, CUT);
  const freq = Array.from({ length: nLengths }, (_, a) => view.getUint16(HEAD + 2 * a, true));
  const coded = bytes.subarray(begin, begin + nBytes);
  const [lengths] = decodeSymbols(coded, [size], [nLengths], freq, [precision]);
  const rest = bytes.subarray(begin + nBytes);
  let bits = 0;
  let longest = 0;
  for (const length of lengths) {
    bits += Math.max(length - 1, 0);
    longest = Math.max(longest, length);
  }
  const end = Math.ceil(bits / 8);
  need(rest.length >= end, CUT);
  need(rest.length === end || (size > NUMBERS.free && rest.subarray(end).every((byte) => byte === 0)), CUT);
  return longest > EXACT ? bigInts(rest, lengths) : plainInts(rest, lengths);
}

/** Undo zigzag: 0, 1, 2, 3, ... are 0, -1, 1, -2, ... */
function plainInts(data, lengths) {
  const out = new Float64Array(lengths.length);
  let at = 0;
  for (let p = 0; p < out.length; p++) {
    const width = Math.max(lengths[p] - 1, 0);
    const low = readBits(data, at, Math.min(width, 24));
    const high = width > 24 ? readBits(data, at + 24, width - 24) * 2 ** 24 : 0;
    const zigzag = (lengths[p] ? 2 ** width : 0) + high + low;
    out[p] = zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
    at += width;
  }
  return out;
}

function bigInts(data, lengths) {
  const out = new BigInt64Array(lengths.length);
  let at = 0;
  for (let p = 0; p < out.length; p++) {
    const width = Math.max(lengths[p] - 1, 0);
    let zigzag = lengths[p] ? 1n << BigInt(width) : 0n;
    for (let got = 0; got < width; got += 24) {
      zigzag |= BigInt(readBits(data, at + got, Math.min(24, width - got))) << BigInt(got);
    }
    out[p] = (zigzag >> 1n) ^ -(zigzag & 1n);
    at += width;
  }
  return out;
}

/** Read up to 32 bits, lowest first, from bit `at` on. */
function readBits(data, at, width) {
  let value = 0;
  let scale = 1;
  for (let got = 0; got < width; ) {
    const take = Math.min(8 - (at & 7), width - got);
    value += ((data[at >>> 3] >> (at & 7)) & ((1 << take) - 1)) * scale;
    scale *= 1 << take;
    got += take;
    at += take;
  }
  return value;
}

/** Decode integers as numbers, rounded where they do not fit. */
export function decodeNumbers(tensor, size) {
  const ints = decodeInts(tensor, size);
  return ints instanceof Float64Array ? ints : Float64Array.from(ints, Number);
}

/** Unpack labels of `width` bits each, which have to be below k. */
export function unpackLabels(data, size, width, k) {
  const out = labelArray(size, k);
  const mask = 2 ** width - 1;
  let [bits, held, at] = [0, 0, 0];
  for (let p = 0; p < size && width; p++) {
    if (width > 16) {
      out[p] = readBits(data, p * width, width);
    } else {
      for (; held < width; held += 8) bits |= data[at++] << held;
      out[p] = bits & mask;
      bits >>>= width;
      held -= width;
    }
    need(out[p] < k, "its labels are out of range");
  }
  return out;
}

/** Return running sums, exact: of numbers, or of integers of 64 bits where numbers would not do. */
export function runningSums(steps) {
  if (steps instanceof Float64Array) {
    let sum = 0;
    const out = steps.map((x) => (sum += x));
    if (out.every((x) => Number.isSafeInteger(x))) return out;
  }
  let sum = 0n;
  return BigInt64Array.from(steps, (x) => (sum = BigInt.asIntN(64, sum + BigInt(x))));
}
