import { z } from 'zod'
import {
  instantMs,
  instantText,
  MAX_SHOWN_MS,
  MIN_SHOWN_MS,
  NO_INSTANT,
} from '../../http/instant.ts'
import { MAX_ID } from '../ids-and-times.ts'
import { isPasswordDigest } from '../passwords/digest.ts'

// The bounds allow every value that the service can show, so that every export can be imported.

const id = z.custom<number>(
  value => Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= MAX_ID,
  `must be a whole number from 1 to ${MAX_ID}`,
)

const time = instantText()
  .transform(instantMs)
  .refine(ms => ms >= MIN_SHOWN_MS && ms <= MAX_SHOWN_MS, NO_INSTANT)
  .transform(ms => new Date(ms).toISOString())

const digest = z
  .string('must be a string')
  .refine(isPasswordDigest, 'is not a digest of Argon2, bcrypt or scrypt that can be verified')

/** The fields that a row may have besides those that clients send. */
export const importFields = {
  id: id.optional(),
  created_at: time.optional(),
  updated_at: time.optional(),
  password_digest: digest.nullable().optional(),
}

/** A zod check that reports fields that contradict each other. */
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
  const report = (field: string, message: string) =>
    issues.push({ code: 'custom', message, input: value, path: [field] })
  if (password != null && passwordDigest != null) {
    report('password_digest', 'cannot be given together with password')
  }
  if (created !== undefined && updated !== undefined && updated < created) {
    report('updated_at', 'is before created_at')
  }
}

/** The names of all fields that a row may have. */
export const IMPORT_COLUMNS = ['name', 'email', 'password', ...Object.keys(importFields)]
