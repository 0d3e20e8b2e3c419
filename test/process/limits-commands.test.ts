import { execFile } from 'node:child_process'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { databaseIn } from '../support/new-database.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { MAIN, run } from '../support/spawn-service.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

const [, SECTION = ''] =
  /^## Trying rules and lifting bans$([\s\S]*?)^## /m.exec(
    readFileSync(join(PROJECT, 'docs/limits.md'), 'utf8'),
  ) ?? []

/** Each command of the section, with its output. */
const STEPS = [...SECTION.matchAll(/^```sh\n(.*)\n```\n\n```\n([\s\S]*?)^```$/gm)]

function withoutTimes(text: string): string {
  return text.replace(/until \S+ \([^)]*\)/g, 'until TIME')
}

test('docs/limits.md shows what the commands about limits and bans print', async () => {
  const cwd = temporaryFolder()
  copyFileSync(join(PROJECT, 'limits.example.json'), join(cwd, 'limits.json'))
  const DATABASE_URL = await databaseIn(cwd)
  await run({ cwd, env: { DATABASE_URL }, args: ['migrate'] })
  expect(STEPS).toHaveLength(5)
  expect(SECTION.match(/^```sh$/gm)).toHaveLength(5)
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL }
  for (const [, command = '', shown = ''] of STEPS) {
    const script = command.replace('npx user-records-service', `"${process.execPath}" "${MAIN}"`)
    const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], { cwd, env })
    expect(withoutTimes(stdout), command).toBe(withoutTimes(shown))
    expect(stderr).toBe('')
  }
})
