// Read model files: node read.mjs PAGE < [base64, ...] > [{model} or {refused}, ...]; an error of another kind ends it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const page = (name) => import(pathToFileURL(join(process.argv[2], name)));
const { ModelFileError, readModel } = await page("reader.js");
const { Codes } = await page("codes.js");

const number = (x) => (typeof x === "bigint" ? String(x) : x);
const plain = (_, x) => (ArrayBuffer.isView(x) ? Array.from(x, number) : x);

function read(bytes) {
  try {
    const model = readModel(bytes);
    const codes = Codes.of(model.stencils);
    const [m, n] = model.shape;
    const cells = [];
    for (let i = -1; i < Math.min(m, 30); i++) {
      for (let j = -1; j < Math.min(n, 30); j++) cells.push(codes.predict(i, j));
    }
    return { model, cells };
  } catch (error) {
    if (!(error instanceof ModelFileError)) throw error;
    return { refused: error.message };
  }
}

/** Flip each byte of a file, and cut it at each length: it is refused, or says the same. */
function damage(bytes) {
  const intact = JSON.stringify(read(bytes), plain);
  const count = { refused: 0, same: 0, different: 0 };
  const outcome = (damaged) => {
    const result = read(damaged);
    count[result.refused ? "refused" : JSON.stringify(result, plain) === intact ? "same" : "different"]++;
  };
  for (let p = 0; p < bytes.length; p++) {
    for (const mask of [1, 32, 255]) {
      const flipped = Uint8Array.from(bytes);
      flipped[p] ^= mask;
      outcome(flipped);
    }
    outcome(bytes.subarray(0, p));
  }
  outcome(Uint8Array.from([...bytes, 0]));
  return count;
}

const files = JSON.parse(readFileSync(0, "utf-8")).map((text) => new Uint8Array(Buffer.from(text, "base64")));
process.stdout.write(JSON.stringify(process.argv[3] === "damage" ? files.map(damage) : files.map(read), plain));
