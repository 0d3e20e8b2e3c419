import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { temporaryFolder } from './support/open-test-app.ts'
import { findPostgresBinaries } from './support/postgres-binaries.ts'
import { createPostgresCluster } from './support/postgres-cluster.ts'
import { canStartClusters } from './support/postgres-settings.ts'
import { until } from './support/until.ts'

const PROJECT = fileURLToPath(new URL('..', import.meta.url))

interface Step {
  /** The heading above it. */
  readonly section: string
  readonly command: string
  /** What the block after the command shows, if there is one. */
  readonly shown: string | undefined
}

/** What a service is started with, and where its data are. */
interface Surroundings {
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
}

interface StartedService {
  readonly url: string
  stop(): Promise<void>
}

const MOVE = 'Move to PostgreSQL'

/** The commands of a page in their order, with the block that comes right after them; both may be indented. */
function readSteps(file: string): Step[] {
  const text = readFileSync(join(PROJECT, file), 'utf8')
  const steps = text.matchAll(
    /^#+ (.+)$|^( *)```sh\n([\s\S]*?)^ *```\n(?:\n```(?:json|text)\n([\s\S]*?)^```\n)?/gm,
  )
  let section = ''
  return Array.from(steps).flatMap(([, heading, indent = '', command, shown]) => {
    section = heading ?? section
    if (command === undefined) return []
    const unindented = command.replaceAll(new RegExp(`^${indent}`, 'gm'), '').trim()
    return [{ section, command: unindented, shown: shown?.trim() }]
  })
}

function withoutTimes(text: string): string {
  return text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
}

function surroundings(more: NodeJS.ProcessEnv = {}): Surroundings {
  const folder = temporaryFolder()
  const DATABASE_URL = join(folder, 'users.db')
  return { folder, env: { ...process.env, PORT: '0', DATABASE_URL, LOG_LEVEL: 'info', ...more } }
}

/** Runs a command that ends with `npm start`, until its service listens. */
async function start(command: string, { folder, env }: Surroundings): Promise<StartedService> {
  const script = command.replaceAll('data/', `${folder}/`)
  // In a group of its own, because a signal to the shell does not reach the service.
  const shell = spawn('bash', ['-ec', script], {
    cwd: PROJECT,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  const closed = once(shell, 'close')
  let isClosed = false
  shell.once('close', () => {
    isClosed = true
  })
  const stop = async () => {
    if (!isClosed && shell.pid !== undefined) process.kill(-shell.pid, 'SIGTERM')
    await closed
  }
  onTestFinished(stop)
  let log = ''
  shell.stdout.on('data', chunk => {
    log += chunk
  })
  const url = await until(() => {
    if (isClosed) throw new Error(`${command} ended: ${log}`)
    return /"url":"([^"]+)"/.exec(log)?.[1]
  })
  return { url, stop }
}

/** Runs the steps as somebody who types them, with one service at a time. Returns the output of each. */
async function follow(steps: readonly Step[], at: Surroundings): Promise<string[]> {
  let service: StartedService | undefined
  const outputs: string[] = []
  for (const { command } of steps) {
    if (command.endsWith('npm start')) {
      await service?.stop()
      // Whoever runs this test has installed and built before.
      const free = command.replace(/(?<=MANAGEMENT_PORT=)\d+/, '0')
      service = await start(free.replace('npm ci && ', ''), at)
      outputs.push('')
      continue
    }
    const script = command
      .replaceAll('http://127.0.0.1:3000', service?.url ?? 'http://127.0.0.1:3000')
      .replaceAll('data/', `${at.folder}/`)
    const { stdout } = await promisify(execFile)('bash', ['-c', script], {
      cwd: PROJECT,
      env: at.env,
    })
    outputs.push(withoutTimes(stdout.trim()))
  }
  return outputs
}

// npx takes seconds on a busy machine.
vi.setConfig({ testTimeout: 900_000 })

test('README.md shows what its commands do, and so does what it refers to', async () => {
  const readme = readSteps('README.md').filter(({ section }) => section !== MOVE)
  const others = ['docs/lists.md', 'docs/import-and-export.md'].flatMap(readSteps)
  const steps = [...readme, ...others]
  expect(steps[0]?.command).toBe('npm ci && npm start')

  const outputs = await follow(steps, surroundings())

  expect(steps.length).toBeGreaterThan(15)
  for (const [index, { command, shown }] of steps.entries()) {
    if (shown !== undefined) expect(outputs[index], command).toBe(withoutTimes(shown))
  }
  const output = outputs.join('\n')
  expect(output).toContain('HTTP/1.1 204 No Content')
  expect(output).toContain('0001_create_users  applied')
  expect(outputs.at(-1)).toContain('1 rows, 0 created, 1 skipped')
})

test.skipIf(!canStartClusters)('README.md shows how users move to PostgreSQL', async () => {
  const cluster = await createPostgresCluster()
  onTestFinished(() => cluster.remove())
  const at = surroundings({
    PATH: [findPostgresBinaries(), process.env.PATH].join(delimiter),
    PGHOST: '127.0.0.1',
    PGPORT: String(cluster.port),
    PGUSER: 'postgres',
  })
  const steps = readSteps('README.md')
  const create = steps.find(({ command }) => command.includes('"name": "Ann"'))
  const list = steps.find(({ command }) => command.endsWith(' http://127.0.0.1:3000/users'))
  const move = steps.filter(({ section }) => section === MOVE)
  if (create === undefined || list === undefined) throw new Error('README.md has changed')
  const first = { section: MOVE, command: 'npm start', shown: undefined }

  const outputs = await follow([first, create, ...move, list], at)

  expect(move).toHaveLength(1)
  expect(outputs.at(-1)).toBe(withoutTimes(list.shown ?? ''))
})

test('the first npx in a checkout leaves what is built as it is', async () => {
  const built = () => statSync(join(PROJECT, 'dist', 'main.js')).mtimeMs
  const before = built()
  const args = ['--cache', temporaryFolder(), 'user-records-service', '--version']
  const { stdout } = await promisify(execFile)('npx', args, { cwd: PROJECT })
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  expect(built()).toBe(before)
})
