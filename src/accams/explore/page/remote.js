// A model that a service answers for.

import { Problem } from "./problem.js";

const KEY = "accams-token";

async function answered(response) {
  if (response.ok) return response.json();
  let detail = `the service answered ${response.status}`;
  if (response.headers.get("content-type")?.startsWith("application/problem+json")) {
    detail = (await response.json()).detail;
  }
  throw new Problem(response.status, detail);
}

async function asked(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  try {
    return await answered(await fetch(path, { ...options, headers }));
  } catch (error) {
    if (error instanceof TypeError) throw new Problem(503, "the service cannot be reached: is it still running?");
    throw error;
  }
}

/** Keep the token of the service until the browser's tab is closed. */
export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

/** Answers of a service about one of its models; refused requests throw a Problem. */
export class RemoteSource {
  /** Return a source for each model of the service. */
  static async all() {
    const { models } = await asked("v1/models");
    return models.map((info) => new RemoteSource(info));
  }

  constructor(info) {
    this.info = info;
  }

  get(path, parameters = {}) {
    const given = Object.entries({ ...parameters, model: this.info.model });
    const query = new URLSearchParams(given.filter(([, x]) => x !== null && x !== undefined));
    return asked(`v1/${path}?${query}`);
  }

  post(path, request) {
    const body = JSON.stringify({ ...request, model: this.info.model });
    return asked(`v1/${path}`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
  }

  model() {
    return this.get("model");
  }

  recommend(request) {
    return this.post("recommend", request);
  }

  predict(request) {
    return this.post("predict", request);
  }

  explain(request) {
    return this.post("explain", request);
  }

  similar(request) {
    return this.get("similar", request);
  }

  hierarchy(request) {
    return this.get("hierarchy", request);
  }

  search(request) {
    return this.get("search", request);
  }

  items(request) {
    return this.get("items", request);
  }

  item(id) {
    return this.get("items", { id }); // not in the path, from which browsers take dots
  }

  user(id) {
    return this.get("users", { id });
  }

  stencils() {
    return this.get("stencils");
  }

  stencil(number) {
    return this.get(`stencils/${number}`);
  }

  map() {
    return this.get("map");
  }
}
