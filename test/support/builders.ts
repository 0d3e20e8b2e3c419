let serial = 0

/** The body of a create that is right, with an address of its own, but for what is given. */
export function newUserBody(fields: Record<string, unknown> = {}): {
  user: Record<string, unknown>
} {
  serial++
  return { user: { name: `User ${serial}`, email: `user${serial}@example.com`, ...fields } }
}
