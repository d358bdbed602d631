// Elements without markup: texts become text nodes and attributes are set one by one, so that nothing of
// a recording can become an element or a script.

export type Child = Node | string | number | null | undefined | false;

/** `on...`: a listener. `false`, null, undefined: the attribute is left out. `true`: it is empty. */
export interface Attributes {
  readonly [name: string]: string | number | boolean | null | undefined | ((event: never) => void);
}

const LEADS_SOMEWHERE = ['href', 'src', 'action', 'formaction', 'xlink:href'];
const HARMLESS = /^(#|blob:|data:image\/|https?:\/\/)/; // a script can be an address too

const SVG = 'http://www.w3.org/2000/svg';

function dress(element: Element, attributes: Attributes, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      if (!name.startsWith('on')) throw new Error(`'${name}' takes no function`);
      element.addEventListener(name.slice(2), value as EventListener);
    } else if (name.startsWith('on') || name === 'srcdoc') {
      throw new Error(`'${name}' cannot be a text`);
    } else if (value !== null && value !== undefined && value !== false) {
      if (LEADS_SOMEWHERE.includes(name) && !HARMLESS.test(String(value))) throw new Error(`'${name}' cannot lead to '${value}'`);
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, children);
}

/** h('button', { class: 'plain', onclick: go }, 'Go') */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  dress(element, attributes, children);
  return element;
}

/** The same for SVG: svg('rect', { x: 1, y: 2, width: 3, height: 4 }) */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  dress(element, attributes, children);
  return element;
}

export function append(parent: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Everything below `parent` goes, `children` come. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}
