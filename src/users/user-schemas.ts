import { z } from 'zod'
import { type FieldError, ServiceError } from '../errors.ts'

export const MAX_NAME_CHARS = 255

/** The longest address that SMTP can carry: RFC 5321 4.5.3.1.3, less the angle brackets. */
const MAX_EMAIL_CHARS = 254

const MAX_PASSWORD_CHARS = 128

/** The longest password that is verified. NFKC takes time quadratic in the length of some texts. */
const MAX_POSSIBLE_PASSWORD_CHARS = 1024

/** The expression for e-mails overflows the stack on some ten million characters. */
const MAX_TESTED_UNITS = 100_000

const CONTROL = /\p{Cc}/u

/** These characters change the direction of the text after them, on every page that shows the name. */
const BIDIRECTIONAL_OVERRIDES = /[\u202a-\u202e\u2066-\u2069]/

/** Neither white space, nor a format character, nor a filler. */
const VISIBLE = /(?!\u034f)[^\s\p{Cf}\u115f\u1160\u2800\u3164\uffa0]/u

/**
 * The same rules as patterns for the OpenAPI document. Some readers know neither `\p{Cf}` nor characters beyond U+FFFF in a
 * class, so the pattern of names takes format characters beyond it for visible ones.
 */
const CONTROLS = '\\x00-\\x1f\\x7f-\\x9f'
const OVERRIDES = '\u202a-\u202e\u2066-\u2069'
const SPACES = ' \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000'
const FORMATS =
  '\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb'
const INVISIBLE = `${SPACES}${FORMATS}\u034f\u115f\u1160\u2800\u3164\uffa0`
const NAME_PATTERN = `^[${INVISIBLE}]*[^${CONTROLS}${OVERRIDES}${INVISIBLE}][^${CONTROLS}${OVERRIDES}]*$`
const PASSWORD_PATTERN = `^[^${CONTROLS}]*$`

/** That of `<input type=email>` with a dot in the domain: https://html.spec.whatwg.org/#valid-e-mail-address */
const EMAIL =
  /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+$/

/** The only error of a field that needs the storage. */
export const EMAIL_TAKEN: FieldError = fieldError('email', ['has already been taken'])

/** The error of a password that nobody may choose. */
export const PASSWORD_COMMON: FieldError = fieldError('password', ['is too common'])

/** `email_taken`: nothing but the e-mail is wrong. */
export function takenEmail(): ServiceError {
  return new ServiceError('email_taken', { errors: [EMAIL_TAKEN] })
}

export const BLANK = "can't be blank"
const INVALID = 'is invalid'
const NO_STRING = 'must be a string'
const NO_ID = 'must be a positive integer'

export interface UserRulesOptions {
  /** In code points. */
  readonly passwordMinChars: number
}

export type UserRules = ReturnType<typeof createUserRules>

/** The fields that a client sent for a user, trimmed and normalised. */
export type UserInput = z.infer<UserRules['change']>

/** Schemas of the user in the body `{"user": {…}}` of create, update and verify. */
export function createUserRules(options: UserRulesOptions) {
  const { name, email, password } = createUserFields(options)
  return {
    newUser: userSchema({ name, email, password }),
    change: userSchema({ name: name.optional(), email: email.optional(), password }),
    login: userSchema({ email: LOGIN_EMAIL, password: LOGIN_PASSWORD }),
    /** Of a login by id. It has no e-mail. */
    loginById: userSchema({ id: LOGIN_ID, password: LOGIN_PASSWORD }),
  }
}

export function userSchema<T extends z.core.$ZodLooseShape>(fields: T) {
  return z.object(fields, {
    error: ({ input }) => (input == null ? 'is required' : 'must be an object'),
  })
}

/** Schemas of the fields that clients send. Characters are code points. Every broken rule is reported. */
export function createUserFields({ passwordMinChars }: UserRulesOptions) {
  const name = text()
    .trim()
    .overwrite(toNfc)
    .refine(value => VISIBLE.test(value), { error: BLANK, abort: true })
    .refine(...atMost(MAX_NAME_CHARS))
    .refine(value => isPlainText(value) && !BIDIRECTIONAL_OVERRIDES.test(value), INVALID)
    .meta({
      description:
        'Trimmed and put into NFC. At least one visible character, no control characters, no bidirectional overrides.',
      pattern: NAME_PATTERN,
      minLength: 1,
      maxLength: MAX_NAME_CHARS,
      examples: ['Ann'],
    })
  const email = text()
    .trim()
    .refine(value => value !== '', { error: BLANK, abort: true })
    .refine(value => value.length <= MAX_TESTED_UNITS && EMAIL.test(value), INVALID)
    .refine(...atMost(MAX_EMAIL_CHARS))
    .meta({
      description: 'Trimmed, kept as sent, unique without regard to case.',
      pattern: EMAIL.source,
      maxLength: MAX_EMAIL_CHARS,
      examples: ['ann@example.com'],
    })
  const password = z
    .string(NO_STRING)
    .refine(
      value => countChars(value) >= passwordMinChars,
      `is too short (minimum is ${passwordMinChars} characters)`,
    )
    .refine(...atMost(MAX_PASSWORD_CHARS))
    .refine(isPlainText, INVALID)
    .meta({
      pattern: PASSWORD_PATTERN,
      minLength: passwordMinChars,
      maxLength: MAX_PASSWORD_CHARS,
    })
    .nullable()
    .meta({
      description:
        'No control characters. Common ones may be refused. `null` means no password, and removes the current one.',
      writeOnly: true,
      examples: ['correct horse battery staple'],
    })
    .optional()
  return { name, email, password }
}

