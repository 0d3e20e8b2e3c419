/** The element with an id of the page. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`no element #${id}`)
  return found as T
}

type Child = Node | string

/** A new element with attributes and children. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/** Changes the text of an element only if it differs, so that a selection and the screen stay as they are. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text
}

/** Sets an attribute, or removes it. */
export function setAttribute(target: Element, name: string, value: string | undefined): void {
  if (value === undefined) target.removeAttribute(name)
  else if (target.getAttribute(name) !== value) target.setAttribute(name, value)
}

/** What `syncChildren` needs to know. */
export interface ChildrenOf<T, E extends HTMLElement> {
  readonly keyOf: (item: T) => string
  readonly create: (item: T) => E
  readonly update?: (child: E, item: T) => void
}

/** Makes the children of an element those of `items`. A child whose key stays is kept, with its focus. */
export function syncChildren<T, E extends HTMLElement>(
  parent: HTMLElement,
  items: readonly T[],
  { keyOf, create, update }: ChildrenOf<T, E>,
): void {
  const known = new Map<string, E>()
  for (const child of parent.children) {
    known.set((child as HTMLElement).dataset.key ?? '', child as E)
  }
  let next = parent.firstElementChild
  for (const item of items) {
    const key = keyOf(item)
    const child = known.get(key) ?? create(item)
    known.delete(key)
    child.dataset.key = key
    update?.(child, item)
    if (child === next) next = child.nextElementSibling
    else parent.insertBefore(child, next)
  }
  for (const child of known.values()) child.remove()
}

/** Makes the children of a description list those of `facts`, each a term with its value. */
export function showFacts(
  list: HTMLElement,
  facts: readonly (readonly [term: string, value: string])[],
): void {
  syncChildren(list, facts, {
    keyOf: ([term]) => term,
    create: ([term]) => element('div', {}, element('dt', {}, term), element('dd')),
    update: (row, [, value]) => setText(row.lastElementChild as Element, value),
  })
}
