/** A part of the text that is not written yet. */
type Token = { readonly literal: string } | { readonly value: unknown }

/**
 * Text that is the same for the same JSON value, whatever the order of its keys. Not recursive, because a body may be
 * nested deeper than the call stack allows.
 */
export function canonicalJson(value: unknown): string {
  const text: string[] = []
  const stack: Token[] = [{ value }]
  for (let token = stack.pop(); token !== undefined; token = stack.pop()) {
    if ('literal' in token) text.push(token.literal)
    else if (Array.isArray(token.value)) pushArray(stack, token.value)
    else if (isObject(token.value)) pushObject(stack, token.value)
    else text.push(JSON.stringify(token.value) ?? '')
  }
  return text.join('')
}

function pushArray(stack: Token[], items: readonly unknown[]): void {
  stack.push({ literal: ']' })
  for (let index = items.length - 1; index >= 0; index--) {
    stack.push({ value: items[index] }, { literal: index === 0 ? '' : ',' })
  }
  stack.push({ literal: '[' })
}

function pushObject(stack: Token[], object: Readonly<Record<string, unknown>>): void {
  stack.push({ literal: '}' })
  const keys = Object.keys(object).sort()
  for (let index = keys.length - 1; index >= 0; index--) {
    const key = keys[index] as string
    const label = `${index === 0 ? '' : ','}${JSON.stringify(key)}:`
    stack.push({ value: object[key] }, { literal: label })
  }
  stack.push({ literal: '{' })
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
