import { z } from 'zod'
import type { FieldError } from '../errors.ts'

/** The fields that a client sent for a user, trimmed and normalised. */
export interface UserInput {
  readonly name?: string | undefined
  readonly email?: string | undefined
  /** `null` for no password. */
  readonly password?: string | null | undefined
}

/** A user to create. */
export type NewUserInput = UserInput & { readonly name: string; readonly email: string }

/** An e-mail and a password to verify. */
export interface LoginInput {
  /** Trimmed. May be no address at all. */
  readonly email: string
  /** Any text, because imported passwords follow other rules. */
  readonly password: string
}

/** A valid body, or what is wrong with it. */
export type Parsed<T> =
  | { readonly user: T }
  | {
      readonly errors: readonly FieldError[]
      /** The e-mail, if that field is valid. */
      readonly email: string | undefined
    }

export interface UserRules {
  readonly parseNew: (body: unknown) => Parsed<NewUserInput>
  readonly parseChange: (body: unknown) => Parsed<UserInput>
  readonly parseLogin: (body: unknown) => Parsed<LoginInput>
  /** The schemas of the bodies. */
  readonly schemas: {
    readonly newUser: z.ZodType
    readonly change: z.ZodType
    readonly login: z.ZodType
  }
}

export const MAX_NAME_CHARS = 255

/** The longest address that SMTP can carry: RFC 5321 4.5.3.1.3, less the angle brackets. */
export const MAX_EMAIL_CHARS = 254

export const MAX_PASSWORD_CHARS = 128

/** The longest password that is verified. NFKC takes time quadratic in the length of some texts. */
const MAX_POSSIBLE_PASSWORD_CHARS = 1024

const CONTROL = /\p{Cc}/u

/** These characters change the direction of the text after them, on every page that shows the name. */
const BIDIRECTIONAL_OVERRIDES = /[\u202a-\u202e\u2066-\u2069]/

/** The same rules as patterns for the OpenAPI document. */
const CONTROLS = '\\u0000-\\u001f\\u007f-\\u009f'
const UNCLEAN = `${CONTROLS}\\u202a-\\u202e\\u2066-\\u2069`
const NAME_PATTERN = `^[^${UNCLEAN}\\S]*[^${UNCLEAN}\\s][^${UNCLEAN}]*$`
const PASSWORD_PATTERN = `^[^${CONTROLS}]*$`

const EMAIL = z.regexes.email

export interface UserRulesOptions {
  /** In code points. */
  readonly passwordMinChars: number
}

/** The rules for the body `{"user": {…}}` of create, update and verify. */
export function createUserRules(options: UserRulesOptions): UserRules {
  const { name, email, password } = createUserFields(options)
  const newUser = bodyOf(userOf({ name, email, password }))
  const change = bodyOf(userOf({ name: name.optional(), email: email.optional(), password }))
  const login = bodyOf(userOf(LOGIN_FIELDS))
  return {
    parseNew: value => parseBody(newUser, value),
    parseChange: value => parseBody(change, value),
    parseLogin: value => parseBody(login, value),
    schemas: { newUser, change, login },
  }
}

/** Schemas of the fields that clients send. Characters are code points. */
export function createUserFields({ passwordMinChars }: UserRulesOptions) {
  const name = text()
    .trim()
    .overwrite(toNfc)
    .check(
      findProblems(value => {
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
      findProblems(value => {
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
      findProblems(value => {
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
      description: 'No control characters. `null` means no password, and removes the current one.',
      writeOnly: true,
      examples: ['correct horse battery staple'],
    })
    .optional()

  return { name, email, password }
}

/** The time to normalise a password grows with its length, so there is a maximum here too. */
const LOGIN_FIELDS = {
  email: text()
    .trim()
    .meta({
      description: 'Trimmed, compared without regard to case.',
      examples: ['ann@example.com'],
    }),
  password: text().meta({
    description: `Not trimmed. It may be shorter or longer than a new password, because imported ones may be. One of more than ${MAX_POSSIBLE_PASSWORD_CHARS} characters is wrong.`,
    writeOnly: true,
    examples: ['correct horse battery staple'],
  }),
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

/** The only error of a field that needs the storage. */
export const EMAIL_TAKEN: FieldError = fieldError('email', ['has already been taken'])

const BLANK = "can't be blank"
const INVALID = 'is invalid'
const tooLong = (max: number) => `is too long (maximum is ${max} characters)`

const userError = {
  error: ({ input }: { input?: unknown }) => (input == null ? 'is required' : 'must be an object'),
}

export function userOf<T extends z.core.$ZodLooseShape>(fields: T) {
  return z.object(fields, userError)
}

export function bodyOf<T extends z.ZodType>(user: T) {
  return z.object({ user }, 'is required')
}

function text() {
  return z.string({ error: ({ input }) => (input == null ? BLANK : 'must be a string') })
}

/** A zod check that reports every broken rule of a value. */
function findProblems(
  messagesOf: (value: string) => readonly (string | false)[],
): z.core.CheckFn<string> {
  return ({ value, issues }) => {
    for (const message of messagesOf(value)) {
      if (message !== false) issues.push({ code: 'custom', message, input: value })
    }
  }
}

/** The regular expression of zod overflows the stack on several million characters. */
const MAX_TESTED_UNITS = 100_000

function isEmail(value: string): boolean {
  return value.length <= MAX_TESTED_UNITS && EMAIL.test(value)
}

/** Whether a user may have this e-mail. */
export function isPossibleEmail(value: string): boolean {
  return value.length <= MAX_EMAIL_CHARS && EMAIL.test(value)
}

/** Whether a password may be that of a user, imported ones among them. */
export function isPossiblePassword(value: string): boolean {
  return (
    value.length <= 2 * MAX_POSSIBLE_PASSWORD_CHARS &&
    countChars(value) <= MAX_POSSIBLE_PASSWORD_CHARS
  )
}

function countChars(value: string): number {
  let chars = 0
  for (const _ of value) chars++
  return chars
}

export function parseBody<T>(schema: z.ZodType<{ user: T }>, value: unknown): Parsed<T> {
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
