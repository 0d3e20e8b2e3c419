let serial = 0

/** A valid body of a create with an e-mail that no other has. The given fields replace the defaults. */
export function newUserBody(fields: Record<string, unknown> = {}): {
  user: Record<string, unknown>
} {
  serial++
  return { user: { name: `User ${serial}`, email: `user${serial}@example.com`, ...fields } }
}
