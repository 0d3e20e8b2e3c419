import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { databaseIn } from '../../support/new-database.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { runCommand } from '../../support/run-command.ts'

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url))

test('docs/limits.md shows what the commands about limits and bans print', async () => {
  const guide = readFileSync(join(PROJECT, 'docs/limits.md'), 'utf8')
  const [, section = ''] = /^## Trying rules and lifting bans$([\s\S]*?)^## /m.exec(guide) ?? []
  const steps = [...section.matchAll(/^```sh\n(.*)\n```\n\n```\n([\s\S]*?)^```$/gm)]
  expect(steps).toHaveLength(5)
  const cwd = temporaryFolder()
  copyFileSync(join(PROJECT, 'limits.example.json'), join(cwd, 'limits.json'))
  const DATABASE_URL = await databaseIn(cwd)
  await runCommand({ cwd, env: { DATABASE_URL }, args: ['migrate'] })
  const withoutTimes = (text: string) => text.replace(/until \S+ \([^)]*\)/g, 'until TIME')
  for (const [, command = '', shown = ''] of steps) {
    const [variables = '', words = ''] = command.split('npx user-records-service ')
    const LIMITS_FILE = /^LIMITS_FILE=(\S+) $/.exec(variables)?.[1] ?? ''
    const args = (words.match(/"[^"]*"|\S+/g) ?? []).map(word => word.replaceAll('"', ''))
    const { stdout, stderr } = await runCommand({ cwd, env: { DATABASE_URL, LIMITS_FILE }, args })
    // The guide shows a part of what `limits check` prints.
    expect(withoutTimes(stdout), command).toContain(withoutTimes(shown))
    expect(stderr, command).toBe('')
  }
})
