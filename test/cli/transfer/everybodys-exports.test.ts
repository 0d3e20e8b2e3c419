import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { runCommand } from '../../support/run-command.ts'
import { folderWith, rejectsIn, usersIn } from '../../support/transfer.ts'

const FOLDER = new URL('exports/', import.meta.url)

/** What becomes of a file that another system wrote. */
interface Expected {
  /** What the first run proposes, as it is shown; without any, the first run is the only one. */
  readonly proposes?: readonly string[]
  /** What the second run proposes. */
  readonly next?: string
  /** The names of those who come in. */
  readonly in: readonly unknown[]
  /** Lines that are rejected, each with what is said about it. */
  readonly rejected?: Readonly<Record<number, string>>
  /** What the file is refused for, where no option takes it. */
  readonly refused?: string
}

const NO_INSTANT = 'created_at must be an ISO 8601 instant with Z or an offset'
const NO_ZONE = 'created_at has no time zone: write it with Z or an offset'
const KNOWN = 'password is a digest: --column "password=password_digest" takes it as one'
const OTHER = 'password is a digest of a kind that is not known: import the user without it'
const BLANK = "name can't be blank"

const FILES: Readonly<Record<string, Expected>> = {
  'array.json': { in: ['Ann'] },
  'array-of-many-lines.ndjson': { in: ['Ann'] },
  'blanks-before-quotes.csv': { in: ['Ann'] },
  'cells-beyond-headings.csv': { in: ['Ann', 'Bob'] },
  'cells-left-out.csv': { in: ['Ann', 'Bob'] },
  'cognito.csv': { in: ['Ann'] },
  'copy-text.tsv': {
    proposes: ['--escape backslash'],
    in: ['Ann Lee'],
    rejected: { 3: BLANK },
  },
  'devise.csv': {
    proposes: ['--column "encrypted_password=password_digest"', '--ignore "password_hash"'],
    in: ['Ann'],
  },
  'digests-in-password.csv': {
    in: [],
    rejected: {
      ...{ 2: KNOWN, 3: KNOWN, 4: OTHER, 5: OTHER, 6: OTHER, 7: KNOWN, 8: KNOWN, 9: KNOWN },
      ...{ 10: KNOWN, 11: KNOWN, 12: OTHER },
    },
  },
  'digests-of-known-kinds-in-password.csv': {
    proposes: ['--column "password=password_digest"'],
    in: ['Ann'],
    rejected: { 3: 'password_digest is not a digest of a known kind' },
  },
  // Its digests come in by docs/moving-in.md.
  'django.json': {
    proposes: [
      '--column "fields.email=email"',
      '--column "fields.first_name=name"',
      '--column "fields.last_name=name"',
      '--ignore "fields.password"',
    ],
    refused: '"fields.date_joined" looks like created_at: --column "fields.date_joined=created_at"',
    in: [],
  },
  'empty-headings.csv': { in: ['Ann', 'Bob'] },
  'excel-sep.csv': { in: ['Ann'] },
  // Its digests come in by docs/moving-in.md.
  'firebase.json': {
    proposes: [
      '--column "displayName=name"',
      '--column "createdAt=created_at"',
      '--ignore "passwordHash"',
    ],
    in: ['Ann'],
  },
  'gotrue.sql': { refused: 'is SQL: export the table with \\copy', in: [] },
  'gotrue-uuid.csv': { proposes: ['--ignore id'], in: ['Ann'] },
  // Its digests come in by docs/moving-in.md.
  'keycloak-realm.json': {
    proposes: [
      '--column "createdTimestamp=created_at"',
      '--column "firstName=name" --column "lastName=name"',
    ],
    next: '--ignore id',
    in: ['Ann Lee'],
  },
  // Its digests come in by docs/moving-in.md.
  'meteor.json': {
    proposes: [
      '--column "createdAt=created_at"',
      '--ignore "services.password.bcrypt"',
      '--column "emails.0.address=email"',
      '--column "profile.name=name"',
    ],
    in: ['Ann Lee', 'Bob'],
  },
  'mongoexport.json': {
    proposes: ['--column "createdAt=created_at"', '--column "updatedAt=updated_at"'],
    in: ['Ann', 'Bob'],
  },
  'moodle.csv': {
    proposes: ['--column "firstname=name" --column "lastname=name"'],
    in: ['Ann Lee', "Bob O'Brien"],
  },
  'mysql-batch.tsv': {
    proposes: ['--null "NULL" --escape backslash'],
    in: ['Ann Lee', 'Back\\slash'],
    rejected: { 3: BLANK, 4: 'name is invalid' },
  },
  'null-name.csv': {
    proposes: [`--null "NULL" --null '\\N'`],
    in: ['Ann'],
    rejected: { 2: BLANK, 3: BLANK },
  },
  'okta.csv': {
    proposes: [
      '--column "created=created_at"',
      '--column "firstName=name" --column "lastName=name"',
    ],
    in: ['Ann Lee', "Bob O'Brien"],
  },
  // MySQL's times and digests come in by docs/moving-in.md.
  'phpmyadmin.json': {
    proposes: ['--at "2.data"'],
    in: [],
    rejected: { 6: `${KNOWN}, ${NO_ZONE}`, 7: `${KNOWN}, ${NO_ZONE}` },
  },
  'polish-windows-1250.csv': {
    proposes: ['--encoding windows-1250'],
    in: ['Łukasz Wójcik', 'Bożena Śliwa'],
  },
  'times.csv': {
    in: [
      ...['ruby to_s', 'ruby UTC', 'pg with half hour', 'pocketbase', 'java nanos'],
      ...['hour only offset', 'go zero', 'comma fraction', 'sqlserver datetimeoffset', 'cockroach'],
    ],
    rejected: {
      ...{ 5: NO_INSTANT, 7: NO_INSTANT, 8: NO_INSTANT, 9: NO_INSTANT, 10: NO_INSTANT },
      ...{ 12: NO_INSTANT, 13: NO_INSTANT, 14: NO_INSTANT, 15: NO_ZONE, 16: NO_ZONE },
      ...{ 17: NO_INSTANT, 18: NO_INSTANT, 21: NO_INSTANT, 22: NO_INSTANT, 24: NO_INSTANT },
    },
  },
  'updated-before.csv': { in: ['Ann'] },
  'users-by-id.json': { proposes: ['--column "display_name=name"'], in: ['Ann Lee', 'Bob'] },
  // The zone of its times comes in by docs/moving-in.md.
  'wordpress.csv': {
    proposes: [
      '--column "user_pass=password_digest"',
      '--column "user_email=email"',
      '--column "display_name=name"',
      '--column "user_registered=created_at"',
    ],
    in: [],
    rejected: { 2: NO_ZONE },
  },
  'wrapped-digests.csv': {
    in: [
      ...['spring {argon2@SpringSecurity_v5_8}', 'spring {argon2}', 'spring {bcrypt}'],
      ...['dovecot {ARGON2ID}', 'dovecot {BLF-CRYPT}', 'dovecot {SHA512-CRYPT}'],
      ...['crypt {CRYPT}$6$', 'nextcloud 3|argon2id'],
    ],
  },
}

