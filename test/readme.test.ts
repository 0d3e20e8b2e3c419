import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from './support/open-test-app.ts'

const PROJECT = fileURLToPath(new URL('..', import.meta.url))

interface Step {
  readonly command: string
  /** What the block after the command shows, if there is one. */
  readonly shown: string | undefined
}

/** The commands of a page in their order, with the block that comes right after them; both may be indented. */
function readSteps(file: string): Step[] {
  const text = readFileSync(join(PROJECT, file), 'utf8')
  const steps = text.matchAll(/^( *)```sh\n([\s\S]*?)^ *```\n(?:\n```json\n([\s\S]*?)^```\n)?/gm)
  return Array.from(steps, ([, indent = '', command = '', shown]) => ({
    command: command.replaceAll(new RegExp(`^${indent}`, 'gm'), '').trim(),
    shown: shown?.trim(),
  }))
}

function withoutTimes(text: string): string {
  return text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
}

test('README.md shows what its commands do, and so does what it refers to', async () => {
  const [start, ...readme] = readSteps('README.md')
  const steps = [...readme, ...readSteps('docs/import-and-export.md')]
  const folder = temporaryFolder()
  // Whoever runs this test has run the first half; the second is what serves the other steps.
  expect(start?.command).toBe('npm ci && npm start')
  const env = {
    ...process.env,
    PORT: '0',
    DATABASE_URL: join(folder, 'users.db'),
    LOG_LEVEL: 'info',
  }
  const service = spawn('npm', ['start'], {
    cwd: PROJECT,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(service, 'close')
  onTestFinished(async () => {
    service.kill('SIGTERM')
    await closed
  })
  let log = ''
  const url = await new Promise<string>(resolve => {
    service.stdout.on('data', chunk => {
      log += chunk
      const match = /"url":"([^"]+)"/.exec(log)
      if (match?.[1] !== undefined) resolve(match[1])
    })
  })

  const outcomes = []
  for (const { command } of steps) {
    const script = command
      .replaceAll('http://127.0.0.1:3000', url)
      .replaceAll('data/', `${folder}/`)
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: PROJECT, env })
    outcomes.push(withoutTimes(stdout.trim()))
  }

  expect(steps.length).toBeGreaterThan(5)
  for (const [index, { command, shown }] of steps.entries()) {
    if (shown !== undefined) expect(outcomes[index], command).toBe(withoutTimes(shown))
  }
  expect(outcomes.join('\n')).toContain('HTTP/1.1 204 No Content')
  expect(outcomes.join('\n')).toContain('0001_create_users  applied')
  expect(outcomes.at(-1)).toContain('1 rows, 0 created, 1 skipped')
})

test('the first npx in a checkout leaves what is built as it is', async () => {
  const built = () => statSync(join(PROJECT, 'dist', 'main.js')).mtimeMs
  const before = built()
  const args = ['--cache', temporaryFolder(), 'user-records-service', '--version']
  const { stdout } = await promisify(execFile)('npx', args, { cwd: PROJECT })
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  expect(built()).toBe(before)
})
