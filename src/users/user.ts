import { z } from 'zod'
import type { FieldError } from '../errors.ts'
import { checkTogether, importFields } from './import-fields.ts'

/** What a client may say of a user, after trimming and normalising; fields that were not sent are absent. */
export interface UserInput {
  readonly name?: string | undefined
  readonly email?: string | undefined
  /** `null` where there is, or shall be, no password. */
  readonly password?: string | null | undefined
}

/** What a new user needs. */
export type NewUserInput = UserInput & { readonly name: string; readonly email: string }

/** A body that was understood, or what is wrong with it. */
export type Parsed<T> =
  | { readonly user: T }
  | {
      readonly errors: readonly FieldError[]
      /** The e-mail address, where that field by itself is right. */
      readonly email: string | undefined
    }

/** A user from elsewhere. Times are in the form in which they are shown. */
export type ImportedUserInput = NewUserInput & {
  readonly id?: number | undefined
  readonly created_at?: string | undefined
  readonly updated_at?: string | undefined
  /** One that can be verified; never together with a password. */
  readonly password_digest?: string | null | undefined
}

export interface UserRules {
  readonly parseNew: (body: unknown) => Parsed<NewUserInput>
  readonly parseChange: (body: unknown) => Parsed<UserInput>
  /** Of what stands for `user` in a body. */
  readonly parseImported: (row: unknown) => Parsed<ImportedUserInput>
  /** What the two parse by. */
  readonly schemas: { readonly newUser: z.ZodType; readonly change: z.ZodType }
}

export const MAX_NAME_CHARS = 255

/** The longest address that SMTP can carry: RFC 5321 4.5.3.1.3, less the angle brackets. */
export const MAX_EMAIL_CHARS = 254

export const MAX_PASSWORD_CHARS = 128

const CONTROL = /\p{Cc}/u

/** They turn the reading direction of what follows them, and so of a page that shows the name. */
const BIDIRECTIONAL_OVERRIDES = /[\u202a-\u202e\u2066-\u2069]/

/** For readers of the document: what the two above leave, and no blank alone. */
const CONTROLS = '\\u0000-\\u001f\\u007f-\\u009f'
const UNCLEAN = `${CONTROLS}\\u202a-\\u202e\\u2066-\\u2069`
const NAME_PATTERN = `^[^${UNCLEAN}\\S]*[^${UNCLEAN}\\s][^${UNCLEAN}]*$`
const PASSWORD_PATTERN = `^[^${CONTROLS}]*$`

const EMAIL = z.regexes.email

/** The rules for the body `{"user": {…}}` of create and update. Characters are code points. */
export function createUserRules({ passwordMinChars }: { passwordMinChars: number }): UserRules {
  const name = text()
    .trim()
    .overwrite(toNfc)
    .check(
      broken(value => {
        if (value === '') return [BLANK]
        const unclean = CONTROL.test(value) || BIDIRECTIONAL_OVERRIDES.test(value)
        return [
          countChars(value) > MAX_NAME_CHARS && tooLong(MAX_NAME_CHARS),
          (unclean || !value.isWellFormed()) && INVALID,
        ]
      }),
    )
    .meta({
      description:
        'Trimmed and put into NFC. Not blank, no control characters, no bidirectional overrides.',
      pattern: NAME_PATTERN,
      minLength: 1,
      maxLength: MAX_NAME_CHARS,
      examples: ['Ann'],
    })
  const email = text()
    .trim()
    .check(
      broken(value => {
        if (value === '') return [BLANK]
        return [
          !isEmail(value) && INVALID,
          countChars(value) > MAX_EMAIL_CHARS && tooLong(MAX_EMAIL_CHARS),
        ]
      }),
    )
    .meta({
      description: 'Trimmed, kept as sent, unique without regard to case.',
      format: 'email',
      pattern: EMAIL.source,
      maxLength: MAX_EMAIL_CHARS,
      examples: ['ann@example.com'],
    })
  const password = z
    .string({ error: 'must be a string' })
    .check(
      broken(value => {
        const chars = countChars(value)
        return [
          chars < passwordMinChars && `is too short (minimum is ${passwordMinChars} characters)`,
          chars > MAX_PASSWORD_CHARS && tooLong(MAX_PASSWORD_CHARS),
          (CONTROL.test(value) || !value.isWellFormed()) && INVALID,
        ]
      }),
    )
    .meta({
      pattern: PASSWORD_PATTERN,
      minLength: passwordMinChars,
      maxLength: MAX_PASSWORD_CHARS,
    })
    .nullable()
    .meta({
      description:
        'No control characters. `null` is the same as none: it removes the one there was.',
      writeOnly: true,
      examples: ['correct horse battery staple'],
    })
    .optional()

  const newUser = body(z.object({ name, email, password }, userError))
  const change = body(
    z.object({ name: name.optional(), email: email.optional(), password }, userError),
  )
  const imported = body(
    z.object({ name, email, password, ...importFields }, userError).check(checkTogether),
  )
  return {
    parseNew: value => parse(newUser, value),
    parseChange: value => parse(change, value),
    parseImported: row => parse(imported, { user: row }),
    schemas: { newUser, change },
  }
}

