import { z } from 'zod'
import { instantMs, instantText, NO_INSTANT } from './instant.ts'
import { isPasswordDigest } from './password-digest.ts'

/** So that as many ids again follow it before they are no longer exact as numbers of JSON. */
const MAX_IMPORTED_ID = 2 ** 52

/** Years of four digits, with room for the changes that are still to come. */
const MIN_TIME_MS = Date.UTC(1, 0)
const MAX_TIME_MS = Date.UTC(9000, 0)

const id = z.custom<number>(
  value =>
    Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= MAX_IMPORTED_ID,
  `must be a whole number from 1 to ${MAX_IMPORTED_ID}`,
)

const time = instantText()
  .transform(instantMs)
  .refine(ms => ms >= MIN_TIME_MS && ms < MAX_TIME_MS, NO_INSTANT)
  .transform(ms => new Date(ms).toISOString())

const digest = z
  .string('must be a string')
  .refine(isPasswordDigest, 'is no digest of Argon2, bcrypt or scrypt that can be verified')

/** What a row of an import may say of a user, besides what clients may. */
export const importFields = {
  id: id.optional(),
  created_at: time.optional(),
  updated_at: time.optional(),
  password_digest: digest.nullable().optional(),
}

/** What is wrong between the fields of a row, each of which is right by itself. */
export function checkTogether({
  value,
  issues,
}: z.core.ParsePayload<{
  password?: string | null | undefined
  password_digest?: string | null | undefined
  created_at?: string | undefined
  updated_at?: string | undefined
}>): void {
  const {
    password,
    password_digest: passwordDigest,
    created_at: created,
    updated_at: updated,
  } = value
  const broken = (field: string, message: string) =>
    issues.push({ code: 'custom', message, input: value, path: [field] })
  if (password != null && passwordDigest != null) {
    broken('password_digest', 'cannot be given together with password')
  }
  if (created !== undefined && updated !== undefined && updated < created) {
    broken('updated_at', 'is before created_at')
  }
}

/** The names of all fields that a row may have. */
export const IMPORT_COLUMNS = ['name', 'email', 'password', ...Object.keys(importFields)]
