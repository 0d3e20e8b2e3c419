import { z } from 'zod'
import { messagesByField } from '../../http/error-handler.ts'
import { instantMs, instantText, MAX_SHOWN_MS, MIN_SHOWN_MS, NO_INSTANT } from '../../http/query.ts'
import type { PasswordHasher } from '../passwords/hasher.ts'
import { digestLikeness, parseDigest } from '../passwords/parse-digest.ts'
import { MAX_ID } from '../stored-user.ts'
import { createJudge, type Judged } from '../user-body.ts'
import { createUserFields, emailKey, type UserRulesOptions, userSchema } from '../user-schemas.ts'
import type { ConflictPolicy, ImportedUser, UserImportStore } from './user-import-store.ts'

/** One record of the source, as it was read. */
export interface ImportRecord {
  /** The line at which it begins, from 1. */
  readonly line: number
  /** Its text, by which a resumed import recognises it. */
  readonly raw: string
  /** The fields of a user, or why they cannot be read. */
  readonly content: { readonly row: unknown } | { readonly problem: string }
}

/** A record that did not become a user, with messages by field. `row` has those about the record as a whole. */
export interface RejectedRow {
  readonly line: number
  readonly errors: Readonly<Record<string, readonly string[]>>
}

/** A checked record: the user to store, or what is wrong with the record. A record that is skipped has neither. */
export interface Prepared {
  readonly line: number
  readonly user?: ImportedUser
  readonly errors?: RejectedRow['errors']
}

// The bounds allow every value that the service can show, so that every export can be imported.

const time = z.unknown().transform((value, context) => {
  if (isShownTime(value)) return value
  const text = toIsoText(value)
  if (typeof text === 'string' && ZERO_DATE.test(text)) return undefined
  const isZoneless = typeof text === 'string' && ZONELESS.test(text)
  const { data } = ISO_TEXT.safeParse(text)
  const ms = data === undefined ? Number.NaN : instantMs(data)
  if (ms >= MIN_SHOWN_MS && ms <= MAX_SHOWN_MS) return new Date(ms).toISOString()
  context.addIssue(isZoneless ? NO_ZONE : NO_INSTANT)
  return z.NEVER
})

const ISO_TEXT = instantText()

const SHOWN_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Whether a value is a time as exports have it. Anything else takes longer. */
function isShownTime(value: unknown): value is string {
  if (typeof value !== 'string' || !SHOWN_TIME.test(value)) return false
  const ms = Date.parse(value)
  return !Number.isNaN(ms) && new Date(ms).toISOString() === value
}

/** Seconds or milliseconds since 1970, of the years 2001 to 2286. */
const EPOCH = /^[1-9]\d{9}(?:\d{3})?$/

/** What MySQL writes for a missing date. */
const ZERO_DATE = /^0000-00-00(?:T00:00:00(?:\.0+)?)?$/

/** ISO 8601 for a time since 1970 or as databases and languages print it. Any other value stays as it is. */
function toIsoText(value: unknown): unknown {
  if (typeof value !== 'string' && typeof value !== 'number') return value
  const text = String(value).trim()
  if (EPOCH.test(text)) {
    return new Date(Number(text) * (text.length === 10 ? 1000 : 1)).toISOString()
  }
  return typeof value === 'number'
    ? value
    : text
        .replace(/^([\d-]{10}) (?=\d)/, '$1T')
        .replace(/ (?=[+-]\d\d:?\d\d(?: [A-Z]{3,4})?$)/, '')
        .replace(/([+-]\d{4}) [A-Z]{3,4}$/, '$1')
        .replace(/ ?UTC$/, 'Z')
}

const ZONELESS = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?$/

const NO_ZONE = 'has no time zone: write it with Z or an offset, such as 2026-01-31T12:00:00Z'

const NO_ID = `must be a whole number from 1 to ${MAX_ID}`

const OTHER_ID = `${NO_ID}; --ignore id leaves the ids of another system`

/** The fields that a row may have besides those that clients send. `null` is the same as none. */
const importFields = {
  id: z
    .preprocess(
      toNumber,
      z.custom<number>(value => Number.isSafeInteger(value) && Number(value) >= 1, {
        error: ({ input }) =>
          typeof input === 'string' && !/^\d+$/.test(input) ? OTHER_ID : NO_ID,
      }),
    )
    .nullish(),
  created_at: time.nullish(),
  updated_at: time.nullish(),
  password_digest: z.string('must be a string').transform(toCanonical).nullish(),
}

/** A number if its usual form is exactly this text. Any other value stays as it is. */
function toNumber(value: unknown): unknown {
  if (typeof value !== 'string') return value
  const number = Number(value)
  return String(number) === value.trim() ? number : value
}

