// Order places by score, thin them out, and draw discs: node draw.mjs PAGE < {scores, among, size, discs}, discs of
// {colour, x, y, r}.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const page = (name) => import(pathToFileURL(join(process.argv[2], name)));
const { ranked } = await page("scoring.js");
const { Dots, thinned } = await page("dots.js");
const { scores, among, size, discs } = JSON.parse(readFileSync(0, "utf-8"));
const [width, height] = size;
const made = [];
const pen = {
  canvas: { width, height },
  fillStyle: "",
  createImageData: (w, h) => ({ width: w, height: h, data: new Uint8ClampedArray(4 * w * h) }),
  putImageData: (image) => made.push(Array.from(image.data)),
};
const dots = new Dots();
for (let turn = 0; turn < 2; turn += 1) { // the second picture is the same as the first
  dots.begin(pen, "#ffffff");
  for (const { colour, x, y, r } of discs) dots.draw(pen, colour, [0], [x], [y], [r / 2], 2);
  dots.end(pen);
}
const order = Array.from(ranked(scores, among));
const rank = [];
order.forEach((p, k) => { rank[p] = k; });
const thin = [1, 100, 1000, among.length].map((most) => thinned([among.slice(0, 700), among.slice(700)], rank, most));
process.stdout.write(JSON.stringify({ order, made, thin }));
