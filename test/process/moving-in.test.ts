import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { databaseIn } from '../support/new-database.ts'
import { filesOf, MOVED_USERS } from '../support/old-systems.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { codeBlocks, readProject } from '../support/project.ts'
import { MAIN } from '../support/spawn-service.ts'

/** Of the project in Firebase that MOVED_USERS has users of, by what stands for them in the page. */
const FIREBASE_KEYS = {
  base64_signer_key:
    'jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==',
  base64_salt_separator: 'Bw==',
}

/** The blocks to run here, by heading: those marked `sh`. All others are for the old systems. */
const SCRIPTS = Object.fromEntries(
  readProject('docs/moving-in.md')
    .split('\n## ')
    .map(section => {
      const [heading = ''] = section.split('\n', 1)
      return [heading, codeBlocks(section, 'sh').join('')] as const
    })
    .filter(([, script]) => script !== ''),
)

/** Runs a script in a folder with files. Resolves to what it printed. */
async function runIn(cwd: string, script: string, files: Readonly<Record<string, string>>) {
  const npx = `#!/bin/sh\nshift\nexec "${process.execPath}" "${MAIN}" "$@"\n`
  for (const [path, content] of Object.entries({ ...files, 'bin/npx': npx })) {
    mkdirSync(dirname(join(cwd, path)), { recursive: true })
    writeFileSync(join(cwd, path), content, { mode: 0o755 })
  }
  const PATH = `${join(cwd, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`
  const env = { PATH, DATABASE_URL: await databaseIn(cwd) }
  const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd, env })
  return { stdout, DATABASE_URL: env.DATABASE_URL }
}

test('docs/moving-in.md has an import for each system', () => {
  expect(Object.keys(SCRIPTS)).toEqual(Object.keys(MOVED_USERS))
})

test.each(Object.entries(MOVED_USERS))(
  'users of %s move in by docs/moving-in.md, and log in',
  async (heading, users) => {
    const script = SCRIPTS[heading]?.replaceAll(
      /base64_\w+/g,
      name => FIREBASE_KEYS[name as keyof typeof FIREBASE_KEYS],
    )
    const { stdout, DATABASE_URL } = await runIn(temporaryFolder(), script ?? '', filesOf(heading))
    expect(stdout).toContain(`${users.length} rows, ${users.length} created; `)

    const { http } = await openTestApp({ env: { DATABASE_URL } })
    const { body } = await http.get('/users').expect(200)
    expect(body).toMatchObject(users.map(({ password, ...user }) => user))
    for (const { email, password } of users) {
      const logIn = (text: string) =>
        http.post('/password-verifications').send({ user: { email, password: text } })
      await logIn('another password').expect(422)
      await logIn(password ?? 'correct horse').expect(password === undefined ? 422 : 200)
    }
  },
)
