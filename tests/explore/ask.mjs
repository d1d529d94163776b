// Ask the page in a folder, as its views would: node ask.mjs FOLDER < requests > answers, both JSON.
// A request is [method, argument]; an answer is {answer} or {problem}.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const { LocalSource } = await import(pathToFileURL(join(folder, "local.js")));
const source = await LocalSource.open("", async (name) => readFileSync(join(folder, name)));
const answers = [];
for (const [method, argument] of JSON.parse(readFileSync(0, "utf-8"))) {
  try {
    answers.push({ answer: await source[method](argument) });
  } catch (error) {
    const { name, status, detail, message } = error;
    const other = { status: 500, detail: error.stack ?? message };
    answers.push({ problem: name === "Problem" ? { status, detail } : other });
  }
}
process.stdout.write(JSON.stringify(answers));
