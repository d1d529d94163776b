// The container of model files: safetensors with a header of accams and checksums over every byte.

export class ModelFileError extends Error {
  constructor(reason, isIntact = false) {
    super(isIntact ? reason : `this is not an accams model, or it is damaged (${reason})`);
    this.name = "ModelFileError";
  }
}

/** Throw unless something holds that every intact file has. */
export function need(holds, reason) {
  if (!holds) throw new ModelFileError(reason);
}

const LONGEST_HEADER = 1 << 24;
const MOST_DIMENSIONS = 8;
const LARGEST = 2 ** 48;
const BYTES = { U8: 1, I8: 1, BOOL: 1, U16: 2, I16: 2, F16: 2, U32: 4, I32: 4, F32: 4, U64: 8, I64: 8, F64: 8 };
const CHECKSUM = new TextEncoder().encode('"checksum":"');

const CRC_TABLE = new Uint32Array(256).map((_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

/** CRC-32 (that of zlib) of several pieces of bytes, one after another. */
export function crc32(...pieces) {
  let crc = 0xffffffff;
  for (const bytes of pieces) {
    for (let p = 0; p < bytes.length; p++) crc = CRC_TABLE[(crc ^ bytes[p]) & 255] ^ (crc >>> 8);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * What a file may unfold to: `free` of something, or `perByte` for each stored byte. A few bytes can stand for very
 * many zeros, so a small file could ask for any amount of memory.
 */
export class Limit {
  constructor(what, free, perByte) {
    Object.assign(this, { what, free, perByte });
  }

  check(size, stored) {
    need(size <= Math.max(this.free, this.perByte * stored), `${size} ${this.what} cannot come from ${stored} bytes`);
  }
}

export const NUMBERS = new Limit("numbers", 1 << 22, 64);
export const LABELS = new Limit("labels", 1 << 24, 1000);
export const STENCILS = new Limit("stencils", 1 << 12, 1);

/** Parse JSON as Python writes it: NaN and Infinity, which JSON does not have, become null. */
export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    const parts = [];
    for (let at = 0; at < text.length; ) {
      let quote = text.indexOf('"', at);
      if (quote < 0) quote = text.length;
      parts.push(text.slice(at, quote).replace(/-?Infinity|NaN/g, "null"));
      let end = quote + 1;
      while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      parts.push(text.slice(quote, end + 1));
      at = end + 1;
    }
    return JSON.parse(parts.join(""));
  }
}

function findBytes(bytes, wanted) {
  for (let p = bytes.indexOf(wanted[0]); p >= 0; p = bytes.indexOf(wanted[0], p + 1)) {
    if (wanted.every((byte, q) => bytes[p + q] === byte)) return p;
  }
  return -1;
}

/** Return our header, the table of tensors, and where the tensors begin. */
function readHeader(data) {
  need(data.length >= 8, "the file is truncated");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const length = view.getUint32(0, true) + 2 ** 32 * view.getUint32(4, true);
  need(length <= Math.min(data.length - 8, LONGEST_HEADER), "the file is truncated, or its header is too long");
  const text = data.subarray(8, 8 + length);
  const digits = findBytes(text, CHECKSUM) + CHECKSUM.length;
  need(digits >= CHECKSUM.length && digits + 8 <= length, "the header has no checksum");
  const zeros = new Uint8Array(8).fill(48);
  const crc = crc32(data.subarray(0, 8), text.subarray(0, digits), zeros, text.subarray(digits + 8));
  const written = String.fromCharCode(...text.subarray(digits, digits + 8));
  need(written === crc.toString(16).padStart(8, "0"), "the header does not match its checksum");
  const { __metadata__: metadata, ...table } = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(text));
  return [parseJson(metadata.accams), table, 8 + length];
}

/** Return the tensors by name, each {dtype, shape, bytes, count}, after verifying all checksums. */
function readTensors(data, table, checksums) {
  const tensors = new Map();
  const entries = Object.entries(table).sort(([, a], [, b]) => {
    const [one, two] = [a.data_offsets, b.data_offsets];
    return one[0] - two[0] || one[1] - two[1];
  });
  let last = 0;
  for (const [name, { dtype, shape, data_offsets: offsets }] of entries) {
    const sized = shape.length <= MOST_DIMENSIONS && shape.every((x) => Number.isInteger(x) && x >= 0 && x < LARGEST);
    need(sized && Object.hasOwn(BYTES, dtype), `the shape or type of tensor '${name}' cannot be`);
    const count = shape.reduce((product, x) => product * x, 1);
    const [begin, end] = offsets;
    const fits = begin === last && end <= data.length && end - begin === count * BYTES[dtype];
    need(fits, `the offsets of tensor '${name}' do not fit its shape and the file`);
    const bytes = data.subarray(begin, end);
    need(crc32(bytes) === checksums[name], `tensor '${name}' does not match its checksum`);
    tensors.set(name, { dtype, shape, bytes, count });
    last = end;
  }
  const complete = last === data.length && Object.keys(checksums).length === tensors.size;
  need(complete, "the tensors are incomplete, or bytes follow them");
  return tensors;
}

/** Read the header and the tensors of a file of this kind, none newer than `newest`. */
export function readContainer(data, kind, newest) {
  const [header, table, begin] = readHeader(data);
  need(header.kind === kind, `it is a ${String(header.kind).slice(0, 20)}`);
  need(Number.isInteger(header.format) && header.format >= 1, "its format is not a positive integer");
  if (header.format > newest) {
    throw new ModelFileError("this model was written by a newer version of accams than this page", true);
  }
  return { header, tensors: readTensors(data.subarray(begin), table, header.checksums) };
}

/** Return floats of 16 or 32 bits as Float32Array, whatever the alignment. */
export function floats({ dtype, bytes, count }) {
  need(dtype === "F32" || dtype === "F16", "its numbers are of a wrong type");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(count);
  const single = (p) => view.getFloat32(4 * p, true);
  const read = dtype === "F32" ? single : (p) => half(view.getUint16(2 * p, true));
  for (let p = 0; p < count; p++) out[p] = read(p);
  return out;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}
