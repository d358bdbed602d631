// How fluently a picture moves: wheel or pointer events for some seconds, one in every frame, and the
// time between the frames meanwhile. They are dispatched in the page: sent from outside, they would
// come in every other frame, and half of the work would not be seen.

export const SECONDS = 4;

/** In the page: `kind` of movement over the canvas for `seconds`; when each frame was, and how many
 * pictures were drawn. */
function move([kind, seconds, depth]) {
  const canvas = document.querySelector('#panel-timeline canvas');
  const counter = canvas.closest('[data-drawn]');
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const at = (left) => ({ clientX: left, clientY: y, bubbles: true, cancelable: true, pointerId: 7, button: 0, isPrimary: true });
  const steps = {
    zoom: (i) => canvas.dispatchEvent(new WheelEvent('wheel', { ...at(x), deltaY: i % (2 * depth) < depth ? -40 : 40 })),
    pan: (i) => canvas.dispatchEvent(new PointerEvent('pointermove', at(x + (box.width / 4) * Math.sin(i / 20)))),
  };
  return new Promise((resolve) => {
    const times = [], before = Number(counter.dataset.drawn);
    const between = new MessageChannel(); // events come between frames
    between.port1.onmessage = () => steps[kind](times.length);
    if (kind === 'pan') canvas.dispatchEvent(new PointerEvent('pointerdown', at(x)));
    const frame = (time) => {
      times.push(time);
      if (time - times[0] < 1000 * seconds) {
        between.port2.postMessage(null);
        requestAnimationFrame(frame);
        return;
      }
      between.port1.close();
      if (kind === 'pan') canvas.dispatchEvent(new PointerEvent('pointerup', at(x)));
      resolve({ times, pictures: Number(counter.dataset.drawn) - before });
    };
    requestAnimationFrame(frame);
  });
}

async function measure(page, kind, depth = 1) {
  const { times, pictures } = await page.evaluate(move, [kind, SECONDS, depth]);
  const gaps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const at = (share) => gaps[Math.min(gaps.length - 1, Math.floor(share * gaps.length))];
  return { median: 1000 / at(0.5), slowest: 1000 / at(0.95), pictures: pictures / SECONDS };
}

/** In by `depth` notches and out again, over and over. */
export const whileZooming = (page, depth) => measure(page, 'zoom', depth);

/** To and fro, with the button held. */
export const whilePanning = (page) => measure(page, 'pan');

/** In by so many notches of a wheel. */
export async function zoomIn(page, notches) {
  const box = await page.locator('#panel-timeline canvas').first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  for (let i = 0; i < notches; i++) await page.mouse.wheel(0, -120);
}