/** Text in which names that differ in case only are the same, beyond ASCII too: what names are found and sorted by. */
export function foldCase(text: string): string {
  // Lower case of one letter may be several, and sigma has two, by its place in a word.
  return toNfc(text.toLowerCase().replaceAll('ς', 'σ'))
}

/** A character is at most four in the longest form, and each of these at most two units of a JavaScript string. */
const MAX_NAME_UNITS = MAX_NAME_CHARS * 4 * 2

/**
 * The composed form (NFC), but for text that no name is as long as: to put marks in order takes time by the square of
 * their number, 1.4 s for the 100 KB of a body.
 */
export function toNfc(text: string): string {
  return text.length > MAX_NAME_UNITS ? text : text.normalize('NFC')
}

/** The one message that the storage and not a rule decides. */
export const EMAIL_TAKEN: FieldError = fieldError('email', ['has already been taken'])

const BLANK = "can't be blank"
const INVALID = 'is invalid'
const tooLong = (max: number) => `is too long (maximum is ${max} characters)`

const userError = {
  error: ({ input }: { input?: unknown }) => (input == null ? 'is required' : 'must be an object'),
}

function body<T extends z.ZodType>(user: T) {
  return z.object({ user }, 'is required')
}

function text() {
  return z.string({ error: ({ input }) => (input == null ? BLANK : 'must be a string') })
}

/** A zod check that reports every rule a value breaks. */
function broken(rules: (value: string) => readonly (string | false)[]): z.core.CheckFn<string> {
  return ({ value, issues }) => {
    for (const message of rules(value)) {
      if (message !== false) issues.push({ code: 'custom', message, input: value })
    }
  }
}

/** The expression of zod throws on several million characters, for want of stack. */
const MAX_TESTED_UNITS = 100_000

function isEmail(value: string): boolean {
  return value.length <= MAX_TESTED_UNITS && EMAIL.test(value)
}

function countChars(value: string): number {
  let chars = 0
  for (const _ of value) chars++
  return chars
}

function parse<T>(schema: z.ZodType<{ user: T }>, value: unknown): Parsed<T> {
  const result = schema.safeParse(value)
  if (result.success) return { user: result.data.user }
  const messages = new Map<string, string[]>()
  for (const { path, message } of result.error.issues) {
    const field = String(path[1] ?? 'user')
    messages.set(field, [...(messages.get(field) ?? []), message])
  }
  const email = (value as { user?: { email?: unknown } } | null)?.user?.email
  return {
    errors: [...messages].map(([field, list]) => fieldError(field, list)),
    email: typeof email === 'string' && !messages.has('email') ? email.trim() : undefined,
  }
}

function fieldError(field: string, messages: readonly string[]): FieldError {
  return { field, at: { pointer: field === 'user' ? '/user' : `/user/${field}` }, messages }
}