/** The arguments in a text, as a shell takes them. */
function argumentsIn(text: string): string[] {
  return Array.from(text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g), ([, a, b, c = '']) => a ?? b ?? c)
}

test('each file has its expected end', () => {
  expect(readdirSync(FOLDER).sort()).toEqual(Object.keys(FILES).sort())
})

test.each(Object.entries(FILES))('%s comes to its end', async (file, expected) => {
  const { proposes = [], rejected = {}, refused } = expected
  const cwd = folderWith(readFileSync(new URL(file, FOLDER)), file)
  const run = (args: readonly string[]) =>
    runCommand({ cwd, args: ['import', file, '--rejects', 'rejects.ndjson', ...args] })
  if (proposes.length > 0) {
    const { stderr } = await runCommand({ cwd, args: ['import', file] })
    for (const text of proposes) expect(stderr).toContain(text)
    expect(usersIn(cwd)).toEqual([])
  }
  const args = proposes.flatMap(argumentsIn)
  if (expected.next !== undefined) {
    expect((await runCommand({ cwd, args: ['import', file, ...args] })).stderr).toContain(
      expected.next,
    )
    args.push(...argumentsIn(expected.next))
  }
  const { code, stderr } = await run(args)
  if (refused !== undefined) expect(stderr).toContain(refused)
  const lines = Object.keys(rejected)
  expect(code).toBe(
    refused !== undefined ? (file.endsWith('.sql') ? 2 : 1) : lines.length > 0 ? 3 : 0,
  )
  expect(usersIn(cwd).map(({ name }) => name)).toEqual(expected.in)
  if (lines.length === 0) return
  const said = rejectsIn(cwd).map(({ line, errors }) => [
    String(line),
    Object.entries(errors as Record<string, string[]>)
      .map(([field, messages]) => `${field} ${messages.join(', ')}`)
      .join(', '),
  ])
  expect(said).toEqual(
    lines.map(line => [line, expect.stringContaining(rejected[Number(line)] as string)]),
  )
})
