/** An address as a browser takes it, with a dot in its domain. One that is half typed is words. */
const ADDRESS = /^[\w.!#$%&'*+/=?^`{|}~-]+@[a-z\d-]+(?:\.[a-z\d-]+)*\.[a-z][a-z\d-]+$/i

const ID = /^[1-9]\d{0,14}$/

/** The parameters of the list that find what somebody has typed: an id, an address, or words. */
export function searchParameters(typed: string): Partial<Record<'id' | 'email' | 'q', string>> {
  const text = typed.trim()
  if (text === '') return {}
  if (ID.test(text)) return { id: text }
  return ADDRESS.test(text) ? { email: text } : { q: text }
}

/** That a search has found nobody. */
export function describeNone(typed: string): string {
  const { id, email, q } = searchParameters(typed)
  if (id !== undefined) return `No user has the id ${id}.`
  if (email !== undefined) return `No user has the address ${email}.`
  return q === undefined ? 'There are no users yet.' : `No name or address has “${q}”.`
}
