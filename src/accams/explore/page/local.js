// A model that lives in the page: everything is computed from files beside it, without a server.

import { Answers } from "./answers.js";
import { ModelFileError, readModel } from "./reader.js";
import { Problem } from "./problem.js";

export { ModelFileError, Problem };

const fetched = (base) => async (name) => {
  const response = await fetch(new URL(name, base));
  if (!response.ok) throw new Problem(response.status, `${name} cannot be read`);
  return response.arrayBuffer();
};

/** The answers of the service, from files of a static site; refused requests throw a Problem. */
export class LocalSource {
  /** Open the site in this folder; `read` returns a file of it as bytes. */
  static async open(base, read = fetched(base)) {
    const text = async (name) => JSON.parse(new TextDecoder().decode(await read(name)));
    const [file, names, site] = await Promise.all([read("model.accams"), text("ids.json"), text("site.json")]);
    const model = readModel(file);
    await new Promise((resume) => setTimeout(resume, 0)); // so that a page can be drawn meanwhile
    return new LocalSource(new Answers(model, names, site));
  }

  constructor(answers) {
    this.answers = answers;
  }

  async models() {
    return { models: [this.answers.info] };
  }

  async model() {
    return this.answers.info;
  }

  async recommend(request) {
    if (request?.explain) await this.answers.prepare();
    return this.answers.recommend(request);
  }

  async predict(request) {
    return this.answers.predict(request);
  }

  async similar(request) {
    return this.answers.similar(request);
  }

  async explain(request) {
    await this.answers.prepare();
    return this.answers.explain(request);
  }

  async hierarchy(request) {
    return this.answers.hierarchy(request);
  }

  async search(request) {
    return this.answers.search(request);
  }

  async items(request) {
    return this.answers.bestKnown(request);
  }

  async item(id) {
    await this.answers.prepare();
    return this.answers.item(id);
  }

  async user(id) {
    await this.answers.prepare();
    return this.answers.user(id);
  }

  async stencils() {
    await this.answers.prepare();
    return this.answers.stencils();
  }

  async stencil(s) {
    await this.answers.prepare();
    return this.answers.stencil(s);
  }

  async map() {
    return this.answers.map();
  }
}
