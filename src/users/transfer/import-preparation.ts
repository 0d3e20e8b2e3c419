import type { PasswordHasher } from '../passwords/hasher.ts'
import type { ImportRecord } from './import-batches.ts'
import type { ImportRow, ImportRules } from './import-rules.ts'
import { errorsByField, type Prepared, type RejectedRow } from './import-settlement.ts'
import type { ConflictPolicy, UserImportStore } from './user-import-store.ts'

export interface PreparationOptions {
  readonly store: Pick<UserImportStore, 'findDigestsByEmail'>
  readonly rules: ImportRules
  readonly passwords: PasswordHasher
  readonly onConflict: ConflictPolicy
}

/** Validates the records of a batch and hashes their passwords, in the order of the records. */
export async function prepareBatch(
  batch: readonly ImportRecord[],
  { store, rules, passwords, onConflict }: PreparationOptions,
): Promise<readonly Prepared[]> {
  const rows = batch.map(record => parseRecord(record, rules))
  const emails = rows.flatMap(row => ('email' in row && row.password != null ? [row.email] : []))
  const mayExist = onConflict !== 'fail' && emails.length > 0
  const known = mayExist ? await store.findDigestsByEmail(emails) : new Map<string, string | null>()
  /** By e-mail and password: if a row comes twice, both get the same salt, or the second would count as a change. */
  const digests = new Map<string, Promise<string>>()

  async function prepare(row: ImportRow | { readonly rejected: RejectedRow }): Promise<Prepared> {
    if ('rejected' in row) return row
    const { password, ...user } = row
    if (password == null) return { user }
    // Skipped before its password is hashed, because hashing takes long.
    if (onConflict === 'skip' && known.has(user.email)) return { isSkipped: true }
    return { user: { ...user, passwordDigest: await digestOf(user.email, password) } }
  }

  function digestOf(email: string, password: string): Promise<string> {
    const key = JSON.stringify([email.toLowerCase(), password])
    const found = digests.get(key)
    if (found !== undefined) return found
    const digest = keepOrHash(known.get(email), password)
    digests.set(key, digest)
    return digest
  }

  async function keepOrHash(digest: string | null | undefined, password: string): Promise<string> {
    const isSame = digest != null && (await passwords.verify(digest, password))
    return isSame ? digest : passwords.hash(password)
  }

  return Promise.all(rows.map(prepare))
}

function parseRecord(
  { line, content }: ImportRecord,
  rules: ImportRules,
): ImportRow | { readonly rejected: RejectedRow } {
  if ('problem' in content) return { rejected: { line, errors: { row: [content.problem] } } }
  const parsed = rules.parseImported(content.row)
  if ('user' in parsed) return parsed.user
  return { rejected: { line, errors: errorsByField(parsed.errors) } }
}
