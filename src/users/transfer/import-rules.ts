import {
  createUserFields,
  type Parsed,
  parseUser,
  type UserRulesOptions,
  userOf,
} from '../user-schemas.ts'
import { checkTogether, importFields } from './import-fields.ts'
import type { ImportedUser } from './user-import-store.ts'

/** A valid row. Its password, if it has one, is not hashed yet, and the row then has no digest. */
export type ImportRow = ImportedUser & { readonly password: string | null | undefined }

export interface ImportRules {
  /** Takes a row with the fields that `user` has in the body of a create, and `importFields`. */
  readonly parseImported: (row: unknown) => Parsed<ImportRow>
}

export function createImportRules(options: UserRulesOptions): ImportRules {
  const fields = { ...createUserFields(options), ...importFields }
  const row = userOf(fields)
    .check(checkTogether)
    .transform(
      ({ id, name, email, password, password_digest: digest, created_at, updated_at }) => ({
        id,
        name,
        email,
        password,
        passwordDigest: password === null ? (digest ?? null) : digest,
        createdAt: created_at,
        updatedAt: updated_at,
      }),
    )
  return { parseImported: value => parseUser(row, value) }
}
