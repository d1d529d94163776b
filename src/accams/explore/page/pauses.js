// Long work in short pieces, so that a page can be drawn and answers to the mouse meanwhile.

const PIECE = 12; // milliseconds

const now = () => performance.now();

/** Return a function to be awaited often: it gives way to the page whenever a piece of work has taken long enough. */
export function pauses() {
  let began = now();
  return async () => {
    if (now() - began < PIECE) return;
    await new Promise((resume) => setTimeout(resume, 0));
    began = now();
  };
}