const LOGIN_EMAIL = text()
  .trim()
  .meta({
    description: 'Trimmed, compared without regard to case.',
    examples: ['ann@example.com'],
  })

const LOGIN_ID = z
  .number(NO_ID)
  .refine(id => Number.isInteger(id) && id > 0, NO_ID)
  .meta({ type: 'integer', minimum: 1, examples: [1] })

/** The time to normalise a password grows with its length, so there is a maximum here too. */
const LOGIN_PASSWORD = text().meta({
  description: `Not trimmed. It may be shorter or longer than a new password, because imported ones may be. One of more than ${MAX_POSSIBLE_PASSWORD_CHARS} characters is wrong.`,
  writeOnly: true,
  examples: ['correct horse battery staple'],
})

function text() {
  return z.string({ error: ({ input }) => (input == null ? BLANK : NO_STRING) })
}

function atMost(max: number) {
  const isShort = (value: string) => countChars(value) <= max
  return [isShort, `is too long (maximum is ${max} characters)`] as const
}

function isPlainText(value: string): boolean {
  return !CONTROL.test(value) && value.isWellFormed()
}

function countChars(value: string): number {
  return value.replace(/[\u{10000}-\u{10ffff}]/gu, '_').length
}

/** Whether a stored user may have this e-mail. No other is looked for: PostgreSQL takes no NUL. */
export function isPossibleEmail(value: string): boolean {
  return value.length <= MAX_EMAIL_CHARS && isPlainText(value)
}

/** Whether a password may be that of a user, imported ones among them. */
export function isPossiblePassword(value: string): boolean {
  return countChars(value) <= MAX_POSSIBLE_PASSWORD_CHARS
}

export function fieldError(field: string, messages: readonly string[]): FieldError {
  return { field, at: { pointer: field === 'user' ? '/user' : `/user/${field}` }, messages }
}

/** The same for e-mails that differ only in case. No two users have the same. */
export function emailKey(email: string): string {
  return email.toLowerCase()
}

/**
 * Lower-case letters that have the same capital as another letter, and that other letter, by the simple case folding of
 * Unicode: https://www.unicode.org/Public/UNIDATA/CaseFolding.txt. Stored names were folded with this list, so a new letter
 * needs a migration.
 */
const FOLDED: Readonly<Record<string, string>> = {
  ...{ ς: 'σ', µ: 'μ', ϐ: 'β', ϑ: 'θ', ϕ: 'φ', ϖ: 'π', ϰ: 'κ', ϱ: 'ρ', ϵ: 'ε', '\u0345': 'ι' },
  ...{ ſ: 's', ẛ: 'ṡ', ﬅ: 'ﬆ' },
  ...{ ᲀ: 'в', ᲁ: 'д', ᲂ: 'о', ᲃ: 'с', ᲄ: 'т', ᲅ: 'т', ᲆ: 'ъ', ᲇ: 'ѣ', ᲈ: 'ꙋ' },
}

const OTHER_FORMS = /[ςµϐϑϕϖϰϱϵſẛﬅᲀ-ᲈ]|\u0345/g

/** The form for finding and sorting names: the same for names that differ only in case, also beyond ASCII. */
export function foldCase(text: string): string {
  // One letter may become several in lower case, and a folded letter may compose with the mark after it.
  return toNfc(text.toLowerCase().replace(OTHER_FORMS, letter => FOLDED[letter] ?? letter))
}

/** A character decomposes into at most four, each of at most two units of a JavaScript string. */
const MAX_NAME_UNITS = MAX_NAME_CHARS * 4 * 2

/**
 * The composed form (NFC). Text longer than any valid name stays as it is: sorting its marks takes quadratic time, 1.4 s
 * for a body of 100 KB.
 */
export function toNfc(text: string): string {
  return text.length > MAX_NAME_UNITS ? text : text.normalize('NFC')
}
