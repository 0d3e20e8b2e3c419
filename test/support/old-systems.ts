import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A user that is expected in this service once the export of another system is imported. */
interface MovedUser {
  readonly name: string
  readonly email: string
  /** Undefined where the export has none. */
  readonly created_at?: string
  /** Undefined for a user who has none. */
  readonly password?: string
}

/**
 * The exports of other systems, in exactly their form, each in a folder with its heading in docs/moving-in.md. Digests of bcrypt were
 * made with libxcrypt 4.4 and bcrypt of Rust, PBKDF2 of Keycloak with Python's hashlib; all others are published with their passwords
 * by the system itself or its users.
 */
const FOLDER = fileURLToPath(new URL('old-systems/', import.meta.url))

/** The files of an export by path. */
export function filesOf(system: string): Record<string, string> {
  const folder = join(FOLDER, system)
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  return Object.fromEntries(
    files
      .filter(file => file.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .map(path => [path.slice(folder.length + 1), readFileSync(path, 'utf8')]),
  )
}

const PASSWORD = 'correct horse'
const ANN = { name: 'Ann Lee', email: 'ann@example.com', created_at: '2023-07-22T04:26:40.123Z' }
const ANN_IN_SECONDS = { ...ANN, created_at: '2023-07-22T04:26:40.000Z' }
const BOB = { name: 'bob', email: 'bob@example.com', created_at: '2024-02-29T23:59:59.000Z' }
const BOB_OF_ANY_TIME = { name: 'bob', email: 'bob@example.com' }
const CEM = { name: 'cem', email: 'cem@example.com', created_at: '2024-03-01T00:00:00.000Z' }

/** The users of each system, in the order of its files. */
export const MOVED_USERS: Readonly<Record<string, readonly MovedUser[]>> = {
  Auth0: [
    ...[{ ...ANN, password: PASSWORD }, BOB],
    { ...CEM, name: 'cem@example.com', password: PASSWORD },
  ],
  Firebase: [{ ...ANN, password: 'user1password' }, BOB],
  Keycloak: [{ ...ANN, password: 'secret' }, BOB, { ...CEM, password: PASSWORD }],
  Cognito: [ANN, BOB],
  Supabase: [{ ...ANN, password: PASSWORD }, BOB],
  Django: [{ ...ANN, password: 'lètmein' }, BOB],
  'Rails (Devise)': [{ ...ANN, password: PASSWORD }, BOB],
  WordPress: [
    { ...ANN_IN_SECONDS, password: 'test12345' },
    { ...BOB, password: 'Test123Now!' },
  ],
  Laravel: [{ ...ANN, password: PASSWORD }, BOB_OF_ANY_TIME],
  'ASP.NET Identity': [
    { name: 'ann', email: 'ann@example.com', password: 'my password' },
    BOB_OF_ANY_TIME,
    { name: 'cem', email: 'cem@example.com', password: 'my password' },
  ],
  Meteor: [{ ...ANN, password: PASSWORD }, BOB],
  MongoDB: [{ ...ANN, password: PASSWORD }, BOB],
  MySQL: [
    { ...ANN_IN_SECONDS, password: PASSWORD },
    { ...BOB, name: 'back\\slash "bob"' },
  ],
  PostgreSQL: [
    { ...ANN, password: PASSWORD },
    { ...BOB, name: '"bob"' },
  ],
  'A spreadsheet': [
    { name: 'Ann Lee', email: 'ann@example.com', password: PASSWORD },
    { name: 'Lee; Bob', email: 'bob@example.com' },
  ],
}
