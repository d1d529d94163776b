// What went wrong with a request, in the words of the service.

const TITLES = { 404: "Not Found", 422: "Unprocessable Content" };

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    Object.assign(this, { name: "Problem", type: "about:blank", title: TITLES[status] ?? "Error", status, detail });
  }
}

/** Throw a problem unless a request is as it has to be. */
export function expect(holds, detail) {
  if (!holds) throw new Problem(422, detail);
}
