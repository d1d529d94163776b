// Search titles, and quantiles of the normal distribution: node find.mjs PAGE < {titles, weights, ids, queries, n, p}.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const page = (name) => import(pathToFileURL(join(process.argv[2], name)));
const { Search } = await page("search.js");
const { quantile } = await page("normal.js");
const { titles, weights, ids, queries, n, p } = JSON.parse(readFileSync(0, "utf-8"));
const search = await Search.of(titles, weights, ids);
const found = queries.map((query) => search.find(query, n).map(({ position, score }) => [position, score]));
process.stdout.write(JSON.stringify({ found, quantiles: p.map(quantile) }));