/** The names of all fields that a row may have. */
export const IMPORT_COLUMNS = ['name', 'email', 'password', ...Object.keys(importFields)]

/** What is wrong with a password that is like a digest. */
const DIGEST = {
  known: 'is a digest: --column "password=password_digest" takes it as one',
  other: 'is a digest of a kind that is not known: import the user without it',
  bare: 'is hexadecimal digits, as digests are: import without this column, or with --passwords plain if they are passwords',
}

/** The schema of a row: the fields that `user` has in the body of a create, and `importFields`. */
export function createImportRules({
  takesBareDigests = false,
  ...options
}: UserRulesOptions & {
  /** Whether passwords may have the form of a digest of MD5 or SHA. */
  readonly takesBareDigests?: boolean | undefined
}) {
  const fields = createUserFields(options)
  const password = z
    .unknown()
    .superRefine((value, context) => {
      const likeness = typeof value === 'string' ? digestLikeness(value.trim()) : undefined
      if (likeness === undefined || (likeness === 'bare' && takesBareDigests)) return
      const message = DIGEST[likeness]
      context.addIssue({ code: 'custom', message, continue: false })
    })
    .pipe(fields.password)
    .optional()
  return userSchema({ ...fields, password, ...importFields }).refine(
    row => row.password == null || row.password_digest == null,
    { message: 'cannot be given together with password', path: ['password_digest'] },
  )
}

export type ImportRules = ReturnType<typeof createImportRules>

type ImportRow = ReturnType<ImportRules['parse']>

export interface PreparationOptions {
  readonly store: Pick<UserImportStore, 'findUsers'>
  readonly rules: ImportRules
  readonly passwords: Pick<PasswordHasher, 'hash' | 'verify' | 'isCommon'>
  readonly onConflict: ConflictPolicy
}

/** Validates the records of a batch and hashes their passwords, in the order of the records. */
export async function prepareBatch(
  batch: readonly ImportRecord[],
  { store, rules, passwords, onConflict }: PreparationOptions,
): Promise<readonly Prepared[]> {
  const bodies = batch.map(({ content }) => ({ user: 'row' in content ? content.row : undefined }))
  const judged = await createJudge(passwords)(rules, bodies)
  const emails = judged.flatMap(one =>
    'user' in one && one.user.password != null ? [one.user.email] : [],
  )
  const mayExist = onConflict !== 'fail' && emails.length > 0
  const existing = mayExist ? await store.findUsers(emails.map(email => ({ email }))) : []
  const known = new Map(existing.map(user => [emailKey(user.email), user.passwordDigest]))
  /** By e-mail and password: if a row comes twice, both get the same salt, or the second would count as a change. */
  const digests = new Map<string, Promise<string>>()

  function digestOf(email: string, password: string): Promise<string> {
    const key = JSON.stringify([emailKey(email), password])
    const made = digests.get(key) ?? keepOrHash(known.get(emailKey(email)) ?? '', password)
    digests.set(key, made)
    return made
  }

  async function keepOrHash(digest: string, password: string): Promise<string> {
    return (await passwords.verify(digest, password)) ? digest : passwords.hash(password)
  }

  async function prepare({ line, content }: ImportRecord, at: number): Promise<Prepared> {
    const one = judged[at] as Judged<ImportRow>
    if ('problem' in content) return { line, errors: { row: [content.problem] } }
    if ('errors' in one) {
      // Those of the user as a whole are of the row.
      const { user, ...errors } = messagesByField(one.errors)
      return { line, errors: user === undefined ? errors : { ...errors, row: user } }
    }
    const { id, name, email, password, password_digest, created_at, updated_at } = one.user
    // Skipped before its password is hashed, because hashing takes long.
    if (password != null && onConflict === 'skip' && known.has(emailKey(email))) return { line }
    const passwordDigest = password == null ? password_digest : await digestOf(email, password)
    const isReversed = created_at && updated_at && created_at > updated_at
    const user = {
      ...{ id: id ?? undefined, name, email, passwordDigest: passwordDigest ?? undefined },
      createdAt: created_at ?? undefined,
      updatedAt: (isReversed ? created_at : updated_at) ?? undefined,
    }
    return { line, user }
  }

  return Promise.all(batch.map(prepare))
}

/** The canonical form of a digest. */
function toCanonical(text: string, context: z.RefinementCtx): string {
  const digest = parseDigest(text.trim())
  if (digest?.isAffordable) return digest.text
  context.addIssue(
    digest === undefined
      ? 'is not a digest of a known kind'
      : 'would take too much memory or time to verify',
  )
  return z.NEVER
}
