import type { z } from 'zod'

/** The text of each variable, by its name. */
export type Variables = Readonly<Record<string, string | undefined>>

/** A kind of value that settings can have: how its text is parsed, and what it may be in words. */
export interface ValueKind<T> {
  /** Completes the sentence "it may be …". */
  readonly mayBe: string
  /** Whether no message may show its text. */
  readonly isSecret?: true
  /** `variables` are those that are set beside the text. */
  read(text: string, variables: Variables): Reading<T>
}

/** The value of a text, or what is wrong. */
export type Reading<T> = { readonly value: T } | Refusal

export interface Refusal {
  /** Why the text is wrong, where `mayBe` is not enough. It shows no credentials. */
  readonly why?: string | undefined
  /** The variables that are wrong instead of the text. */
  readonly wrongVariables?: readonly WrongVariable[]
}

export interface WrongVariable {
  readonly name: string
  readonly text: string
  readonly why?: string | undefined
  /** Completes the sentence "it may be …". */
  readonly mayBe: string
}

/** A kind of value that depends on nothing but its text. */
export function kindOf<T>(mayBe: string, schema: z.ZodType<T, string>): ValueKind<T> {
  return {
    mayBe,
    read: (text): Reading<T> => {
      const { success, data } = schema.safeParse(text)
      return success ? { value: data } : {}
    },
  }
}
