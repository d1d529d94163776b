// Many discs at once, written straight into the pixels: a canvas would take a second for 100,000 of them.

const STEPS = 4; // radii are rounded to so many steps a pixel
const ALPHA = 0.75;

export class Dots {
  constructor() {
    this.masks = new Map();
  }

  /** Begin a picture of the size of a canvas. */
  begin(pen, paper) {
    const { width, height } = pen.canvas;
    if (this.image?.width !== width || this.image.height !== height) this.image = pen.createImageData(width, height);
    const ground = new Uint8Array([...parsed(pen, paper), 255]);
    new Uint32Array(this.image.data.buffer).fill(new Uint32Array(ground.buffer)[0]);
  }

  /** Draw some points as discs of one colour, given where they are in pixels and their radii. */
  draw(pen, colour, points, px, py, radius, grown) {
    const [red, green, blue] = parsed(pen, colour);
    const { width, height } = this.image;
    const data = new Uint8Array(this.image.data.buffer); // integers: blending them is several times as fast
    for (const p of points) {
      const { wide, cover } = this.mask(radius[p] * grown);
      const left = Math.round(px[p]) - (wide >> 1); // plain numbers: arrays would take longer than the pixels
      const top = Math.round(py[p]) - (wide >> 1);
      const first = Math.max(0, -left);
      const last = Math.min(wide, width - left);
      const bottom = Math.min(wide, height - top);
      for (let b = Math.max(0, -top); b < bottom; b += 1) {
        let q = 4 * ((top + b) * width + left + first);
        for (let a = first; a < last; a += 1, q += 4) {
          const share = cover[b * wide + a];
          data[q] += ((red - data[q]) * share) >> 8;
          data[q + 1] += ((green - data[q + 1]) * share) >> 8;
          data[q + 2] += ((blue - data[q + 2]) * share) >> 8;
        }
      }
    }
  }

  end(pen) {
    pen.putImageData(this.image, 0, 0);
  }

  /** Return how much of each pixel around its centre a disc covers, in 256ths. */
  mask(radius) {
    const key = Math.max(1, Math.round(radius * STEPS));
    if (!this.masks.has(key)) {
      const r = key / STEPS;
      const half = Math.ceil(r);
      const wide = 2 * half + 1;
      const cover = new Uint8Array(wide * wide);
      cover.forEach((_, p) => {
        const apart = Math.hypot((p % wide) - half, Math.floor(p / wide) - half);
        cover[p] = 256 * ALPHA * Math.min(1, Math.max(0, r + 0.5 - apart)); // so that edges are smooth
      });
      this.masks.set(key, { wide, cover });
    }
    return this.masks.get(key);
  }
}

/** Return at most so many of some points, evenly spaced in their ranks. */
export function thinned(layers, rank, most, apart = 2) {
  if (layers.reduce((sum, layer) => sum + layer.length, 0) <= most) return layers;
  const fewer = layers.map((layer) => layer.filter((p) => rank[p] % apart === 0));
  return thinned(fewer, rank, most, 2 * apart); // powers of two: points stay the same while the map moves
}

/** Return red, green and blue of a colour without transparency, as the style sheet has them. */
function parsed(pen, colour) {
  pen.fillStyle = colour;
  return [1, 3, 5].map((at) => parseInt(pen.fillStyle.slice(at, at + 2), 16));
}
